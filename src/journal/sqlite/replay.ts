// Replay: entries of a span of time that are still stored, or were read again, are put at the
// journal's end for one sink, marked as a replay.
import type { Database } from 'better-sqlite3'
import { ConnectorError } from '../../core/errors.ts'
import { Entries, TRANSACTION_BYTES } from '../../contracts/entries.ts'
import type { DayCount } from '../../contracts/accounts.ts'
import type { Batch, Replayed, ReplayQuery, Resend, ChunkSlice } from '../../contracts/journal.ts'
import type { Seq, SequenceRange } from '../../core/sequence.ts'
import { assertJobShare } from '../../contracts/jobs.ts'
import { isSameStream } from '../../contracts/source.ts'
import { DAY_US, epochDay } from '../../core/time.ts'
import { applyPut, putChunks, refuseWhenFull, SMALL_BYTES, sourceOf } from './append.ts'
import { pack, payloadBytes } from '../rules/chunk.ts'
import type { Core } from './core.ts'
import type { Settled } from './pending.ts'
import { writeNotes } from './state.ts'
import type { NoteStatements } from './state.ts'

/** Entries per step: it runs on the main thread. */
const STEP_CHUNKS = 64
const STEP_BYTES = 2 * TRANSACTION_BYTES

const everything = { maxEntries: Infinity, maxBytes: Infinity }

type ReplayStatements = ReturnType<typeof prepareReplay>

export function prepareReplay(db: Database) {
  return {
    // Entries addressed to one sink only are copies: the originals are at an earlier place.
    next: db.prepare<[Seq, Seq, number], { first: Seq; last: Seq; payload: number }>(
      'SELECT first, last, payload FROM chunks WHERE first > ? AND first <= ? AND only_sink IS NULL ORDER BY first LIMIT ?',
    ),
    keptSince: db
      .prepare<[], number | null>(
        'SELECT appended_at FROM chunks WHERE first = (SELECT min(first) FROM chunks)',
      )
      .pluck(),
  }
}

interface Found {
  readonly run: ChunkSlice
  readonly entries: Entries
}

/**
 * One bounded step. Skips entries that the sink has not acknowledged, since they are pending
 * already, but not those that it acknowledged out of order. Throws ConnectorError `journal_full` if
 * pending entries fill the share of jobs; then nothing of the step has landed. `misconfigured`: the
 * journal has no such sink.
 */
export function replay(core: Core, statements: ReplayStatements, query: ReplayQuery): Replayed {
  const { ledger, transactions } = core
  const { position, ahead } = acknowledgementOf(core, query.sink)
  const until = query.until ?? ahead.at(-1)?.last ?? position
  const settled = [{ first: 1, last: position }, ...ahead]
  const looked = transactions.read(() => statements.next.all(query.after, until, STEP_CHUNKS))
  const { found, through } = transactions.read(() => look(core, { ...query, until }, settled, looked))
  const entries = found.reduce((sum, { entries: { count } }) => sum + count, 0)
  const bytes = found.reduce((sum, each) => sum + payloadBytes(each.entries), 0)
  if (!query.dryRun && entries > 0) {
    assertJobShare({ bytes: ledger.pendingBytes, capacityBytes: core.maxBytes })
    transactions.writeNew(() => put(core, query, found), bytes + SMALL_BYTES)
    ledger.applyAppended(entries, bytes)
  }
  const keptSince = transactions.read(() => statements.keptSince.get()) ?? undefined
  return { entries, bytes, days: daysOf(found), through, until, more: looked.length > 0, keptSince }
}

function acknowledgementOf({ ledger }: Core, sink: string): Settled {
  if (ledger.positions().some((each) => each.sink === sink)) return ledger.settled(sink)
  throw new ConnectorError('misconfigured', `There is no sink ${sink} in the configuration`)
}

/** As many chunks as fit into a step, at least one. */
function look(
  { chunkStore }: Core,
  query: ReplayQuery & { readonly until: Seq },
  settled: readonly SequenceRange[],
  chunks: readonly { first: Seq; last: Seq; payload: number }[],
): { found: Found[]; through: Seq } {
  const found: Found[] = []
  let through = query.after
  let bytes = 0
  for (const { first, last, payload } of chunks) {
    if (through > query.after && bytes + payload > STEP_BYTES) break
    bytes += payload
    through = last
    for (const stretch of settled) {
      const [from, to] = [Math.max(first, stretch.first), Math.min(last, stretch.last, query.until)]
      const batch: Batch | undefined = from > to ? undefined : chunkStore.slice(from, to, everything)
      for (const run of batch?.slices ?? []) {
        const entries = within(run, query)
        if (entries.count > 0) found.push({ run, entries })
      }
    }
  }
  return { found, through }
}

/** The entries of a run whose own time is in the span, if the query includes its source. */
function within({ stream, entries }: ChunkSlice, query: ReplayQuery): Entries {
  const { fromUs, toUs, workspace, sources, leave = [] } = query
  const meant = (workspace ?? stream.workspace) === stream.workspace && sources.includes(stream.source)
  if (!meant) return Entries.none
  const left = leave.filter((days) => isSameStream(days.stream, stream))
  return without(entries.between(fromUs, toUs), left)
}

function without(entries: Entries, left: NonNullable<ReplayQuery['leave']>): Entries {
  if (left.length === 0) return entries
  const kept: number[] = []
  for (let i = 0; i < entries.count; i++) {
    const at = entries.at(i)
    if (!left.some(({ fromDay, toDay }) => at >= fromDay * DAY_US && at < toDay * DAY_US)) kept.push(i)
  }
  return kept.length === entries.count ? entries : entries.pick(kept)
}

function daysOf(found: readonly Found[]): DayCount[] {
  const counts = new Map<string, { -readonly [Key in keyof DayCount]: DayCount[Key] }>()
  for (const { run, entries } of found) {
    for (let i = 0; i < entries.count; i++) {
      const day = epochDay(entries.at(i))
      const key = `${run.stream.workspace} ${run.stream.source} ${day}`
      const known = counts.get(key)
      if (known) known.count++
      else counts.set(key, { stream: run.stream, day, count: 1 })
    }
  }
  return [...counts.values()]
}

function put(core: Core, { sink, runAt }: ReplayQuery, found: readonly Found[]): void {
  let { lastSeq } = core.ledger
  for (const { run, entries } of found) {
    const source = core.origins.find(run.stream)
    if (source === undefined) throw new Error('An origin of the journal is unknown to it')
    const address = { source, appendedAt: runAt, onlySink: sink, replay: true }
    putChunks(core, lastSeq, address, pack(entries, undefined, undefined))
    lastSeq += entries.count
  }
}

/** Stores the entries read again and the progress of reading, in one transaction (invariant 1). */
export function resend(core: Core, notes: NoteStatements, again: Resend): void {
  const { keys, ledger, transactions } = core
  const { entries, stream, runAt, sink } = again
  acknowledgementOf(core, sink)
  if (entries.count === 0) {
    transactions.write(() => writeNotes(notes, again.notes))
    return
  }
  refuseWhenFull(core)
  const source = sourceOf(core, stream)
  const puts = transactions.writeNew(() => {
    const packed = pack(entries, undefined, keys.versions(source, stream.source, entries))
    const address = { source, appendedAt: runAt, onlySink: sink, replay: true }
    const put = putChunks(core, ledger.lastSeq, address, packed)
    writeNotes(notes, again.notes)
    return put
  }, entries.bytes.length + SMALL_BYTES)
  applyPut(core, puts)
}
