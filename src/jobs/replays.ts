// Reading spans of the past again for one sink alone: what the journal no longer keeps comes from the API, marked as a replay, whether it is known or not.
import { createHash } from 'node:crypto'
import { z } from 'zod'
import type { Entries } from '../contracts/entries.ts'
import { assertPastShare, joinedBy, statsForPast } from '../contracts/jobs.ts'
import type {
  ApiReplay,
  BegunReplay,
  PastSpan,
  ReplayCounts,
  ReplayOrder,
  Replays,
} from '../contracts/jobs.ts'
import type { Append, Journal } from '../contracts/journal.ts'
import type { NoteChange } from '../contracts/records.ts'
import { isSameOrigin, nothingAppended, sourceNames } from '../contracts/source.ts'
import type { Origin } from '../contracts/source.ts'
import type { Clock, Random } from '../core/clock.ts'
import { ConnectorError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { isoFromUs } from '../core/time.ts'
import { collect } from '../ingest/loop.ts'
import type { CollectOptions } from '../ingest/loop.ts'
import { pastState } from '../observability/status.ts'
import type { ReplayStatus } from '../observability/status.ts'
import {
  PastOrders,
  jobOf,
  keepUnlessStopped,
  lackingSource,
  lackingTaker,
  notBegun,
  noteText,
  rangeOf,
  readNote,
  watching,
} from './orders.ts'
import type { Job, Progress, RangeReader, Taker } from './orders.ts'

export interface ReplaysOptions {
  readonly ranges: readonly RangeReader[]
  readonly sinks: readonly Taker[]
  readonly journal: Journal
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
  /** how far live reading is, µs; undefined: it has read nothing yet */
  readonly readTo: (origin: Origin) => Promise<number | undefined>
  /** entries of answers under way that are remembered as sent; half a million unless told */
  readonly mostMarks?: number
}

/** One a sink and source, in notes of the journal; of each source one at a time is read. Without `run` they wait. */
export class ApiReplays implements Replays {
  readonly #options: ReplaysOptions
  readonly #orders: PastOrders<StoredReplay, ReplayJob>
  readonly #pages: SentPages

  constructor(options: ReplaysOptions) {
    const { journal, clock, log, ranges, sinks, mostMarks } = options
    this.#options = options
    const read = (note: string) => {
      const noted = readOrder(note)
      return noted && replayJobOf(noted.order, noted.atUs)
    }
    const lacks = (order: StoredReplay) => lackingSource(ranges, order) ?? lackingTaker(sinks, order)
    const whose = ({ origin, sink }: StoredReplay) => ({ ...origin, sink })
    this.#orders = new PastOrders({
      what: 'replay',
      prefix: NOTE,
      nameOf,
      read,
      lacks,
      journal,
      clock,
      log,
      whose,
    })
    this.#pages = new SentPages({ journal, mostMarks, open: () => this.#orders.open() })
  }

  async begin(order: ReplayOrder): Promise<BegunReplay> {
    await this.#orders.load()
    this.#assertKnown(order)
    const stale = await this.#pages.notesOf(order)
    const readTo = await this.#options.readTo(order.origin)
    const joined = joinedBy(this.list(), order)
    if (joined) return { ...joined, isJoined: true }
    const job = replayJobOf(this.#fresh(order, readTo))
    job.isLoaded = true
    // What one before it left behind would hide entries from this one.
    await this.#orders.begin(job, stale)
    return reportOf(job.order, job)
  }

  async preview(order: ReplayOrder): Promise<ApiReplay> {
    this.#assertKnown(order)
    const fresh = this.#fresh(order, await this.#options.readTo(order.origin))
    return reportOf(fresh, notBegun)
  }

  async replays() {
    await this.#orders.load()
    return this.#orders.listedToFollowers().map((job) => reportOf(job.order, job))
  }

  async cancelReplays(sink: string | undefined): Promise<number> {
    await this.#orders.load()
    let count = 0
    for (const job of [...this.#orders.open(), ...this.#orders.asleep()]) {
      const { order, pageNotes } = job
      if ((sink ?? order.sink) !== order.sink || !(await this.#orders.cancel(job, pageNotes))) continue
      count++
      const left = await this.#pages.notesOf(order)
      // They are the next one's, where that has begun meanwhile.
      if (left.length > 0 && !this.#active(order))
        await this.#options.journal.changeNotes({ drop: left, put: [] })
    }
    return count
  }

  /** Under way, and lately ended. */
  list(): readonly ApiReplay[] {
    return this.#orders.listed().map((job) => reportOf(job.order, job))
  }

  /** Until `signal` aborts. Rejects only with what must stop the process. */
  async run(signal: AbortSignal): Promise<void> {
    await this.#orders.load()
    await Promise.all(this.#options.ranges.map((range) => this.#conduct(range, signal)))
  }

  #assertKnown({ sink, origin }: ReplayOrder): void {
    const { ranges, sinks } = this.#options
    const lacking = lackingTaker(sinks, { sink, origin })
    if (lacking === 'sink')
      throw new ConnectorError('misconfigured', `There is no sink ${sink} in the configuration of the daemon`)
    rangeOf(ranges, origin)
    if (lacking)
      throw new ConnectorError(
        'misconfigured',
        `The sink ${sink} of the daemon does not take ${origin.source}`,
      )
  }

  #fresh(order: ReplayOrder, readTo: number | undefined): StoredReplay {
    const { sink, origin, runAt } = order
    const asked = JSON.stringify(order.spans)
    return { v: 1, sink, origin, asked, spans: this.#cut(order, readTo), span: 0, runAt, counts: none }
  }

  /** Cuts the spans where live reading is: what comes behind is new to every sink, and not this replay's. */
  #cut({ spans }: ReplayOrder, readTo: number | undefined): PastSpan[] {
    const nowUs = this.#options.clock.now() * 1000
    const endUs = Math.min(nowUs, (readTo ?? nowUs) + 1)
    return spans
      .map(({ fromUs, toUs }) => ({ fromUs, toUs: Math.min(toUs, endUs) }))
      .filter(({ fromUs, toUs }) => fromUs < toUs)
  }

  async #conduct(range: RangeReader, signal: AbortSignal): Promise<void> {
    const next = () => this.#orders.next((open) => oldestOf(open, range.origin), signal)
    for (let job = await next(); job; job = await next()) {
      await this.#pages.load(job)
      const until = AbortSignal.any([signal, job.cancelled.signal])
      if (!(await this.#readSpans(range, job, until))) continue
      const ended = { ...job.order, endedAt: this.#options.clock.now() }
      if (!(await this.#orders.keep(job, ended, until))) continue
      range.log.info('A replay from the API has come to its end', {
        sink: job.order.sink,
        ...job.order.counts,
      })
    }
  }

  /** False: it was broken off. */
  async #readSpans(range: RangeReader, job: ReplayJob, signal: AbortSignal): Promise<boolean> {
    for (let span = job.order.spans[job.order.span]; span;) {
      await collect(this.#collectOptions(range, job, span), signal)
      const { clock } = this.#options
      if (!(await keepUnlessStopped(() => this.#pages.forget(job), job, clock, signal))) return false
      const { counts, place } = job.order
      const gaps = counts.gaps + (range.unread(place)?.length ?? 0)
      const next = { ...job.order, counts: { ...counts, gaps }, span: job.order.span + 1 }
      delete next.place
      delete next.voided
      if (!(await this.#orders.keep(job, next, signal))) return false
      span = job.order.spans[job.order.span]
    }
    return true
  }

  #collectOptions(range: RangeReader, job: ReplayJob, span: PastSpan): CollectOptions {
    const { clock, random, journal } = this.#options
    const { log, wanted, keyWait } = range
    const watch = watching(range, job, {
      // Nothing is taken in, and what is missing here is no gap of live reading.
      appended: () => undefined,
      gap: () => undefined,
    })
    const source = range.open(span, watch, 'send')
    const books: CollectOptions['journal'] = {
      cursor: async () => job.order.place,
      stats: () => statsForPast(journal.stats()),
      append: (part) => this.#resend(job, range, span, part),
    }
    return { source, watch, log, clock, random, wanted, keyWait, once: true, journal: books }
  }

  /** Entries and place land together: nothing of a page comes twice, however its reading is broken off. */
  async #resend(job: ReplayJob, { origin, wanted }: RangeReader, span: PastSpan, part: Append) {
    const { journal } = this.#options
    const seen = unsentOf(job, part, span)
    const picked = seen.fresh.filter((i) => wanted(seen.entries.type(i)))
    const entries = picked.length === seen.entries.count ? seen.entries : seen.entries.pick(picked)
    const known = await journal.known(origin, entries)
    const { order } = job
    const next = {
      ...order,
      counts: added(order.counts, {
        read: seen.fresh.length + seen.malformed,
        sent: entries.count,
        filtered: seen.fresh.length - entries.count,
        unknown: known.filter((one) => one !== 1).length,
        malformed: seen.malformed,
        gaps: part.gaps,
      }),
      ...(part.cursor === undefined ? {} : { place: part.cursor }),
      // What was told of this answer can come again, where anything was; where the whole walk begins anew, what comes behind it can too.
      ...(part.void === 'walk' || (part.void && job.sent.size + seen.marks.length > 0)
        ? { voided: true as const }
        : {}),
    }
    const isWhole = part.cursor !== undefined && next.voided === undefined
    if (entries.count > 0) assertPastShare(journal.stats())
    this.#orders.assertCurrent(job)
    await this.#pages.land(job, { order: next, marks: seen.marks, isWhole }, async (notes) => {
      await journal.resend({ sink: order.sink, origin, runAt: order.runAt, entries, notes })
      job.order = next
    })
    return nothingAppended
  }

  #active({ sink, origin }: Pick<StoredReplay, 'sink' | 'origin'>): ReplayJob | undefined {
    return this.#orders.open().find(({ order }) => order.sink === sink && isSameOrigin(order.origin, origin))
  }
}

const oldestOf = (open: readonly ReplayJob[], origin: Origin): ReplayJob | undefined =>
  open
    .filter(({ order }) => isSameOrigin(order.origin, origin))
    .sort((one, other) => one.order.runAt - other.order.runAt)[0]

// How a replay from the API stands in the journal's notes, what is counted of it, and how the status page tells it.

const count = z.number()
/** As it stands in the journal's notes. */
const stored = z.object({
  v: z.literal(1),
  sink: z.string(),
  origin: z.object({ workspace: z.string(), source: z.enum(sourceNames) }),
  /** µs */
  spans: z.array(z.object({ fromUs: z.number(), toUs: z.number() })),
  /** as it was asked for: told apart from another one by this */
  asked: z.string(),
  /** index of the span that is read */
  span: z.number(),
  /** epoch ms */
  runAt: z.number(),
  endedAt: z.number().exactOptional(),
  /** µs; of how its reading fares, the rest is the order */
  atUs: z.number().exactOptional(),
  counts: z.object({
    read: count,
    sent: count,
    filtered: count,
    unknown: count,
    malformed: count,
    gaps: count,
  }),
  /** an answer of this span broke off: what it told may come again in other windows */
  voided: z.literal(true).exactOptional(),
  /** where the reading of the span is, opaque */
  place: z.string().exactOptional(),
})
type StoredReplay = Omit<z.output<typeof stored>, 'atUs'>

const NOTE = 'replay:'
const PAGE_NOTE = 'replay-page:'
const nameIn = ({ sink, origin }: Pick<StoredReplay, 'sink' | 'origin'>) =>
  `${sink}:${origin.workspace}:${origin.source}`
const nameOf = (order: StoredReplay) => `${NOTE}${nameIn(order)}`
/** Notes of the page under way begin like this. */
const pagePrefix = (order: Pick<StoredReplay, 'sink' | 'origin'>) => `${PAGE_NOTE}${nameIn(order)}:`

const none: ReplayCounts = { read: 0, sent: 0, filtered: 0, unknown: 0, malformed: 0, gaps: 0 }

const readOrder = (note: string) => readNote(stored, note)

function added(counts: ReplayCounts, more: ReplayCounts): ReplayCounts {
  return {
    read: counts.read + more.read,
    sent: counts.sent + more.sent,
    filtered: counts.filtered + more.filtered,
    unknown: counts.unknown + more.unknown,
    malformed: counts.malformed + more.malformed,
    gaps: counts.gaps + more.gaps,
  }
}

function reportOf(
  { sink, origin, asked, spans, runAt, endedAt, counts }: StoredReplay,
  { atUs, error, waitsFor, waitReason }: Progress,
): ApiReplay {
  const why = error && { code: error.code, message: error.message }
  return { sink, origin, asked, spans, runAt, endedAt, atUs, counts, error: why, waitsFor, waitReason }
}

/** As the status page has it, its spans as one. */
export function replayStatusOf(replay: ApiReplay): ReplayStatus | undefined {
  const { sink, origin, spans, counts } = replay
  const fromUs = spans[0]?.fromUs
  const toUs = spans.at(-1)?.toUs
  // All of it lies where live reading has not come to.
  if (fromUs === undefined || toUs === undefined) return undefined
  return {
    workspace: origin.workspace,
    source: origin.source,
    sink,
    from: isoFromUs(fromUs),
    to: isoFromUs(toUs),
    ...pastState({ ...replay, fromUs, toUs }),
    read_entries: counts.read,
    sent_entries: counts.sent,
    gaps: counts.gaps,
  }
}

// What replays have sent of the pages they are in: remembered until a page is whole, in memory and in notes that land with its entries, so that neither an answer that breaks off nor a restart sends it twice.

/** Of all replays together, however many sources they read: what an answer shows beyond comes once more where it breaks off behind it. Some 50 MB remember these. */
const MOST_MARKS = 500_000
/** A note holds one mark at least. */
const MOST_NOTES = MOST_MARKS + 1_000

/** A replay, and what of the page under way it has sent. */
interface ReplayJob extends Job<StoredReplay> {
  /** what of the page under way was sent already, by this process or the one before */
  readonly sent: Set<string>
  /** names of the notes that say so */
  pageNotes: string[]
  /** both are here: of one that a restart found they are read when its turn comes */
  isLoaded: boolean
}

/** @internal for tests */
export const replayJobOf = (order: StoredReplay, atUs?: number): ReplayJob => ({
  ...jobOf(order, atUs),
  sent: new Set<string>(),
  pageNotes: [],
  isLoaded: false,
})

const MARK_LENGTH = 16

/** Tells an entry of a page from the others, by id and content: 96 bits. @internal for tests */
export function markOf(entries: Entries, index: number): string {
  const digest = createHash('sha256').update(entries.id(index)).update('\n').update(entries.raw(index))
  return digest.digest('base64url').slice(0, MARK_LENGTH)
}

/** The mark of what is no entry: by the hash of its bytes. */
const markOfHash = (sha256: string): string => sha256.slice(0, MARK_LENGTH)

/** @internal for tests */
export function marksIn(note: string): string[] {
  return Array.from({ length: note.length / MARK_LENGTH }, (_, i) =>
    note.slice(i * MARK_LENGTH, (i + 1) * MARK_LENGTH),
  )
}

/** What of a part lies in the span, and was not sent from this page before: once, however often the part has it. */
function unsentOf(
  { sent }: Pick<ReplayJob, 'sent'>,
  { entries: all, quarantined }: Pick<Append, 'entries' | 'quarantined'>,
  { fromUs, toUs }: PastSpan,
) {
  const entries = all.between(fromUs, toUs)
  const marks: string[] = []
  const fresh: number[] = []
  const met = new Set<string>()
  const isNew = (mark: string) => !sent.has(mark) && met.size < met.add(mark).size
  for (let i = 0; i < entries.count; i++) {
    const mark = markOf(entries, i)
    if (!isNew(mark)) continue
    fresh.push(i)
    marks.push(mark)
  }
  const bad = quarantined.map(({ sha256 }) => markOfHash(sha256)).filter(isNew)
  return { entries, fresh, marks: [...marks, ...bad], malformed: bad.length }
}

/** What a part that is on its way into the journal changes of its page. */
interface PageUpdate {
  /** as it stands with this part */
  readonly order: StoredReplay
  readonly marks: readonly string[]
  /** with this part its page is whole, and nothing of it can come again */
  readonly isWhole: boolean
}

interface SentPagesOptions {
  readonly journal: Pick<Journal, 'notes' | 'changeNotes'>
  /** all that are under way: they share what may be remembered */
  readonly open: () => readonly ReplayJob[]
  readonly mostMarks: number | undefined
}

export class SentPages {
  readonly #options: SentPagesOptions
  /** marks of parts that are on their way into the journal */
  #marksOnTheirWay = 0

  constructor(options: SentPagesOptions) {
    this.#options = options
  }

  /** Names of the notes that stand in the journal for an order's sink and source, whoever left them. */
  async notesOf(order: Pick<StoredReplay, 'sink' | 'origin'>): Promise<string[]> {
    return (await this.#read(order)).map(({ name }) => name)
  }

  /** Before it is read on. */
  async load(job: ReplayJob): Promise<void> {
    if (job.isLoaded) return
    for (const { name, value } of await this.#read(job.order)) {
      job.pageNotes.push(name)
      for (const mark of marksIn(value)) job.sent.add(mark)
    }
    job.isLoaded = true
  }

  /** Has `write` put the entries and the notes in one transaction, and remembers what was sent. */
  async land(
    job: ReplayJob,
    { order, marks, isWhole }: PageUpdate,
    write: (notes: NoteChange) => Promise<void>,
  ): Promise<void> {
    const kept = isWhole ? [] : marks.slice(0, this.#left())
    const note = { name: nameOf(order), value: noteText(order, job) }
    const page = { name: nextName(job), value: kept.join('') }
    this.#marksOnTheirWay += kept.length
    try {
      const put = kept.length > 0 ? [note, page] : [note]
      await write({ drop: isWhole ? job.pageNotes : [], put })
    } finally {
      this.#marksOnTheirWay -= kept.length
    }
    if (isWhole) clear(job)
    else if (kept.length > 0) job.pageNotes.push(page.name)
    for (const mark of kept) job.sent.add(mark)
  }

  /** What comes behind the span's end shows nothing of these pages again. */
  async forget(job: ReplayJob): Promise<void> {
    const { pageNotes: drop } = job
    if (drop.length > 0) await this.#options.journal.changeNotes({ drop, put: [] })
    clear(job)
  }

  #read(order: Pick<StoredReplay, 'sink' | 'origin'>) {
    return this.#options.journal.notes(pagePrefix(order), MOST_NOTES)
  }

  #left(): number {
    const { open, mostMarks = MOST_MARKS } = this.#options
    const held = open().reduce((sum, { sent }) => sum + sent.size, this.#marksOnTheirWay)
    return Math.max(0, mostMarks - held)
  }
}

function nextName({ order, pageNotes }: ReplayJob): string {
  return `${pagePrefix(order)}${String(pageNotes.length).padStart(6, '0')}`
}

function clear(job: ReplayJob): void {
  job.pageNotes = []
  job.sent.clear()
}
