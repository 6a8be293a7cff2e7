// Tells systemd how far the service is (Type=notify), through its own command systemd-notify: Node has no datagrams over Unix sockets.
import { execFile } from 'node:child_process'
import type { Log } from '../model/log.ts'

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
