// One workspace of the mock: its entries (a prepared backlog, then the ledger), its people's
// traffic and its keys.
import { DAY_MS, HOUR_MS } from '../core/time.ts'
import { Asked } from './asked.ts'
import { Backlog } from './backlog.ts'
import { Entry, Ledger } from './entry.ts'
import type { EntryFacts, MockEntry } from './entry.ts'
import { fateOf } from './faults.ts'
import type { FaultBoard } from './faults.ts'
import { keyOf, Minute } from './keys.ts'
import type { Area, Key, KeyOptions } from './keys.ts'
import { chained, emptyPage, pageOf } from './replies.ts'
import type { Page } from './replies.ts'
import { streamSeed, uuidStream } from './random.ts'
import { render } from './render.ts'
import type { DefectSizes } from './render.ts'
import type { Defect, HistoryDefect, Switches } from './switches.ts'
import { openTraffic } from './traffic.ts'
import type { Traffic, TrafficOptions } from './traffic.ts'
import { Vault } from './vault-life.ts'

const WEEK_MS = 7 * DAY_MS
/** Number of past traffic entries that are created before the first answer: takes some seconds and about 150 MB. */
const PAST_ENTRIES = 250_000

/** Default start of the traffic: a week ago, or the time that this many entries take at the mean rate. */
const pastMs = (entriesPerHour: number) =>
  Math.min(WEEK_MS, Math.ceil((PAST_ENTRIES / entriesPerHour) * HOUR_MS))

export interface WorkspaceOptions {
  readonly name: string
  readonly keys?: readonly KeyOptions[]
  readonly traffic?: TrafficOptions
  /** vault projects at the start; default 48, of which history events name the first 40 */
  readonly projects?: number
}

/** A manual entry. Omitted values are generated; `at` is epoch ms, by default now. */
export interface NewEntry {
  readonly id?: string
  readonly at?: number
  readonly atUs?: number
  readonly type?: string
  readonly user?: string
  readonly ip?: string
  readonly userAgent?: string
  /** any JSON value */
  readonly data?: unknown
  readonly visibleAt?: number
  /** of its history events, if its type has any */
  readonly historyVisibleAt?: number
  readonly historyDefect?: HistoryDefect
  readonly defect?: Defect
  /** its bytes, regardless of the other values */
  readonly raw?: Uint8Array
}

interface WorkspaceDeps {
  readonly seed: number
  readonly now: number
  readonly switches: Switches
  readonly board: FaultBoard
}

interface ListQuery {
  readonly take: number
  readonly inclusive: boolean
  readonly type: string | undefined
  readonly now: number
}

export class Workspace {
  readonly name: string
  /** of this workspace: other seeds are derived by `streamSeed` */
  readonly seed: number
  /** of its people's addresses */
  readonly domain: string
  readonly switches: Switches
  /** share of odd but legal spellings */
  readonly exotic: number
  /** the questions among its entries, from which the history is made */
  readonly asked: Asked
  readonly keys: readonly Key[]
  readonly vault: Vault
  readonly minutes = new Map<string, Minute>()
  /** the last page of each key, for the fault that repeats it */
  readonly lastPages = new Map<Key, Page>()
  readonly #ledger = new Ledger()
  /** entries other than traffic, by id */
  readonly #own = new Map<string, Entry>()
  readonly #traffic: Traffic
  readonly #backlog: Backlog | undefined
  readonly #deps: WorkspaceDeps
  readonly #ids
  #made = 0
  #ownMs = NaN
  #ownUs = 0

