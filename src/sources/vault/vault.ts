// The vault's projects as a source: reads the list page by page, delivers a first inventory, then
// changes. The pass, its end, and the proof of deletions are in pass.ts.
import { believed } from '../../core/clock.ts'
import { WHOLE_BODY_BYTES } from '../../contracts/entries.ts'
import { ConnectorError } from '../../core/errors.ts'
import type { Cursor, Stream, PageChunk, Plan, Quarantined, Source } from '../../contracts/source.ts'
import { turns } from '../../core/abort.ts'
import { BodySample, bufferBody } from '../http/groups.ts'
import type { Answer } from '../http/client.ts'
import { Sightings } from '../http/sightings.ts'
import { partOf } from '../shared.ts'
import type { SourceOptions } from '../shared.ts'
import {
  cutPage,
  isEnd,
  isNoProject,
  oversized,
  PageSize,
  pathOf,
  smallerThan,
  type VaultPage,
  withPermission,
} from './page.ts'
import { checkWeight } from './bounds.ts'
import { Comparison, markUnreadable } from './compare.ts'
import { closeVaultCursor, dropUnused, openVaultCursor, plannedOf } from './cursor.ts'
import type { Pass, Planned, VaultCursor } from './cursor.ts'
import {
  beginPass,
  endPass,
  isMany,
  verdictOf,
  addPage,
  countRepeat,
  markSeen,
  maxUnsavedPages,
  passUnderWay,
  type Verdict,
} from './pass.ts'
import { isNew, Records, sightingOf, type Sighting } from './records.ts'

/** Records that wait until the cursor is written. */
const WAITING_BYTES = 1024 * 1024
/** Comparing a long page yields to other work after this time. */
const TURN_MS = 20

export interface VaultOptions extends SourceOptions {
  /** from the end of a pass to the next one */
  readonly intervalMs: number
}

/**
 * A working copy of the cursor: ahead of its text by changes that are not in the journal yet. May
 * be lost at any moment.
 */
interface Work {
  text: Cursor | undefined
  readonly cursor: VaultCursor
  readonly comparison: Comparison
  readonly records: Records
  unsavedPages: number
}

/** One request: whether its answer was used, and what aborts it. */
interface Asking {
  readonly exchange: { answered: boolean }
  readonly signal: AbortSignal
}

export class VaultSource implements Source {
  readonly stream: Stream
  readonly #options: VaultOptions
  #work: Work | undefined
  /** for `once`: passes completed by this process, and whether it is done */
  #passes = 0
  #done = false
  /** number of the first pass that this process can begin */
  #firstPass: number | undefined
  /** a page could not be used: pages before it are saved one by one, and only it is repeated */
  #isStuck = false
  readonly #size = new PageSize()
  readonly #sightings = new Sightings()
  /** for plans: the text may have megabytes and is not parsed again for each plan */
  #planned: ({ readonly text: Cursor | undefined } & Planned) | undefined

  constructor(options: VaultOptions) {
    this.#options = options
    this.stream = options.stream
  }

