// Converts the configuration into the journal's options.
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
  keepSettledBytes: journal.keep_delivered,
  maxEntryBytes: journal.limits.max_entry_bytes,
})

/** Path, bounds and sinks. */
export function journalSettings({ journal, sinks }: Config) {
  return {
    path: journal.path,
    keepKeysMs: journal.dedup_retention,
    ...boundsOf(journal),
    sinks: sinks.map(({ name }) => name),
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
