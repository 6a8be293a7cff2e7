// A job as it is stored in the journal, also in the two forms of older versions.
import { z } from 'zod'
import { jobKinds, noCounts } from '../contracts/jobs.ts'
import type { Job, JobCounts, Missing } from '../contracts/jobs.ts'
import type { StateEntry } from '../contracts/journal.ts'
import { sourceNames } from '../contracts/source.ts'
import { jsonOf } from '../core/json.ts'
import { notBegun, reported } from './range.ts'
import type { Progress } from './range.ts'

const number = z.number()
const span = z.object({ fromUs: number, toUs: number })
const common = {
  stream: z.object({ workspace: z.string(), source: z.enum(sourceNames) }),
  /** epoch ms */
  endedAt: number.exactOptional(),
  /** own time of the last entry read, µs */
  atUs: number.exactOptional(),
  /** cursor within the span, opaque */
  place: z.string().exactOptional(),
}
/** An answer of this span broke off: what it returned may come again in other windows. */
const voided = z.literal(true).exactOptional()
const unread = z.array(span.extend({ why: z.enum(['refused', 'unreadable']) }))
const countsOf = <Name extends keyof JobCounts>(...names: readonly Name[]) =>
  z.object(Object.fromEntries(names.map((name) => [name, number])) as Record<Name, typeof number>)

const stored = z.object({
  v: z.literal(2),
  kind: z.enum(jobKinds),
  ...common,
  sink: z.string().exactOptional(),
  asked: z.array(span),
  spans: z.array(span),
  /** index of the span that is read */
  span: number,
  /** epoch ms */
  startedAt: number,
  counts: countsOf(...(Object.keys(noCounts) as (keyof JobCounts)[])),
  unread,
  voided,
})
type Stored = z.output<typeof stored>
export type JobRecord = Omit<Stored, 'atUs'>

const backfillV1 = z
  .object({
    v: z.literal(1),
    ...common,
    fromUs: number,
    toUs: number,
    begunAt: number,
    counts: countsOf('read', 'new', 'known', 'filtered', 'quarantined', 'gaps'),
    unread: unread.exactOptional(),
  })
  .transform(({ fromUs, toUs, begunAt, counts, ...rest }): Stored => {
    const spans = [{ fromUs, toUs }]
    const asWritten = { unread: [], ...rest, counts: { ...noCounts, ...counts } }
    const span = rest.endedAt === undefined ? 0 : 1
    return { ...asWritten, v: 2, kind: 'backfill', asked: spans, spans, span, startedAt: begunAt }
  })

const replayV1 = z
  .object({
    v: z.literal(1),
    ...common,
    sink: z.string(),
    spans: z.array(span),
    /** JSON */
    asked: z.string(),
    span: number,
    runAt: number,
    counts: countsOf('read', 'sent', 'filtered', 'unknown', 'malformed', 'gaps'),
    voided,
  })
  .transform(({ asked, runAt, counts, ...rest }): Stored => {
    const asWritten = { ...rest, counts: { ...noCounts, ...counts }, unread: [] }
    const spans = jsonOf(z.array(span), asked) ?? rest.spans
    return { ...asWritten, v: 2, kind: 'replay', asked: spans, startedAt: runAt }
  })

const anyForm = z.union([stored, backfillV1, replayV1])

/** A job in memory: from its start, or a restart that finds it, until it leaves the list. */
export interface JobState extends Progress {
  record: JobRecord
  readonly cancelled: AbortController
  /** what the configuration lacks for it: until then it waits in the journal */
  lacks: Missing | undefined
  /** of a replay: marks of what was sent of the current page, also by an earlier process */
  readonly sent: Set<string>
  /** names of the state entries with these marks */
  pageEntries: string[]
  /** both are read: after a restart only when the job's turn comes */
  isLoaded: boolean
}

/** `atUs`: its progress, from a state entry. */
export const stateOf = (record: JobRecord, atUs?: number): JobState => ({
  ...{ ...notBegun, record, atUs, waitsFor: 'turn', lacks: undefined },
  ...{ cancelled: new AbortController(), sent: new Set<string>(), pageEntries: [], isLoaded: false },
})

/** Undefined if this version cannot read it. */
export function readEntry(text: string): JobState | undefined {
  const found = jsonOf(anyForm, text)
  if (!found) return undefined
  const { atUs, ...record } = found
  return stateOf(record, atUs)
}

/** The common part of the names of a job's state entry and of those of its pages. */
export const keyOf = ({ stream, sink }: Pick<JobRecord, 'stream' | 'sink'>): string =>
  `${sink === undefined ? '' : `${sink}:`}${stream.workspace}:${stream.source}`

/** Only one job at a time has this name. */
export const nameOf = (record: Pick<JobRecord, 'kind' | 'stream' | 'sink'>): string =>
  `${record.kind}:${keyOf(record)}`

/** `record`: the job's, once the entry is written. */
export const entryOf = ({ atUs }: Pick<Progress, 'atUs'>, record: JobRecord): StateEntry => ({
  name: nameOf(record),
  value: JSON.stringify({ ...record, atUs }),
})

/** As the commands and the status page see it. */
export function jobOf({ record, ...progress }: JobState): Job {
  const { kind, stream, sink, asked, spans, startedAt, endedAt, counts, unread: left } = record
  const whose = { kind, stream, ...(sink !== undefined && { sink }) }
  const { atUs, error, waitsFor, waitReason } = reported(progress)
  return {
    ...{ ...whose, asked, spans, startedAt, endedAt, counts, unread: left },
    ...{ atUs, error, waitsFor, waitReason },
  }
}
