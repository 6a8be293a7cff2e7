// V8's heap, told what this process is like: a small heap of long-lived code, and megabytes of bodies beside it that live for milliseconds.
import { execFile } from 'node:child_process'
import { setFlagsFromString } from 'node:v8'
import type { Log } from '../core/log.ts'

/**
 * Call before anything is loaded. V8 counts the bodies' bytes against the small heap and would mark all of it every ten
 * pages; measured on a drain of 300,000 entries: 33 full collections become 8, a quarter of the CPU time goes; 300 instead of
 * 150 saves little more and takes 30 MB. New space stays at its first size, so that dead bodies are freed soon.
 */
export function tuneHeap(): void {
  setFlagsFromString('--heap-growing-percent=150')
  setFlagsFromString('--semi-space-growth-factor=1')
}

// Tells systemd how far the service is (Type=notify), through its own command systemd-notify: Node has no datagrams over Unix sockets.

/** It waits until the message was read. */
const TOLD_WITHIN_MS = 10_000

/**
 * `state` as sd_notify(3) has it, such as READY=1. Nothing happens where no manager wants to know (NOTIFY_SOCKET); what cannot be
 * told is logged, for the manager would give up waiting. The unit must take it from a child: NotifyAccess=all.
 */
export function tellServiceManager(
  env: Readonly<Record<string, string | undefined>>,
  log: Pick<Log, 'warn'>,
  state: 'READY=1' | 'STOPPING=1',
): void {
  const { NOTIFY_SOCKET: socket, PATH: path } = env
  if (!socket) return
  const options = { env: { NOTIFY_SOCKET: socket, PATH: path }, timeout: TOLD_WITHIN_MS }
  execFile('systemd-notify', [state], options, (error) => {
    if (error) log.warn('The service manager could not be told', { error: error.message })
  })
}
