// Whether the audit log's paths are there at all: a 404 alone may mean an empty log, or a wrong address.
import { ConnectorError } from '../../model/errors.ts'
import type { Client } from '../client/client.ts'

/** `search` without its `time` must be a 400 (spec §4.1). False where that is a 404 too. Throws ConnectorError where nobody can tell. */
export async function isAuditThere(client: Client, signal: AbortSignal): Promise<boolean> {
  try {
    await client.touch('/api/v1/logs/audit/search', 'live', signal)
    return true
  } catch (error) {
    if (!(error instanceof ConnectorError)) throw error
    if (error.code === 'bad_request') return true
    if (error.code === 'not_found') return false
    throw error
  }
}
