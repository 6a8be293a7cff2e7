// Tunes V8's heap for this process: a small heap of long-lived code, beside megabytes of bodies
// that live for milliseconds.
import { execFile } from 'node:child_process'
import { setFlagsFromString } from 'node:v8'
import type { Log } from '../core/log.ts'

/**
 * Call before anything is loaded. V8 counts the bodies' bytes against the small heap and would mark
 * all of it every ten pages; measured on a drain of 300,000 entries: 33 full collections become 8,
 * and CPU time drops by a quarter; 300 instead of 150 saves little more and takes 30 MB. New space
 * stays at its initial size, so that unused bodies are freed soon.
 */
export function tuneHeap(): void {
  setFlagsFromString('--heap-growing-percent=150')
  setFlagsFromString('--semi-space-growth-factor=1')
}

// Notifies systemd of the service state (Type=notify) with its command systemd-notify: Node has no
// datagrams over Unix sockets.

/** It waits until the message was read. */
const NOTIFY_TIMEOUT_MS = 10_000

/**
 * `state` as in sd_notify(3), such as READY=1. Does nothing without a manager (NOTIFY_SOCKET); a
 * failure is logged, because the manager would give up waiting. The unit must accept messages of
 * child processes: NotifyAccess=all.
 */
export function notifyServiceManager(
  env: Readonly<Record<string, string | undefined>>,
  log: Pick<Log, 'warn'>,
  state: 'READY=1' | 'STOPPING=1',
): void {
  const { NOTIFY_SOCKET: socket, PATH: path } = env
  if (!socket) return
  const options = { env: { NOTIFY_SOCKET: socket, PATH: path }, timeout: NOTIFY_TIMEOUT_MS }
  execFile('systemd-notify', [state], options, (error) => {
    if (error) log.warn('systemd could not be notified of the service state', { error: error.message })
  })
}
