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
