// Reading spans of the past again beside the readers: what is new goes into the journal, and a backfill goes on after a restart.
import { z } from 'zod'
import { assertPastShare, statsForPast } from '../contracts/jobs.ts'
import type { Backfill, Backfills, PastChoice, PastSpan } from '../contracts/jobs.ts'
import type { Journal } from '../contracts/journal.ts'
import { isSameOrigin, sourceNames } from '../contracts/source.ts'
import type { Appended, Origin, Part } from '../contracts/source.ts'
import type { Clock, Random } from '../core/clock.ts'
import { ConnectorError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { isoFromUs } from '../core/time.ts'
import { collect } from '../ingest/loop.ts'
import type { CollectOptions } from '../ingest/loop.ts'
import { pastState } from '../observability/status.ts'
import type { BackfillStatus } from '../observability/status.ts'
import { PastOrders, jobOf, lackingSource, readNote, watching } from './orders.ts'
import type { Job, Progress, RangeReader } from './orders.ts'

interface BackfillOptions {
  readonly ranges: readonly RangeReader[]
  readonly journal: Journal
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
}

type BackfillJob = Job<StoredBackfill>

const isMeant = ({ workspace, source }: PastChoice, origin: Origin) =>
  (workspace ?? origin.workspace) === origin.workspace && (source ?? origin.source) === origin.source

/** One backfill a source, each in a note of the journal. `run` reads them; without it they wait. */
export class ApiBackfills implements Backfills {
  readonly #options: BackfillOptions
  readonly #orders: PastOrders<StoredBackfill, BackfillJob>

  constructor(options: BackfillOptions) {
    const { journal, clock, log, ranges } = options
    this.#options = options
    const read = (note: string) => {
      const noted = readOrder(note)
      return noted && jobOf(noted.order, noted.atUs)
    }
    const lacks = (order: StoredBackfill) => lackingSource(ranges, order)
    this.#orders = new PastOrders({
      what: 'backfill',
      prefix: NOTE,
      nameOf,
      read,
      lacks,
      journal,
      clock,
      log,
      whose: ({ origin }) => ({ ...origin }),
    })
  }

  async origins() {
    return this.#options.ranges.map(({ origin }) => origin)
  }

  async backfill(choice: PastChoice, span: PastSpan): Promise<readonly Backfill[]> {
    await this.#orders.load()
    const meant = this.#options.ranges.filter(({ origin }) => isMeant(choice, origin))
    if (meant.length === 0)
      throw new ConnectorError(
        'misconfigured',
        'No source that is switched on and can be read again is meant',
      )
    const now = this.#options.clock.now()
    const past = { fromUs: span.fromUs, toUs: Math.min(span.toUs, now * 1000) }
    for (const { origin } of meant) this.#refuseOther(origin, past)
    const jobs = meant.map(({ origin }) => {
      return (
        this.#active(origin) ?? jobOf<StoredBackfill>({ v: 1, origin, ...past, begunAt: now, counts: none })
      )
    })
    // All at once: no other command comes in between.
    const open = this.#orders.open()
    await Promise.all(jobs.filter((job) => !open.includes(job)).map((job) => this.#orders.begin(job)))
    return jobs.map((job) => reportOf(job.order, job))
  }

  async backfills() {
    await this.#orders.load()
    return this.#orders.listedToFollowers().map((job) => reportOf(job.order, job))
  }

  async cancelBackfill(choice: PastChoice): Promise<number> {
    await this.#orders.load()
    let count = 0
    for (const job of [...this.#orders.open(), ...this.#orders.asleep()])
      if (isMeant(choice, job.order.origin) && (await this.#orders.cancel(job))) count++
    return count
  }

  /** Under way, and lately ended. */
  list(): readonly Backfill[] {
    return this.#orders.listed().map((job) => reportOf(job.order, job))
  }

  /** Until `signal` aborts. Rejects only with what must stop the process. */
  async run(signal: AbortSignal): Promise<void> {
    await this.#orders.load()
    await Promise.all(this.#options.ranges.map((range) => this.#conduct(range, signal)))
  }

  async #conduct(range: RangeReader, signal: AbortSignal): Promise<void> {
    const next = () => this.#orders.next(() => this.#active(range.origin), signal)
    for (let job = await next(); job; job = await next()) {
      const until = AbortSignal.any([signal, job.cancelled.signal])
      await collect(this.#collectOptions(range, job), until)
      if (!until.aborted) await this.#end(range, job, until)
    }
  }

  async #end(range: RangeReader, job: BackfillJob, signal: AbortSignal): Promise<void> {
    const order = { ...job.order, endedAt: this.#options.clock.now() }
    const unread = range.unread(order.place)
    if (unread) {
      // What was passed at first may have been read in the end.
      order.unread = unread
      order.counts = { ...order.counts, gaps: unread.length }
    }
    delete order.place
    if (!(await this.#orders.keep(job, order, signal))) return
    range.log.info('A backfill has come to its end', { ...order.counts })
  }

  #collectOptions(range: RangeReader, job: BackfillJob): CollectOptions {
    const { clock, random } = this.#options
    const { order } = job
    const { log, wanted, keyWait } = range
    const watch = watching(range, job)
    const source = range.open(order, watch, 'keep')
    const journal = this.#journalOf(range, job)
    return { source, watch, log, clock, random, wanted, keyWait, once: true, journal }
  }

  /** The journal as the loop of reading sees it here: its cursor is the place of the reading, and it is full once the past's share is. */
  #journalOf({ reads }: RangeReader, job: BackfillJob): CollectOptions['journal'] {
    const { journal } = this.#options
    const { order } = job
    return {
      cursor: async () => order.place,
      stats: () => statsForPast(journal.stats()),
      append: async (part) => {
        const { cursor: place = order.place, ...rest } = part
        if (part.entries.count + part.quarantined.length > 0) assertPastShare(journal.stats())
        // A read of the past says nothing of when the source was last read, but a gap is one of the source.
        const now = reads?.notes(false, part.gaps) ?? []
        const grown = (appended: Appended): StoredBackfill => ({
          ...order,
          counts: added(order.counts, part, appended),
          ...(place === undefined ? {} : { place }),
        })
        // With the page: what a crash had read again would be told as known, though this backfill had found it.
        const notes = (appended: Appended) => [...now, ...this.#orders.noteOf(job, grown(appended))]
        const appended = await journal.append({ ...rest, cursor: undefined, notes })
        Object.assign(order, grown(appended))
        return appended
      },
    }
  }

  #active(origin: Origin): BackfillJob | undefined {
    return this.#orders.open().find(({ order }) => isSameOrigin(order.origin, origin))
  }

  #refuseOther(origin: Origin, { fromUs, toUs }: PastSpan): void {
    const order = this.#active(origin)?.order
    if (order && (order.fromUs !== fromUs || order.toUs !== toUs)) throw otherSpan(order)
  }
}

// How a backfill stands in the journal's notes, what is counted of it, and how the status page tells it.

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
type StoredBackfill = Omit<z.output<typeof stored>, 'atUs'>

const NOTE = 'backfill:'
const nameOf = ({ origin: { workspace, source } }: StoredBackfill) => `${NOTE}${workspace}:${source}`

const none: Backfill['counts'] = { read: 0, new: 0, known: 0, filtered: 0, quarantined: 0, gaps: 0 }

const readOrder = (note: string) => readNote(stored, note)

function added(
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
function otherSpan({
  origin,
  fromUs,
  toUs,
}: Pick<StoredBackfill, 'origin' | 'fromUs' | 'toUs'>): ConnectorError {
  return new ConnectorError(
    'misconfigured',
    `A backfill of ${origin.workspace} ${origin.source} over another span is under way (from ${isoFromUs(fromUs)} to ${isoFromUs(toUs)}): wait for it (backfill --status) or end it (backfill --cancel)`,
  )
}

function reportOf(
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