  constructor(options: WorkspaceOptions, deps: WorkspaceDeps) {
    this.name = options.name
    this.#deps = deps
    this.switches = deps.switches
    this.domain = `${options.name}.example`
    this.keys = (options.keys ?? [{ key: `${options.name}-key` }]).map((key) => keyOf(key, this.domain))
    const seed = (this.seed = streamSeed(deps.seed, options.name))
    this.#ids = uuidStream(seed, 'own')
    const { backlog = 0, exotic = 0.05, ...traffic } = options.traffic ?? {}
    const entriesPerHour = traffic.entriesPerHour ?? (backlog > 0 ? 0 : 120)
    const since = traffic.since ?? deps.now - (backlog > 0 ? WEEK_MS : pastMs(entriesPerHour))
    const common = { seed, domain: this.domain, exotic }
    if (backlog > 0)
      this.#backlog = new Backlog({ ...common, count: backlog, sinceMs: since, untilMs: deps.now })
    this.exotic = exotic
    this.asked = new Asked(this.#backlog, this.#ledger, this.switches)
    this.vault = new Vault({
      seed,
      domain: this.domain,
      switches: this.switches,
      beforeUs: since * 1000,
      projects: options.projects,
    })
    this.#traffic = openTraffic({
      ...common,
      sinceMs: backlog > 0 ? deps.now : since,
      rhythm: options.traffic?.rhythm ?? 'office',
      entriesPerHour,
      sizes: () => this.#sizes(),
      fate: (index, atMs) => fateOf(deps.board, this.switches, seed, index, atMs),
    })
  }

  #sizes(): DefectSizes {
    const { deep_levels, huge_bytes } = this.#deps.switches
    return { depth: deep_levels, hugeBytes: huge_bytes }
  }

  /** Advances to `now`, by the server's clock. */
  advance(now: number): void {
    this.#traffic.until(now, (doing) => {
      this.#ledger.insert(doing.entry)
      this.vault.note(doing)
    })
    this.vault.state.settle(now * 1000)
    const { retention } = this.#deps.switches
    if (retention > 0) this.purgeBefore((now - retention) * 1000)
  }

  purgeBefore(us: number): void {
    this.#backlog?.purgeBefore(us)
    this.#ledger.purgeBefore(us)
  }

  purge(id: string): void {
    const entry = this.#find(id)
    if (entry) entry.purged = true
  }

  #find(id: string): Entry | undefined {
    return this.#own.get(id) ?? this.#traffic.find(id)
  }

  /** The entry `id` and all before it. */
  purgeThrough(id: string): void {
    const index = this.#backlog?.indexOf(id)
    const atUs = index === undefined ? this.#find(id)?.atUs : this.#backlog?.atUs(index)
    if (atUs !== undefined) this.purgeBefore(atUs + 1)
  }

  /** Each at its own microsecond of the lower half of its millisecond: see traffic. */
  #nextUs(now: number): number {
    this.#ownUs = now === this.#ownMs ? Math.min(this.#ownUs + 1, 499) : 0
    this.#ownMs = now
    return now * 1000 + this.#ownUs
  }

  add(given: NewEntry, now: number, origin: 'self' | 'added' = 'added'): Entry {
    this.advance(now)
    const number = this.#made++
    const id = given.id ?? this.#ids.at(number)
    const atUs = given.atUs ?? (given.at === undefined ? this.#nextUs(now) : given.at * 1000)
    const { type = 'user:create_query', defect, user = `someone@${this.domain}`, ip = '203.0.113.99' } = given
    const visibleAt = given.visibleAt ?? Math.max(now, Math.floor(atUs / 1000))
    const historyAt =
      given.historyVisibleAt ?? Math.max(now, Math.floor(atUs / 1000)) + this.switches.history_visible_after
    const { historyDefect } = given
    const facts: EntryFacts = { id, atUs, type, visibleAt, origin, user, historyAt, historyDefect, defect }
    const data = JSON.stringify(given.data ?? {})
    const fields = { id, atUs, type, user, ip, userAgent: given.userAgent ?? 'hand-made', data }
    const entry = new Entry(facts, () => given.raw ?? render(fields, undefined, defect, this.#sizes()))
    this.#own.set(id, entry)
    this.#ledger.insert(entry)
    return entry
  }

  /** Entries from `id` on; undefined if there is no such entry (any more). */
  list(id: string, query: ListQuery): Page | undefined {
    const { take, inclusive, type, now } = query
    const index = this.#backlog?.indexOf(id)
    if (index === undefined || !this.#backlog) {
      const anchor = this.#find(id)
      if (!anchor || anchor.purged || anchor.visibleAt > now) return undefined
      return pageOf(this.#ledger.collect(anchor, inclusive, take, now, type))
    }
    const page = this.#backlog.page(inclusive ? index : index + 1, take, type)
    if (page.count === take) return page
    const rest = this.#ledger.collect(undefined, true, take - page.count, now, type)
    return chained(page, pageOf(rest))
  }

  /** A page with one entry, the first at or after `us`, or with none. */
  firstFrom(us: number, now: number, type: string | undefined): Page {
    if (this.#backlog) {
      const index = this.#backlog.next(this.#backlog.firstAt(us), type)
      if (index < this.#backlog.count) return this.#backlog.page(index, 1, undefined)
    }
    const entry = this.#ledger.firstFrom(us, now, type)
    return entry ? pageOf([entry]) : emptyPage
  }

  latest(now: number, type: string | undefined): Page {
    const entry = this.#ledger.last(now, type)
    if (entry) return pageOf([entry])
    const index = this.#backlog?.last(type) ?? -1
    return index < 0 || !this.#backlog ? emptyPage : this.#backlog.page(index, 1, undefined)
  }

  entries(): MockEntry[] {
    const backlog = this.#backlog
    const prepared = backlog ? Array.from({ length: backlog.count }, (_, i) => backlog.entry(i)) : []
    return [...prepared, ...this.#ledger.entries]
  }

  /** The rolling minute in which requests of `key` to `area` count. */
  minuteOf(area: Area, key: Key): Minute {
    const shared = this.#deps.switches.rate_scope === 'workspace'
    const name = shared ? area : `${area} ${this.keys.indexOf(key)}`
    let minute = this.minutes.get(name)
    if (!minute) this.minutes.set(name, (minute = new Minute()))
    return minute
  }
}
