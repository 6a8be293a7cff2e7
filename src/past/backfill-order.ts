// How a backfill stands in the journal's notes, what is counted of it, and how the status page tells it.
import { z } from 'zod'
import { ConnectorError } from '../model/errors.ts'
import type { Appended } from '../model/appended.ts'
import type { Backfill } from '../model/backfill.ts'
import { sourceNames } from '../model/source.ts'
import type { Part } from '../model/source.ts'
import { isoFromUs } from '../model/time.ts'
import { pastState } from '../ops/status.ts'
import type { BackfillStatus } from '../ops/status.ts'
import { readNote } from './notes.ts'
import type { Progress } from './progress.ts'

const count = z.number()
/** As it stands in the journal's notes. */
const stored = z.object({
  v: z.literal(1),
  origin: z.object({ workspace: z.string(), source: z.enum(sourceNames) }),
  /** µs */
  fromUs: z.number(),
  toUs: z.number(),
  /** epoch ms */
  begunAt: z.number(),
  endedAt: z.number().exactOptional(),
  /** µs; of how its reading fares, the rest is the order */
  atUs: z.number().exactOptional(),
  counts: z.object({
    read: count,
    new: count,
    known: count,
    filtered: count,
    quarantined: count,
    gaps: count,
  }),
  /** once it has ended */
  unread: z
    .array(z.object({ fromUs: z.number(), toUs: z.number(), why: z.enum(['refused', 'unreadable']) }))
    .readonly()
    .exactOptional(),
  /** where its reading is, opaque */
  place: z.string().exactOptional(),
})
export type StoredBackfill = Omit<z.output<typeof stored>, 'atUs'>

export const NOTE = 'backfill:'
export const nameOf = ({ origin: { workspace, source } }: StoredBackfill) => `${NOTE}${workspace}:${source}`

export const none: Backfill['counts'] = { read: 0, new: 0, known: 0, filtered: 0, quarantined: 0, gaps: 0 }

export const readOrder = (note: string) => readNote(stored, note)

export function added(
  counts: Backfill['counts'],
  { entries, quarantined, gaps }: Pick<Part, 'entries' | 'quarantined' | 'gaps'>,
  appended: Appended,
): Backfill['counts'] {
  return {
    read: counts.read + entries.count + quarantined.length,
    new: counts.new + appended.added + appended.late,
    known: counts.known + appended.known,
    filtered: counts.filtered + appended.filtered,
    quarantined: counts.quarantined + appended.quarantined,
    gaps: counts.gaps + gaps,
  }
}

/** A source has one backfill at a time. A span given relative to now has moved since: the message names the one under way. */
export function otherSpan({
  origin,
  fromUs,
  toUs,
}: Pick<StoredBackfill, 'origin' | 'fromUs' | 'toUs'>): ConnectorError {
  return new ConnectorError(
    'misconfigured',
    `A backfill of ${origin.workspace} ${origin.source} over another span is under way (from ${isoFromUs(fromUs)} to ${isoFromUs(toUs)}): wait for it (backfill --status) or end it (backfill --cancel)`,
  )
}

export function reportOf(
  { origin, fromUs, toUs, begunAt, endedAt, counts, unread = [] }: StoredBackfill,
  { atUs, error, waitsFor, waitReason }: Progress,
): Backfill {
  const why = error && { code: error.code, message: error.message }
  return { origin, fromUs, toUs, begunAt, endedAt, atUs, counts, unread, error: why, waitsFor, waitReason }
}

/** As the status page has it. */
export function backfillStatusOf(backfill: Backfill): BackfillStatus {
  const { origin, fromUs, toUs, counts } = backfill
  return {
    workspace: origin.workspace,
    source: origin.source,
    from: isoFromUs(fromUs),
    to: isoFromUs(toUs),
    ...pastState(backfill),
    read_entries: counts.read,
    new_entries: counts.new,
    gaps: counts.gaps,
  }
}
