// Converts the configuration into the journal's options.
import { createHash } from 'node:crypto'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { addressOf, databaseText } from '../journal/postgres/address.ts'
import { besideBytes, wantedBytes } from '../journal/sqlite/files.ts'
import { isoFromUs } from '../core/time.ts'
import type { Start } from '../sources/shared.ts'
import type { Config } from './schema.ts'
import { durationText } from './render.ts'

function startText(start: Start): string {
  if (start.kind === 'span') return durationText(start.ms)
  return start.kind === 'time' ? isoFromUs(start.atUs) : start.kind
}

const startsOf = ({ audit, history }: Config['workspaces'][number]) => ({
  ...(audit && { auditStart: startText(audit.start) }),
  ...(history && { historyStart: startText(history.start) }),
})

/** Workspaces with their starts, only for the daemon, which logs when one is added or removed. */
export const journalWorkspaces = ({ workspaces }: Config) =>
  workspaces.map((one) => ({ name: one.name, starts: startsOf(one) }))

const boundsOf = (journal: Config['journal']) => ({
  maxBytes: journal.max_bytes,
  keepDeliveredBytes: journal.keep_delivered,
  maxEntryBytes: journal.limits.max_entry_bytes,
})

/**
 * The control socket and the spool have names that begin with it: the journal's, where it is a file,
 * else in a folder of this replica.
 */
export function basePath({ journal }: Pick<Config, 'journal'>): string {
  const { path, postgres } = journal
  if (postgres === undefined) return path
  const { host, port, database } = addressOf(postgres.url.reveal())
  const place = JSON.stringify([host, port, database, postgres.schema])
  const digest = createHash('sha256').update(place).digest('hex').slice(0, 8)
  return join(tmpdir(), `auditferry-${digest}`, 'replica')
}

/** Where the journal is, for people. */
export function journalText({ journal: { path, postgres } }: Pick<Config, 'journal'>): string {
  if (!postgres) return path
  return `${databaseText(addressOf(postgres.url.reveal()))}, schema ${postgres.schema}`
}

/** Path and bounds. */
export function journalSettings({ journal }: Pick<Config, 'journal'>) {
  return {
    path: journal.path,
    keepKeysMs: journal.dedup_retention,
    ...boundsOf(journal),
  }
}

const MIB = 2 ** 20

/** A warning if a volume of this size is too small; undefined if it fits or is unknown. */
export function smallVolumeText(
  volumeBytes: number | undefined,
  journal: Config['journal'],
): string | undefined {
  const bounds = boundsOf(journal)
  const [beside, mayTake] = [besideBytes(bounds), wantedBytes(bounds)]
  if (volumeBytes === undefined || volumeBytes >= mayTake) return undefined
  return (
    `with keep_delivered, and ${Math.ceil(beside / MIB)}MiB for log and ballast, the journal may take ${Math.ceil(mayTake / MIB)}MiB and room for its keys, ` +
    `and its volume has ${Math.floor(volumeBytes / MIB)}MiB in all: reading would pause when that is full; ` +
    'give it a larger volume, or set max_bytes and keep_delivered so that they fit'
  )
}
