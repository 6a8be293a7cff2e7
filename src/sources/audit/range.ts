// A span of the past, for `backfill`, `replay` and `reconcile`. It has a cursor of its own.
import { hash } from 'node:crypto'
import type { Entries } from '../../contracts/entries.ts'
import type { Cursor, PageChunk, Plan, Source, Stream } from '../../contracts/source.ts'
import { SECOND_US } from '../../core/time.ts'
import { fieldsOf, storedFields } from '../shared.ts'
import type { Fields } from '../shared.ts'
import { freshAuditCursor, freshFetches, recordSent } from './cursor.ts'
import type { Fetches } from './cursor.ts'
import {
  anchorAt,
  brokenEntry,
  endUnchecked,
  REACH_MARGIN_US,
  reachUs,
  search,
  timeOf,
  tryLatest,
} from './lookup.ts'
import { isRightAfter, readPage } from './page.ts'
import type { PageView } from './page.ts'
import { probeAt, skip } from './skip.ts'
import { CLOCKS_APART_MS, faultChunk, lastChunk, nextSecondUs } from './step.ts'
import type { PagingOptions, PagingStep, Parts } from './step.ts'
import { MAX_TAKE, moveOn, outcomeOf, recordEnd, STUCK_PAGES, takeAt, walkFrom } from './walk.ts'
import type { Position, Walk } from './walk.ts'

/** So few entries, all own fetches, near the walk's begin: the walk made them itself. */
const OWN_ONLY = 3
/** Tries at a time that shows nothing readable before the walk passes it: it may be an outage. */
const TRIES = 10
/** How often the walk may return to an earlier entry without reading anything new. */
const MOST_AGAIN = 3

interface RangeOptions extends PagingOptions {
  /** µs, included */
  readonly fromUs: number
  /** µs, excluded; entries that come during the walk do not belong to the span */
  readonly toUs: number
}

/** A step of the range: its `cursor` is thrown away, `range` is stored. */
interface RangeStep extends PagingStep {
  readonly range: RangeCursor
}

/** Each read makes one request, rarely two. */
export class AuditRange implements Source {
  readonly stream: Stream
  readonly #options: RangeOptions
  #begun = false

  constructor(options: RangeOptions) {
    this.#options = options
    this.stream = options.stream
  }

  plan(text: Cursor | undefined): Plan {
    const { clock } = this.#options
    const caughtUp = openRangeCursor(text)?.done === true
    return { dueAt: clock.now(), priority: 'job', caughtUp }
  }

