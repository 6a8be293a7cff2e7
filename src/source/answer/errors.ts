// What a failed answer says about what was asked for: it is gone, it cannot be read, it may be too much at once.
import { ConnectorError } from '../../model/errors.ts'

/**
 * True when the answer may have been too much for something in between, or for the server itself. Just as well it is an
 * outage, so it says nothing about what the answer holds. `begun`: its head had come.
 */
export function isTooMuch(error: unknown, begun: boolean): error is ConnectorError {
  if (!(error instanceof ConnectorError)) return false
  // Cut off in the middle may be a proxy's limit.
  if (error.code === 'unreachable') return begun
  return error.code === 'server_error' || error.code === 'timeout' || error.code === 'too_large'
}

/** True for an answer that says: what you name is not there. */
export function isGone(error: unknown): boolean {
  return error instanceof ConnectorError && (error.code === 'not_found' || error.code === 'bad_request')
}

/** True when the other side answered, but not with what can be read. */
export function isUnreadable(error: unknown): error is ConnectorError {
  return error instanceof ConnectorError && (error.code === 'bad_reply' || error.code === 'too_large')
}

/** The same error with what is done about it. */
export function toldAs(error: ConnectorError, next: string): ConnectorError {
  const { code, message, retryAfterMs } = error
  return new ConnectorError(code, `${message}; ${next}`, { cause: error, retryAfterMs })
}
