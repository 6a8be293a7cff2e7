// The one error class and its closed list of codes. The code is the decision (retry, hold, pause, …) and the metric's label.
import { constants } from 'node:os'

/** What a conductor does when an error of a code reaches it. */
type Action =
  /** try the same thing again after a backoff, for ever */
  | 'retry'
  /** configuration is at fault: say so once, go on trying slowly, fail no probe */
  | 'hold'
  /** no room: stop taking in, go on giving out */
  | 'pause'
  /** the receiver refuses this content for good: halve the batch, park a single entry */
  | 'split'
  /** nothing sane can follow: stop the process */
  | 'exit'
  /** we were told to stop: not a fault */
  | 'stop'

const actions = {
  aborted: 'stop',
  config_invalid: 'exit',
  // asking and sending
  unauthorized: 'hold',
  forbidden: 'hold',
  not_found: 'hold',
  bad_request: 'hold',
  redirected: 'hold',
  tls_invalid: 'hold',
  misconfigured: 'hold',
  rate_limited: 'retry',
  server_error: 'retry',
  unreachable: 'retry',
  timeout: 'retry',
  bad_reply: 'retry',
  too_large: 'split',
  refused: 'split',
  // keeping
  journal_full: 'pause',
  disk_full: 'pause',
  journal_in_use: 'exit',
  journal_corrupt: 'exit',
  disk_failed: 'exit',
} as const satisfies Record<string, Action>

export type ErrorCode = keyof typeof actions

/** Every code there is, for metrics that must know their labels at start. */
export const errorCodes = Object.keys(actions) as readonly ErrorCode[]

export function actionOf(code: ErrorCode): Action {
  return actions[code]
}

interface ErrorDetails {
  /** the other side's own hint of when to come back */
  readonly retryAfterMs?: number | undefined
  readonly cause?: unknown
}

/**
 * The only error that our rooms throw on purpose. The message is for an operator: what, where, why, what to do
 * next; never a secret, never a byte of content. Anything else that is thrown is a bug and stops the process.
 */
export class ConnectorError extends Error {
  override readonly name = 'ConnectorError'
  readonly code: ErrorCode
  readonly retryAfterMs: number | undefined

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause })
    this.code = code
    this.retryAfterMs = details.retryAfterMs
  }

  get action(): Action {
    return actions[this.code]
  }
}

/** True for an error that only says: we were asked to stop. */
export function isAbort(error: unknown): boolean {
  if (error instanceof ConnectorError) return error.code === 'aborted'
  return error instanceof Error && error.name === 'AbortError'
}

/** What the system says where a disk, a quota or a limit leaves no room. */
const NO_ROOM = new Set(['ENOSPC', 'EDQUOT', 'EFBIG'])

export const isNoRoom = (code: string): boolean => NO_ROOM.has(code)

/** No file and no connection can be had until another one is closed: says nothing of the one that was asked for. */
export const isOutOfFiles = (cause: unknown): boolean => ['EMFILE', 'ENFILE'].includes(errnoOf(cause, ''))

export const OUT_OF_FILES = 'too many files are open; raise the limit (ulimit -n, LimitNOFILE)'

/** `| head`, a pager that was closed. */
export const isReaderGone = (code: string): boolean => code === 'EPIPE' || code.startsWith('ERR_STREAM_')

/** Node has no name for some of the system's faults, ESTALE and EDQUOT among them, and gives their numbers. */
const UNNAMED = /^Unknown system error /
const names = new Map(Object.entries(constants.errno).map(([name, errno]) => [-errno, name]))

/** What the system says of a fault, such as ENOENT; `otherwise` where it says nothing. */
export function errnoOf(cause: unknown, otherwise = 'no code'): string {
  if (!(cause instanceof Error) || !('code' in cause) || typeof cause.code !== 'string') return otherwise
  if (!UNNAMED.test(cause.code) || !('errno' in cause)) return cause.code
  return names.get(Number(cause.errno)) ?? cause.code
}

// What may be told of an error that is not ours: its name and where it was thrown. Its message, its cause and its fields may hold a secret or content.

/** The innermost frames. A message of many lines could look like one, so they are read behind it. */
export function thrownAt({ message, stack = '' }: Error): string {
  const at = stack.indexOf(message)
  if (at < 0) return 'unknown'
  const frames = stack.slice(at + message.length).split('\n')
  return frames
    .filter((line) => /^ {4}at \S/.test(line))
    .slice(0, 4)
    .map((line) => line.trim())
    .join(' < ')
}

/** For standard error, as the last words of a process. */
export function bugLine(error: unknown): string {
  const what = error instanceof Error ? `${error.constructor.name} ${thrownAt(error)}` : typeof error
  return `auditferry: a bug, please report it: ${what}\n`
}
