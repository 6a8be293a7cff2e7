// One workspace of the mock: its keys, its entries, its people's traffic and its vault.
import { DAY_MS, HOUR_MS } from '../core/time.ts'
import { Entry, Ledger } from './entry.ts'
import type { View } from './entry.ts'
import { fateOf } from './faults.ts'
import type { FaultPlans } from './faults.ts'
import type { Completion } from './history-event.ts'
import { keyOf, Minute } from './keys.ts'
import type { Area, Key, KeyOptions } from './keys.ts'
import { streamSeed, uuidStream } from './random.ts'
import { renderEntry } from './render.ts'
import type { DefectSizes } from './render.ts'
import type { Defect, HistoryDefect, Switches } from './switches.ts'
import { openTraffic, prepareBacklog } from './traffic.ts'
import type { Traffic, TrafficOptions } from './traffic.ts'
import { Vault } from './vault-people.ts'

const WEEK_MS = 7 * DAY_MS
/** Number of past entries created before the first answer: takes some seconds and about 150 MB. */
const PAST_ENTRIES = 250_000

/** Default start of the traffic: a week ago, or as long as that many entries take. */
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
  readonly plans: FaultPlans
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
  readonly keys: readonly Key[]
  readonly ledger = new Ledger()
  /** questions asked through the API, by the id of their audit entry */
  readonly completions = new Map<string, Completion>()
  readonly vault: Vault
  /** the last page of each area and key, for the fault that repeats it */
  readonly lastPages = new Map<string, readonly unknown[]>()
  readonly #minutes = new Map<string, Minute>()
  readonly #traffic: Traffic
  readonly #ids
  #added = 0
  #ownMs = NaN
  #ownUs = 0

  constructor(options: WorkspaceOptions, { seed: commonSeed, now, switches, plans }: WorkspaceDeps) {
    const { name } = options
    const domain = `${name}.example`
    const seed = streamSeed(commonSeed, name)
    const { backlog = 0, exotic = 0.05, rhythm = 'office', ...traffic } = options.traffic ?? {}
    const entriesPerHour = traffic.entriesPerHour ?? (backlog > 0 ? 0 : 120)
    const since = traffic.since ?? now - (backlog > 0 ? WEEK_MS : pastMs(entriesPerHour))
    this.name = name
    this.seed = seed
    this.domain = domain
    this.switches = switches
    this.exotic = exotic
    this.keys = (options.keys ?? [{ key: `${name}-key` }]).map((key) => keyOf(key, domain))
    this.#ids = uuidStream(seed, 'own')
    const common = { seed, domain, exotic }
    if (backlog > 0) {
      const settings = { ...common, sinceMs: since }
      const prepared = prepareBacklog(settings, backlog, now, switches.history_visible_after)
      for (const entry of prepared) this.ledger.insert(entry)
    }
    const beforeUs = since * 1000
    this.vault = new Vault({ seed, domain, switches, beforeUs, projects: options.projects })
    this.#traffic = openTraffic({
      ...common,
      sinceMs: backlog > 0 ? now : since,
      rhythm,
      entriesPerHour,
      sizes: () => this.#sizes(),
      fate: (index, atMs) => fateOf(plans, switches, seed, index, atMs),
    })
  }

  #sizes(): DefectSizes {
    return { depth: this.switches.deep_levels, hugeBytes: this.switches.huge_bytes }
  }

  /** Advances to `now`, by the server's clock. */
  advance(now: number): void {
    this.#traffic(now, (entry) => {
      this.ledger.insert(entry)
      this.vault.apply(entry)
    })
    this.vault.state.completeDeletions(now * 1000)
    const { retention } = this.switches
    if (retention > 0) this.ledger.purgeBefore((now - retention) * 1000)
  }

  purge(id: string): void {
    const entry = this.ledger.find(id)
    if (entry) entry.purged = true
  }

  /** The entry `id` and all before it. */
  purgeThrough(id: string): void {
    const entry = this.ledger.find(id)
    if (entry) this.ledger.purgeBefore(entry.atUs + 1)
  }

  /** Each in its own microsecond, in the lower half of its millisecond: see `minuteOf`. */
  #nextUs(now: number): number {
    this.#ownUs = now === this.#ownMs ? Math.min(this.#ownUs + 1, 499) : 0
    this.#ownMs = now
    return now * 1000 + this.#ownUs
  }

  add(given: NewEntry, now: number, origin: 'self' | 'added' = 'added'): Entry {
    this.advance(now)
    const number = this.#added++
    const id = given.id ?? this.#ids(number)
    const atUs = given.atUs ?? (given.at === undefined ? this.#nextUs(now) : given.at * 1000)
    const { type = 'user:create_query', defect, user = `someone@${this.domain}`, ip = '203.0.113.99' } = given
    const soonest = Math.max(now, Math.floor(atUs / 1000))
    const visibleAt = given.visibleAt ?? soonest
    const historyAt = given.historyVisibleAt ?? soonest + this.switches.history_visible_after
    const { historyDefect, raw, userAgent = 'hand-made' } = given
    const data = JSON.stringify(given.data ?? {})
    const facts = { id, atUs, type, user, visibleAt, origin, number, historyAt, historyDefect, defect }
    const content = { id, atUs, type, user, ip, userAgent, data }
    const entry = new Entry(facts, () => raw ?? renderEntry(content, undefined, defect, this.#sizes()))
    this.ledger.insert(entry)
    return entry
  }

  /** The page after (or with) the entry `id`; undefined if there is no such entry (any more). */
  pageFrom(id: string, isInclusive: boolean, take: number, view: View): Entry[] | undefined {
    const anchor = this.ledger.find(id)
    if (!anchor || anchor.purged || anchor.visibleAt > view.now) return undefined
    return this.ledger.pageFrom(anchor, isInclusive, take, view)
  }

  /** Names what one key has in one area. */
  slotOf(area: Area, key: Key): string {
    return `${area} ${this.keys.indexOf(key)}`
  }

  /** The rolling minute in which requests of `key` to `area` count. */
  minuteOf(area: Area, key: Key): Minute {
    const name = this.switches.rate_scope === 'workspace' ? area : this.slotOf(area, key)
    const minute = this.#minutes.get(name) ?? new Minute()
    this.#minutes.set(name, minute)
    return minute
  }
}
