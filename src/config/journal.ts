// What the configuration says of the journal, as the room of the journal wants it.
import type { Config } from './schema.ts'

/** Where it lies, its bounds, and the sinks that it owes to. */
export function journalSettings({ journal, sinks }: Config) {
  return {
    path: journal.path,
    maxBytes: journal.max_bytes,
    keepKeysMs: journal.keep_keys,
    keepSettledBytes: journal.keep_settled,
    maxEntryBytes: journal.limits.max_entry_bytes,
    sinks: sinks.map(({ name }) => name),
  }
}

/** What the log and the ballast may take beside the file, and to spare. */
const BESIDE_BYTES = 128 * 2 ** 20
const MIB = 2 ** 20

/** What to say where a volume of that size cannot hold all that the bounds let the journal take; undefined where it can, or nobody knows. */
export function crampedOn(volumeBytes: number | undefined, journal: Config['journal']): string | undefined {
  const mayTake = journal.max_bytes + journal.keep_settled + BESIDE_BYTES
  if (volumeBytes === undefined || volumeBytes >= mayTake) return undefined
  return (
    `with keep_settled, and ${BESIDE_BYTES / MIB}MiB for log and ballast, the journal may take ${Math.ceil(mayTake / MIB)}MiB, ` +
    `and its volume has ${Math.floor(volumeBytes / MIB)}MiB in all: reading would pause when that is full; ` +
    'give it a larger volume, or set max_bytes and keep_settled so that they fit'
  )
}