  async *read(text: Cursor | undefined, signal: AbortSignal): Parts {
    const { sentTimes, clock, fromUs, toUs, reporter } = this.#options
    const now = clock.now()
    const range = openRangeCursor(text) ?? freshRangeCursor(fromUs, Math.min(toUs, now * 1000), now)
    // Fetches of the previous process appear in the feed too.
    if (!this.#begun) for (const at of range.fetches.sent) recordSent(sentTimes, at)
    this.#begun = true
    const cursor = { ...freshAuditCursor(now), startUs: fromUs, fetches: range.fetches }
    const step: RangeStep = { options: this.#options, cursor, headUs: 0, signal, range }
    const gapsBefore = range.gaps
    const page = freshPage()
    const finish = (chunk: PageChunk): PageChunk => {
      const entries = within(chunk.entries, range, page)
      // No findings: the live reader has reported them, or the span is older than its start.
      const own = { ...chunk, entries, findings: [] }
      if (chunk.cursor === undefined) return own
      if (!chunk.fault) recordPage(range, page)
      // Before the journal stores the chunk, with the progress reported here.
      if (range.done) reporter.cursor(toUs)
      else if (range.newestUs > 0) reporter.cursor(range.newestUs)
      return { ...own, cursor: JSON.stringify(range), gaps: range.gaps - gapsBefore }
    }
    // If reading stops in mid-page, its request is closed.
    if (range.done) yield finish(lastChunk(step))
    else for await (const chunk of choose(step)) yield finish(chunk)
  }
}

function choose(step: RangeStep): Parts {
  const { state, probe } = step.range.walk
  if (state === 'find' || probe) return findPlace(step)
  return state === 'check_end' ? checkEnd(step) : turnPage(step)
}

function turnPage(step: RangeStep): Parts {
  const { range } = step
  const { walk } = range
  const take = takeAt(walk, MAX_TAKE)
  return readPage(step, {
    walk,
    priority: 'job',
    take,
    answered: (serverAt) => recordClock(step, serverAt),
    complete: (view) => afterPage(range, view, take),
    leave: (elements) => skipFrom(range, elements),
    gone: () => {
      moveOn(walk, { is: 'gone' })
      recordDead(range)
      return {}
    },
  })
}

function afterPage(range: RangeCursor, view: PageView, take: number): Partial<PageChunk> {
  const { walk } = range
  const { count, last, lastOfAll } = view
  const outcome = outcomeOf(walk, view)
  const isFull = count >= take
  if (outcome === 'malformed')
    moveOn(walk, { is: isFull ? 'unreadable' : outcome, readToUs: readToUs(range), take: count })
  else if (outcome === 'nothing') {
    moveOn(walk, { is: outcome })
    if (walk.state === 'find') recordDead(range)
  } else if (isOvershot(range, view)) moveOn(walk, { is: 'unproven' })
  else {
    const fault = last ? recordEnd(walk, last) : undefined
    if (fault) {
      if (walk.stuckPages >= STUCK_PAGES) skipFrom(range, undefined)
      return { fault }
    }
    if (last) recordProgress(range, view, last, isFull)
    moveOn(walk, { is: 'progress', at: (outcome === 'future' ? lastOfAll : last) ?? walk.from })
  }
  return {}
}

/** The page begins after the span. It may be wrong: only the same answer again is the end. */
function isOvershot(range: RangeCursor, { last, oldestUs }: PageView): boolean {
  const isBehind = last !== null && oldestUs >= range.untilUs
  const isFirst = isBehind && !range.overshot
  range.overshot = isBehind
  return isFirst
}

function recordProgress(range: RangeCursor, view: PageView, last: Position, isFull: boolean): void {
  range.newestUs = Math.max(range.newestUs, last.at)
  const oursFrom = range.untilByServer ? range.untilUs - SECOND_US : range.begunAtUs - CLOCKS_APART_MS * 1000
  const mayBeOurs = last.at >= oursFrom
  // After a full page, even a narrowed one, entries of others may follow.
  const isOwnOnly = mayBeOurs && view.own === view.beyond && view.count <= OWN_ONLY && !isFull
  if (last.at >= range.untilUs || isOwnOnly) range.done = true
}

function recordClock({ range, options }: RangeStep, serverAt: number | undefined): void {
  if (range.untilByServer || serverAt === undefined) return
  if (Math.abs(serverAt - options.clock.now()) > CLOCKS_APART_MS) {
    // Ignored as an end. But it dates the entries, those of the walk's own fetches too.
    range.begunAtUs = Math.min(range.begunAtUs, serverAt * 1000)
    return
  }
  range.untilByServer = true
  range.untilUs = Math.min(range.untilUs, nextSecondUs(serverAt * 1000))
}

/** Searches the start, what follows an unreadable entry, or where the walk's entry was. */
async function* findPlace(step: RangeStep): Parts {
  const { range } = step
  const { walk } = range
  const probe = walk.probe ?? probeAt(readToUs(range))
  const found = await anchorAt(step, probe.atUs, 'job')
  recordClock(step, found.serverAt)
  const knownUs = range.newestUs || undefined
  const skipped = await skip(step, probe, found, { priority: 'job', knownUs, endUs: range.untilUs })
  if (skipped.next === 'again' || skipped.next === 'on') walk.probe = skipped.probe
  if (skipped.next === 'again' || skipped.next === 'outage') {
    yield lastChunk(step, { fault: brokenEntry() })
    return
  }
  if (skipped.next === 'on') range.gaps += skipped.gaps
  if (skipped.next === 'nothing' && !found.position && !found.unreadable) {
    yield await endByTime(step, probe.atUs)
    return
  }
  range.tries = 0
  if (skipped.next === 'readable') await goOnAt(step, skipped.position, probe.atUs)
  else if (skipped.next === 'nothing') {
    await countSkipped(step, found.position)
    range.done = true
  }
  const isRead = found.unreadable || (walk.state === 'page' && !walk.probe && !range.done)
  yield lastChunk(step, isRead ? skipped.group : undefined)
}

/** Continues at the entry, unless the walk was there before. */
async function goOnAt(step: RangeStep, position: Position, atUs: number): Promise<void> {
  const { range } = step
  if (position.id === range.dead) meetDead(step, position, atUs)
  else if (position.at < range.newestUs) rewind(step, position, atUs)
  else {
    await countSkipped(step, position)
    moveOn(range.walk, { is: 'found', at: position })
  }
}

/** The skipped entries are a gap, unless `to` directly follows the quarantined ones. */
async function countSkipped(step: RangeStep, to: Position | undefined): Promise<void> {
  const { kept } = step.range.walk.probe ?? {}
  if (kept && !(to && (await isRightAfter(step, to, kept, 'job')) === true)) step.range.gaps++
}

/** `search` found nothing. If `latest` contradicts that, asks again, and at last reports a gap. */
async function endByTime(step: RangeStep, atUs: number): Promise<PageChunk> {
  const { range } = step
  const { position, unreadable, failure } = await tryLatest(step, 'job')
  // If entries were read, a `latest` that shows none proves nothing.
  const isContradicted = position ? position.at >= atUs : unreadable || failure || range.newestUs > 0
  if (isContradicted && ++range.tries < TRIES)
    return faultChunk(
      step,
      'The API finds no audit entry by time, and `latest` does not confirm that there is none; it is asked again',
    )
  if (isContradicted) range.gaps++
  // `search` finds no other entry in the second of the quarantined one.
  else if (position && position.id !== range.walk.probe?.kept?.from) await countSkipped(step, undefined)
  range.done = true
  return lastChunk(step)
}

/** `search` finds the entry that led nowhere: tries it again, then continues at the next second. */
function meetDead(step: RangeStep, position: Position, atUs: number): void {
  const { range } = step
  if (range.deadTries < MOST_AGAIN) {
    range.deadTries++
    walkAgain(range, position)
    return
  }
  range.gaps++
  // Before the reach of `search`, every time leads to `earliest`.
  if (range.deadPassed) leap(step, atUs)
  else range.walk.probe = probeAt(nextSecondUs(Math.max(atUs, position.at)))
  range.deadPassed = true
}

/** `search` leads back to the first entry of the second or, before its reach, to the earliest. */
function rewind(step: RangeStep, position: Position, atUs: number): void {
  const { range } = step
  if (range.newestUs > range.rewoundUs) range.rewinds = 0
  range.rewoundUs = range.newestUs
  if (++range.rewinds <= MOST_AGAIN) walkAgain(range, position)
  else {
    range.gaps++
    leap(step, atUs)
  }
}

/** Entries already sent are left out until the walk has passed them. */
function walkAgain(range: RangeCursor, position: Position): void {
  range.sentUs = range.newestUs
  moveOn(range.walk, { is: 'found', at: position })
}

/** Nothing leads on from here: continues where `search` reaches, if that is in the span. */
function leap(step: RangeStep, atUs: number): void {
  const { range } = step
  const toUs = reachUs(step) + REACH_MARGIN_US
  if (toUs <= atUs || toUs >= range.untilUs) range.done = true
  range.walk.probe = probeAt(toUs)
}

/** Unlike the head reader's check: the end of the span, which need not be the log's end. */
async function* checkEnd(step: RangeStep): Parts {
  const { range } = step
  const afterUs = readToUs(range)
  const nextUs = nextSecondUs(afterUs)
  const isInReach = nextUs >= reachUs(step)
  let found = isInReach ? await search(step, nextUs, 'job') : undefined
  // If the span ends in this second this proves nothing: `search` shows nothing later in it.
  const isPastSpan = nextUs < range.untilUs && ((found && timeOf(found)) ?? 0) >= range.untilUs
  if (!found || (!found.position && !isPastSpan)) {
    const newest = await tryLatest(step, 'job')
    if (!found?.unreadable || newest.position) found = newest
  }
  const atUs = timeOf(found)
  // An unreadable entry without a time, or none although entries were read.
  const isUnproven = atUs === undefined
  if (isUnproven && ++range.tries < TRIES) {
    yield lastChunk(step, { fault: endUnchecked(found.unreadable ? undefined : 'no entry') })
    return
  }
  if (isUnproven && !found.unreadable && !isInReach) range.gaps++
  range.tries = 0
  const isLater = isUnproven ? found.unreadable : atUs > afterUs
  if (isLater && !isPastSpan) moveOn(range.walk, { is: 'later' })
  else range.done = true
  yield lastChunk(step)
}

/** Everything up to here is read, µs. */
const readToUs = ({ walk, newestUs }: RangeCursor): number => Math.max(walk.from.at, newestUs)

/** The walk's entry leads nowhere: `search` finds it again, from its own second on. */
function recordDead(range: RangeCursor): void {
  const { id } = range.walk.from
  if (range.dead !== id) range.deadTries = 0
  range.dead = id
  range.deadPassed = false
}

/** The page stays unreadable: `take` of its elements are quarantined. */
function skipFrom(range: RangeCursor, take: number | undefined): void {
  if (take === undefined) range.gaps++
  moveOn(range.walk, { is: 'unreadable', readToUs: readToUs(range), take })
}

// The cursor: how far the walk is. One JSON value, stored with what was read.

/** Instants are µs. */
interface RangeCursor {
  readonly v: 1
  /** end of the span */
  untilUs: number
  /** the end is by the server's clock */
  untilByServer: boolean
  /** when the walk began, by the earlier of our clock and the server's; 0: unknown */
  begunAtUs: number
  walk: Walk
  /** tries in a row that did not prove the end */
  tries: number
  newestUs: number
  /** id of an entry from which no page led on */
  dead: string | null
  /** how often it was found again and tried once more */
  deadTries: number
  deadPassed: boolean
  /** the walk went back: entries before this were sent; null: it did not, or has passed this */
  sentUs: number | null
  /** how often it went back without reading anything after `rewoundUs` */
  rewinds: number
  rewoundUs: number
  /** the last page began after the span */
  overshot: boolean
  /** hashes of the last page's entries, which the next page may repeat */
  tail: string[]
  /** how often entries may have been left out */
  gaps: number
  done: boolean
  fetches: Fetches
}

/** Somewhat more than a page has. The control socket transfers the cursor. */
const TAIL_LENGTH = 1_600
const KEY_LENGTH = 22

/** @internal for tests */
export function freshRangeCursor(fromUs: number, untilUs: number, now: number): RangeCursor {
  return {
    v: 1,
    untilUs,
    untilByServer: false,
    walk: { ...walkFrom({ id: '', at: fromUs }), state: 'find' },
    tries: 0,
    newestUs: 0,
    ...{ dead: null, deadTries: 0, deadPassed: false },
    ...{ sentUs: null, rewinds: 0, rewoundUs: -1, overshot: false },
    tail: [],
    gaps: 0,
    begunAtUs: now * 1000,
    done: fromUs >= untilUs,
    fetches: freshFetches(now),
  }
}

/** A copy that a step may change. Undefined: it has to begin. @internal for tests */
export function openRangeCursor(text: Cursor | undefined): RangeCursor | undefined {
  const stored = text === undefined ? undefined : storedFields(text)
  if (stored?.['v'] !== 1) return undefined
  const fresh = { ...freshRangeCursor(0, 0, 0), done: false }
  return { ...fresh, ...(stored['anchorUs'] === undefined ? stored : upgraded(stored)) }
}

/** 0.1.0 had no `walk` while it searched, and stored its state beside it. */
function upgraded({ untilTold, anchorUs, walk, probe, checking, doubted, dead, ...fields }: Fields): Fields {
  const lost = { ...walkFrom({ id: typeof dead === 'string' ? dead : '', at: Number(anchorUs) }), probe }
  const state = checking === true ? 'check_end' : doubted === true ? 'page_again' : 'page'
  return {
    ...{ ...fields, dead, untilByServer: untilTold },
    walk: fieldsOf(walk) ? { ...fieldsOf(walk), state } : { ...lost, state: 'find' },
  }
}

/** Our key's user in the log, once the walk has met an own fetch. */
export function userOf(text: Cursor | undefined): string | undefined {
  return openRangeCursor(text)?.fetches.user ?? undefined
}

/** What the chunks of one page share. */
interface PageUnderWay {
  /** hashes of its last entries: a server may send far more than `take` */
  readonly keys: Set<string>
  /** an entry after `sentUs` came: from here on only the hashes find repeated entries */
  isBack: boolean
}

/** @internal for tests */
export const freshPage = (): PageUnderWay => ({ keys: new Set(), isBack: false })

/** The span's entries, each once: pages may overlap or be repeated. @internal for tests */
export function within(entries: Entries, range: RangeCursor, page: PageUnderWay): Entries {
  const before = new Set(range.tail)
  const sentUs = range.sentUs ?? -Infinity
  const kept: number[] = []
  for (let i = 0; i < entries.count; i++) {
    const at = entries.at(i)
    if (at >= range.untilUs) continue
    if (at > sentUs) page.isBack = true
    if (at < sentUs && !page.isBack) continue
    const key = hash('sha256', `${at} ${entries.id(i)}`, 'base64url').slice(0, KEY_LENGTH)
    const known = before.has(key) || page.keys.has(key)
    page.keys.add(key)
    const [oldest = key] = page.keys
    if (page.keys.size > TAIL_LENGTH) page.keys.delete(oldest)
    if (!known) kept.push(i)
  }
  return kept.length === entries.count ? entries : entries.pick(kept)
}

/** Remembers the entries of a page that had anything new. @internal for tests */
export function recordPage(range: RangeCursor, { keys, isBack }: PageUnderWay): void {
  const before = new Set(range.tail)
  if ([...keys].some((key) => !before.has(key))) range.tail = [...keys]
  if (isBack) range.sentUs = null
}
