// Failures that less of an answer may escape: what the audit log's pages and the vault's are narrowed for.
import { ConnectorError } from '../model/errors.ts'

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
