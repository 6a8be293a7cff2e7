// The only error class and its closed list of codes. The code decides what to do (retry, block,
// pause, …) and is the metric's label.
import { constants } from 'node:os'

/** What a loop does with an error of a code. */
type Action =
  /** retry after a backoff, for ever */
  | 'retry'
  /** the configuration is wrong: log once, keep trying slowly, fail no probe */
  | 'block'
  /** no room: the loop that met it waits; the journal pauses reading only */
  | 'pause'
  /** the receiver rejects this content for good: halve the batch; one entry: a dead letter */
  | 'split'
  /** another process has this shard now: stop its loops, not the process */
  | 'yield'
  /** cannot continue: stop the process */
  | 'exit'
  /** we were asked to stop: not a fault */
  | 'stop'

const actions = {
  aborted: 'stop',
  config_invalid: 'exit',
  // asking and sending
  unauthorized: 'block',
  forbidden: 'block',
  not_found: 'block',
  bad_request: 'block',
  redirected: 'block',
  tls_invalid: 'block',
  misconfigured: 'block',
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
  // The journal's database cannot be reached or accepts no writes: nothing of the call was stored.
  store_unavailable: 'retry',
  lease_lost: 'yield',
  journal_in_use: 'exit',
  journal_corrupt: 'exit',
  disk_failed: 'exit',
} as const satisfies Record<string, Action>

export type ErrorCode = keyof typeof actions

/** Every code, for metrics that need all labels at start. */
export const errorCodes = Object.keys(actions) as readonly ErrorCode[]

export function actionOf(code: ErrorCode): Action {
  return actions[code]
}

interface ErrorDetails {
  /** the server's own hint of when to retry */
  readonly retryAfterMs?: number | undefined
  readonly cause?: unknown
}

/**
 * The only error that modules throw on purpose. The message is for an operator: what, where, why,
 * what to do next; never a secret or a byte of content. Any other error is a bug and stops the
 * process.
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

/** False: the loop that met it ends with it, and all others of its shard. A bug is no ConnectorError. */
export const isRetried = (error: unknown): error is ConnectorError =>
  error instanceof ConnectorError && error.action !== 'exit' && error.action !== 'yield'

/** True for an error that only means: we were asked to stop. */
export function isAbort(error: unknown): boolean {
  if (error instanceof ConnectorError) return error.code === 'aborted'
  return error instanceof Error && error.name === 'AbortError'
}

/** Error codes of the system for a full disk, a quota or a limit. */
const DISK_FULL_CODES = new Set(['ENOSPC', 'EDQUOT', 'EFBIG'])

export const isDiskFull = (code: string): boolean => DISK_FULL_CODES.has(code)

/** No file or connection can be opened until another one is closed: no fault of this one. */
export const isOutOfFiles = (cause: unknown): boolean => ['EMFILE', 'ENFILE'].includes(errnoOf(cause, ''))

export const OUT_OF_FILES = 'too many files are open; raise the limit (ulimit -n, LimitNOFILE)'

/** Why a file cannot be read, by the code of the error: the system's, or one of ours. */
export const readFaults: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  EACCES: 'this user may not read it: chown or chmod it',
  EPERM: 'this user may not read it: chown or chmod it',
  EISDIR: 'it is a folder',
  ENOTDIR: 'a part of its path is not a folder',
  NOT_REGULAR: 'it is a device, pipe or socket: expected a regular file',
  EFBIG: 'it is larger than 1 MiB',
  EMFILE: OUT_OF_FILES,
  ENFILE: OUT_OF_FILES,
  NOT_UTF8: 'it is not UTF-8: save it as UTF-8',
}

/** `| head`, a pager that was closed. */
export const isReaderGone = (code: string): boolean => code === 'EPIPE' || code.startsWith('ERR_STREAM_')

/** Node has no name for some system errors, such as ESTALE and EDQUOT, and gives their numbers. */
const UNNAMED = /^Unknown system error /
const names = new Map(Object.entries(constants.errno).map(([name, errno]) => [-errno, name]))

/** The system's error code, such as ENOENT; `otherwise` if there is none. */
export function errnoOf(cause: unknown, otherwise = 'no code'): string {
  if (!(cause instanceof Error) || !('code' in cause) || typeof cause.code !== 'string') return otherwise
  if (!UNNAMED.test(cause.code) || !('errno' in cause)) return cause.code
  return names.get(Number(cause.errno)) ?? cause.code
}

// What may be reported of a foreign error: its name and where it was thrown. Its message, cause and
// fields may contain a secret or content.

/** The innermost frames. A multi-line message could look like frames, so they are read after it. */
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

/** For standard error, as the last output of a process. */
export function bugLine(error: unknown): string {
  const what = error instanceof Error ? `${error.constructor.name} ${thrownAt(error)}` : typeof error
  return `auditferry: a bug, please report it: ${what}\n`
}
