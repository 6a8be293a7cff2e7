// The audit log as a source: chooses which reader runs next, and when.
// The head reader drains what is new, lookback reads the trailing span again, anchors find a cursor by time.
import { believed } from '../../core/clock.ts'
import type { Cursor, Stream, Plan, Source } from '../../contracts/source.ts'
import { anchor } from './anchor.ts'
import { recordLateness, openAuditCursor } from './cursor.ts'
import type { AuditCursor } from './cursor.ts'
import { drainStep } from './head.ts'
import type { AuditOptions, OptionsAndCursor, Step, Parts } from './step.ts'
import { currentPace, lastChunk } from './step.ts'
import { lookbackDueAt, lookbackStep } from './lookback.ts'

export class AuditSource implements Source {
  readonly stream: Stream
  readonly #options: AuditOptions
  /** of `once`: a drain of this process came to its end */
  #drained = false
  /** of `once`: what is due by then is part of the run, epoch ms */
  #beganAt: number | undefined
  /** A read of this process has landed. */
  #landed = false
  /** The watch knows where the head is: after a start from the cursor alone, before anything is read. */
  #positionReported = false
  /** lateness seen in the last part of the last page; the next part saves it in the cursor */
  #behindUs = 0
  /** what the last plan opened: the read behind it takes that, and may change it */
  #planned: { readonly text: Cursor | undefined; readonly cursor: AuditCursor } | undefined

  constructor(options: AuditOptions) {
    this.#options = options
    this.stream = options.stream
  }

  plan(text: Cursor | undefined): Plan {
    const { clock, once } = this.#options
    const now = clock.now()
    // Planned again each second while the journal is full: the same text is parsed once.
    if (text === undefined || this.#planned?.text !== text)
      this.#planned = { text, cursor: openAuditCursor(text, now, this.stream.workspace) }
    const { cursor } = this.#planned
    if (once) return this.#planOnce(cursor, now)
    if (!this.#positionReported) this.#reportPosition(cursor)
    return { ...this.#next(cursor, now), caughtUp: cursor.caughtUp }
  }

  /** Live reading, where it is due; but lookback where it is due as well, and has its permit earlier: of all that are used, some are kept for it. */
  #next(cursor: AuditCursor, now: number): Pick<Plan, 'dueAt' | 'priority'> {
    const options = this.#options
    const live = cursor.drain ? now : pollDueAt({ options, cursor }, now)
    const lookback = lookbackDueAt(options, cursor)
    const liveAt = live > now ? live : options.client.freeAt('live')
    return lookback < liveAt ? { dueAt: lookback, priority: 'lookback' } : { dueAt: live, priority: 'live' }
  }

  /** Drains the head, then makes each lookback that was due when the run began. */
  #planOnce(cursor: AuditCursor, now: number): Plan {
    this.#beganAt ??= now
    if (!this.#drained) return { dueAt: now, priority: 'live', caughtUp: false }
    const dueAt = lookbackDueAt(this.#options, cursor, this.#beganAt)
    return { dueAt, priority: 'lookback', caughtUp: dueAt === Infinity }
  }

  async *read(text: Cursor | undefined, signal: AbortSignal): Parts {
    const { clock, once } = this.#options
    const now = clock.now()
    const cursor = this.#take(text, now)
    recordLateness(cursor, this.#behindUs, now)
    this.#behindUs = 0
    // A drain of an earlier process ends at what is there now, however long the daemon was down.
    if (cursor.drain && !this.#landed) cursor.drain.untilUs = null
    const step: Step = { options: this.#options, cursor, headUs: cursor.headUs, signal }
    const parts = this.#choose(step, now)
    try {
      for (let next = await parts.next(); !next.done;) {
        const appended = yield next.value
        this.#behindUs = Math.max(this.#behindUs, appended.latestBehindUs)
        this.#landed ||= next.value.cursor !== undefined
        next = await parts.next(appended)
      }
    } finally {
      // Given up in mid-page, its request is left too: its place in the budget and its room come back.
      await parts.return(undefined)
    }
    if (once && cursor.caughtUp && !cursor.drain) this.#drained = true
    if (once && this.#behindUs > 0) {
      // There may be no next page in this process.
      recordLateness(cursor, this.#behindUs, now)
      this.#behindUs = 0
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

  /** Parsed once for a plan and the read after it. The copy belongs to that read, so a step may change it. */
  #take(text: Cursor | undefined, now: number): AuditCursor {
    const planned = this.#planned
    this.#planned = undefined
    if (planned && text !== undefined && planned.text === text) return planned.cursor
    return openAuditCursor(text, now, this.stream.workspace)
  }

  #choose(step: Step, now: number): Parts {
    const { cursor } = step
    if (cursor.head === null) return anchor(step)
    const isUnderWay = cursor.drain !== null
    if (this.#options.once) return isUnderWay || !this.#drained ? drainStep(step) : lookbackStep(step)
    const isDue = isUnderWay || pollDueAt(step, now) <= now
    return isDue && this.#next(cursor, now).priority === 'live' ? drainStep(step) : lookbackStep(step)
  }
}

function pollDueAt(step: OptionsAndCursor, now: number): number {
  return believed(step.cursor.dueAt, currentPace(step).intervalMs, now)
}
