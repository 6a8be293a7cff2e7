// What `journal.postgres` excludes: judged by the text of the file, since a default hides what was
// set, and a resolved value what it came from.
import type { ConfigDocument } from './document.ts'
import { under } from './faults.ts'
import type { Path } from './faults.ts'
import { isRecord } from './fields.ts'

const AT: Path = ['journal', 'postgres']

const PLACES: Readonly<Record<string, string>> = {
  stdout:
    'cannot be used with journal.postgres: the entries would be spread over the outputs of the replicas; use a sink that all replicas reach over the network',
  file: 'cannot be used with journal.postgres: each replica needs a file of its own. Name the replica in its path, such as /var/lib/auditferry/${env:HOSTNAME}.ndjson, or use a sink that all replicas reach over the network',
}

/** A file of each replica, by a variable of its environment. */
const namesReplica = (path: unknown): boolean => typeof path === 'string' && path.includes('${env:')

export function postgresFaults(document: ConfigDocument): { path: Path; message: string }[] {
  if (!document.has(AT)) return []
  const at: Path = ['journal', 'path']
  const message =
    'cannot be set together with journal.postgres, which keeps the journal in a database: remove one of them'
  const faults = document.has(at) ? [{ path: at, message }] : []
  const sinks = under(document.value, ['sinks'])
  if (!Array.isArray(sinks)) return faults
  for (const [index, sink] of (sinks as unknown[]).entries()) {
    if (!isRecord(sink)) continue
    const refused = PLACES[String(sink['type'])]
    if (refused === undefined || (sink['type'] === 'file' && namesReplica(sink['path']))) continue
    faults.push({ path: ['sinks', index, sink['type'] === 'file' ? 'path' : 'type'], message: refused })
  }
  return faults
}