  plan(text: Cursor | undefined): Plan {
    const now = this.#options.clock.now()
    if (this.#options.once) return { dueAt: now, priority: 'live', caughtUp: this.#done }
    if (this.#work && this.#work.text === text) return this.#planOf(this.#work.cursor, now)
    if (!this.#planned || this.#planned.text !== text)
      this.#planned = { text, ...plannedOf(openVaultCursor(text, now, this.stream.workspace)) }
    return this.#planOf(this.#planned, now)
  }

  #planOf({ pass, last, dueAt }: Planned, now: number): Plan {
    const nextAt = pass ? now : believed(dueAt, this.#options.intervalMs, now)
    return { dueAt: nextAt, priority: 'live', caughtUp: pass === null && last !== null }
  }

  async *read(text: Cursor | undefined, signal: AbortSignal): AsyncGenerator<PageChunk, void> {
    const { client, clock } = this.#options
    const work = this.#open(text)
    const { cursor } = work
    const pass = this.#size.underWay(this.#passUnderWay(cursor)) ?? beginPass(cursor, clock.now())
    const exchange = { answered: false }
    try {
      const ask = { method: 'GET', path: pathOf(pass) } as const
      yield* client.send(ask, 'live', signal, (answer) =>
        this.#page(work, pass, answer, { exchange, signal }),
      )
    } catch (error) {
      if (exchange.answered || !isEnd(error, pass)) {
        // Nothing of this page was used: the pass continues with it.
        if (!exchange.answered) this.#work = work
        else this.#isStuck = true
        this.#size.failed(error, pass.perPage, (perPage) => beginPass(cursor, clock.now(), perPage))
        throw withPermission(error)
      }
      yield* this.#finish(work, pass, sightingOf(cursor, pass, undefined, clock))
    }
    this.#size.answered(cursor.pass === null)
    // Between two passes the text suffices, and is not parsed to see when the next one is due.
    this.#work = cursor.pass ? work : undefined
    if (cursor.pass) return
    this.#isStuck = false
    this.#planned = { text: work.text, ...plannedOf(cursor) }
  }

  /** Pages that another process read prove nothing about the time when a single run began. */
  #passUnderWay(cursor: VaultCursor): Pass | undefined {
    const { clock, once } = this.#options
    this.#firstPass ??= cursor.passes + 1
    const pass = passUnderWay(cursor, clock.now())
    return once && pass && pass.n < this.#firstPass ? undefined : pass
  }

  /** Takes `work` out: it is put back only after this read has succeeded. */
  #open(text: Cursor | undefined): Work {
    const work = this.#work?.text === text ? this.#work : undefined
    this.#work = undefined
    this.#planned = undefined
    if (work) return work
    const cursor = openVaultCursor(text, this.#options.clock.now(), this.stream.workspace)
    return { text, cursor, comparison: new Comparison(cursor), records: new Records(), unsavedPages: 0 }
  }

  async *#page(
    work: Work,
    pass: Pass,
    answer: Answer,
    { exchange, signal }: Asking,
  ): AsyncGenerator<PageChunk> {
    const { clock } = this.#options
    const narrower = smallerThan(pass.perPage)
    // A page that cannot be smaller is read to its end, for its length and hash.
    const sample = new BodySample()
    const body = await bufferBody(answer, WHOLE_BODY_BYTES, narrower === undefined ? sample : undefined)
    if (!body && narrower !== undefined) {
      // The page size changes, so the pass restarts.
      beginPass(work.cursor, clock.now(), narrower)
      return
    }
    const page: VaultPage = body
      ? cutPage(body, this.#options)
      : { projects: [], malformed: [oversized(sample)], total: undefined, totalPages: undefined }
    const gaps = this.#checkElements(work, pass, page)
    exchange.answered = true
    const sighting = sightingOf(work.cursor, pass, answer, clock)
    const fresh = yield* this.#projects(work, pass, page, { sighting, signal })
    const isOver = addPage(pass, page, fresh, clock.now())
    checkWeight(work.cursor, this.stream.workspace)
    const quarantined = page.malformed.map((element) => element.quarantined)
    if (isOver) yield* this.#finish(work, pass, sighting, { quarantined, gaps })
    else if (this.#isDue(work, quarantined)) yield landed(work, { quarantined, gaps })
    else work.unsavedPages++
  }

  /**
   * Throws ConnectorError `bad_reply` while elements that are not projects may be an API error.
   * Without a project beside them the list is read from its other end, where they may have one.
   * Returns the possible gaps.
   */
  #checkElements({ cursor }: Work, pass: Pass, { projects, malformed }: VaultPage): number {
    const noProjects = malformed.filter(isNoProject).map(({ quarantined }) => quarantined)
    const pages = { from: pass.page, to: pass.page + 1 }
    const good = projects.length + malformed.length - noProjects.length
    const areAlone = good === 0 && noProjects.some((element) => !this.#sightings.isMalformed(pages, element))
    if (areAlone) {
      cursor.pass = null
      beginPass(cursor, this.#options.clock.now(), pass.perPage)
    } else {
      const isReported = this.#sightings.isUnsteady(pages)
      const sighted = this.#sightings.record(pages, noProjects, good)
      if (sighted === 'unsteady' && !isReported) {
        this.#options.log.error(
          'The list of vault projects contains other malformed elements in each answer: they are quarantined (auditferry quarantine list), and a project may be missing',
          { page: pass.page },
        )
        return 1
      }
      if (sighted !== 'undecided') return 0
    }
    throw new ConnectorError(
      'bad_reply',
      areAlone
        ? 'the project list has elements, but none of them is a project: perhaps an API error'
        : 'the project list has elements that are not projects, perhaps an API error; it is requested again to check',
    )
  }

  /** Reports what is new in each project. Returns how many this pass had not seen. */
  async *#projects(
    work: Work,
    pass: Pass,
    page: VaultPage,
    { sighting, signal }: { readonly sighting: Sighting; readonly signal: AbortSignal },
  ): AsyncGenerator<PageChunk, number> {
    const { cursor, comparison, records } = work
    const { workspace } = this.stream
    const othersTurn = turns(this.#options.clock, TURN_MS, signal)
    let fresh = 0
    for (const project of page.projects) {
      await othersTurn()
      let copies = 0
      const before = cursor.projects.get(project.id)
      // An id that comes twice in a pass is compared once: two contents with one id would otherwise
      // be news in every pass.
      if (before && countRepeat(pass, before)) continue
      for (const change of comparison.changes(project, (at) => isNew(cursor, at, sighting))) {
        const name = cursor.projects.get(project.id)?.name ?? ''
        const subject = { workspace, projectId: project.id, name, raw: project.raw }
        records.add(subject, change, sighting, ++cursor.told, ++copies)
        if (records.full) yield landed(work)
        await othersTurn()
      }
      const known = cursor.projects.get(project.id)
      if (known && markSeen(pass, known)) fresh++
    }
    for (const { id } of page.malformed)
      if (id !== undefined && markSeen(pass, markUnreadable(cursor, id))) fresh++
    return fresh
  }

  #isDue({ unsavedPages, records, text }: Work, quarantined: readonly Quarantined[]): boolean {
    return (
      this.#isStuck ||
      quarantined.length > 0 ||
      records.bytes >= WAITING_BYTES ||
      unsavedPages + 1 >= maxUnsavedPages(text?.length ?? 0)
    )
  }

  /** The list is over: reports proven deletions, and closes the pass. */
  async *#finish(
    work: Work,
    pass: Pass,
    sighting: Sighting,
    more: Partial<PageChunk> = {},
  ): AsyncGenerator<PageChunk> {
    const { clock, intervalMs, once, reporter } = this.#options
    const { cursor, records } = work
    const verdict = verdictOf(cursor, pass)
    const before = cursor.projects.size
    for (const { id, name, content } of verdict.gone) {
      cursor.projects.delete(id)
      // A project that was never readable was never reported, so its end is not reported either.
      if (content === '') continue
      const subject = { workspace: this.stream.workspace, projectId: id, name, raw: undefined }
      records.add(subject, { type: 'vault:project_deleted' }, sighting, ++cursor.told, 1)
      if (records.full) yield landed(work)
    }
    const isFirst = cursor.last === null
    endPass(cursor, pass, verdict.missing, clock.now(), intervalMs)
    dropUnused(cursor)
    // Before the part: the state stored with it includes when everything was read.
    reporter.head(sighting.seenUs)
    reporter.cursor(sighting.seenUs)
    reporter.caughtUp()
    yield landed(work, more)
    this.#logVerdict(cursor, pass, verdict, isFirst)
    if (isMany(verdict.gone.length, before))
      this.#options.log.warn(
        'Many vault projects are no longer listed for this key and are reported as deleted: check whether the key lost permissions',
        { gone: verdict.gone.length, of: before },
      )
    this.#passes++
    if (once && (verdict.missing === 0 || this.#passes > 1)) this.#done = true
  }

  #logVerdict({ projects }: VaultCursor, pass: Pass, { missing, unproven }: Verdict, isFirst: boolean): void {
    const { log } = this.#options
    if (isFirst) log.info('The first inventory of the vault is complete', { projects: projects.size })
    if (unproven === 'short')
      log.warn(
        'The list of vault projects shows fewer than its own total says: missing projects are not reported as deleted until both agree',
        { shown: pass.seen, total: pass.total, missing, withoutId: pass.nameless },
      )
  }
}

/** A part with all waiting records and the current cursor: they are stored together. */
function landed(work: Work, more: Partial<PageChunk> = {}): PageChunk {
  work.text = closeVaultCursor(work.cursor)
  work.unsavedPages = 0
  return partOf({ ...more, entries: work.records.take(), cursor: work.text })
}
