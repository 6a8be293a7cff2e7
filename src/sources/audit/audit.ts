// The audit log as a source: chooses which reader runs next, and when.
// It first finds where to begin; then it drains what is new, and reads the trailing span again.
import { believed } from '../../core/clock.ts'
import type { Appended, Cursor, PageChunk, Plan, Source, Stream } from '../../contracts/source.ts'
import { anchor } from './anchor.ts'
import { recordLateness, openAuditCursor } from './cursor.ts'
import type { AuditCursor } from './cursor.ts'
import { drainStep } from './head.ts'
import { lookbackDueAt, lookbackStep } from './lookback.ts'
import type { AuditOptions, Step, Parts } from './step.ts'
import { currentPace, lastChunk } from './step.ts'

export class AuditSource implements Source {
  readonly stream: Stream
  readonly #options: AuditOptions
  /** for `once`: a drain of this process has ended */
  #drained = false
  /** for `once`: what was due by then is part of the run, epoch ms */
  #beganAt: number | undefined
  /** The journal has stored a read of this process. */
  #landed = false
  /** The stored position is reported at the start, before anything is read. */
  #positionReported = false
  /** lateness of the last page; the next read stores it in the cursor */
  #lateByUs = 0
  /** what the last plan opened, for the read after it, which may change this copy */
  #planned: { readonly text: Cursor | undefined; readonly cursor: AuditCursor } | undefined

  constructor(options: AuditOptions) {
    this.#options = options
    this.stream = options.stream
  }

  plan(text: Cursor | undefined): Plan {
    const { clock, once } = this.#options
    const now = clock.now()
    const cursor = this.#open(text, now)
    if (once) return this.#planOnce(cursor, now)
    if (!this.#positionReported) this.#reportPosition(cursor)
    return { ...this.#next(cursor, now), caughtUp: cursor.caughtUp }
  }

  /** Live reading, unless lookback is due and gets a permit earlier: some are reserved for it. */
  #next(cursor: AuditCursor, now: number): Pick<Plan, 'dueAt' | 'priority'> {
    const live = cursor.drain ? now : this.#pollDueAt(cursor, now)
    const lookback = lookbackDueAt(this.#options, cursor)
    const liveAt = live > now ? live : this.#options.client.freeAt('live')
    return lookback < liveAt ? { dueAt: lookback, priority: 'lookback' } : { dueAt: live, priority: 'live' }
  }

  #pollDueAt(cursor: AuditCursor, now: number): number {
    return believed(cursor.dueAt, currentPace({ options: this.#options, cursor }).intervalMs, now)
  }

  /** Drains the head, then makes the lookbacks that were due when the run began. */
  #planOnce(cursor: AuditCursor, now: number): Plan {
    this.#beganAt ??= now
    if (!this.#drained) return { dueAt: now, priority: 'live', caughtUp: false }
    const dueAt = lookbackDueAt(this.#options, cursor, this.#beganAt)
    return { dueAt, priority: 'lookback', caughtUp: dueAt === Infinity }
  }

  async *read(text: Cursor | undefined, signal: AbortSignal): AsyncGenerator<PageChunk, void, Appended> {
    const { clock, once } = this.#options
    const now = clock.now()
    const cursor = this.#open(text, now)
    this.#planned = undefined
    recordLateness(cursor, this.#lateByUs, now)
    this.#lateByUs = 0
    // A drain of an earlier process ends at what is there now, even after a long downtime.
    if (cursor.drain && !this.#landed) cursor.drain.untilUs = null
    const step: Step = { options: this.#options, cursor, headUs: cursor.headUs, signal }
    // If reading stops in mid-page, its request is closed and its permit released.
    for await (const chunk of this.#choose(step, now)) {
      const appended = yield chunk
      this.#lateByUs = Math.max(this.#lateByUs, appended.latestBehindUs)
      this.#landed ||= chunk.cursor !== undefined
    }
    if (once && cursor.caughtUp && !cursor.drain) this.#drained = true
    if (once && this.#lateByUs > 0) {
      // There may be no next page in this process.
      recordLateness(cursor, this.#lateByUs, now)
      this.#lateByUs = 0
      yield lastChunk(step)
    }
    this.#reportPosition(cursor)
  }

  #reportPosition({ head, headUs, latestUs }: AuditCursor): void {
    const { reporter } = this.#options
    this.#positionReported = true
    if (!head) return
    reporter.cursor(headUs)
    reporter.head(Math.max(headUs, latestUs))
  }

  /** While the journal is full, each second plans again: the same text is parsed once. */
  #open(text: Cursor | undefined, now: number): AuditCursor {
    if (text === undefined || this.#planned?.text !== text)
      this.#planned = { text, cursor: openAuditCursor(text, now, this.stream.workspace) }
    return this.#planned.cursor
  }

  #choose(step: Step, now: number): Parts {
    const { cursor } = step
    if (cursor.head === null) return anchor(step)
    const isUnderWay = cursor.drain !== null
    if (this.#options.once) return isUnderWay || !this.#drained ? drainStep(step) : lookbackStep(step)
    const isDue = isUnderWay || this.#pollDueAt(cursor, now) <= now
    return isDue && this.#next(cursor, now).priority === 'live' ? drainStep(step) : lookbackStep(step)
  }
}
