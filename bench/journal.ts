// How fast the journal takes in, gives out and prunes, at growing numbers of known keys. Prints, asserts nothing. `node bench/journal.ts`
import { randomFillSync } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { openRegistered } from '../test/fakes/registered.ts'
import { COLUMNS, Entries } from '../src/contracts/entries.ts'
import type { Append, Journal } from '../src/contracts/journal.ts'
import type { Log } from '../src/core/log.ts'

export const PAGE = 1000
const ENTRY_BYTES = 350
const START_US = 1_760_000_000_000_000
const STEP_US = 86_400
export const DAY_MS = 86_400_000
export const millions = (count: number) => `${(count / 1e6).toFixed(count < 1e6 ? 1 : 0)} M`

export const quiet: Log = { debug() {}, info() {}, warn() {}, error() {}, with: () => quiet }

/** Pages of a feed: a million entries a day, random ids, times ascending. Made outside of what is measured. */
export class Feed {
  #count = 0
  readonly #startUs: number
  readonly #template = Buffer.from(
    `{"id":"${'0'.repeat(36)}","timestamp":"2026-01-31T00:00:00.000000","type":"user:create_query","user":"`
      .padEnd(ENTRY_BYTES - 2, 'x')
      .concat('"}'),
  )

  constructor(startUs = START_US) {
    this.#startUs = startUs
  }

  page(): Append {
    const bytes = Buffer.allocUnsafeSlow(PAGE * ENTRY_BYTES)
    const columns = new Uint32Array(PAGE * COLUMNS)
    const times = new Float64Array(PAGE)
    const random = randomFillSync(Buffer.allocUnsafe(PAGE * 16)).toString('hex')
    for (let i = 0; i < PAGE; i++) {
      const at = i * ENTRY_BYTES
      const hex = random.slice(i * 32, i * 32 + 32)
      this.#template.copy(bytes, at)
      const id = [
        hex.slice(0, 8),
        hex.slice(8, 12),
        hex.slice(12, 16),
        hex.slice(16, 20),
        hex.slice(20),
      ].join('-')
      bytes.write(id, at + 7, 'latin1')
      columns.set([at, at + ENTRY_BYTES, at + 7, at + 43, at + 58, at + 84, 0, 0], i * COLUMNS)
      times[i] = this.#startUs + this.#count++ * STEP_US
    }
    return {
      stream: { workspace: 'acme', source: 'audit' },
      entries: new Entries(bytes, PAGE, columns, times, ['user:create_query']),
      quarantined: [],
      findings: [],
      headUs: undefined,
      cursor: `{"from":${this.#count}}`,
      gaps: 0,
    }
  }

  get nowMs(): number {
    return (this.#startUs + this.#count * STEP_US) / 1000
  }
}

function writtenBytes(): number {
  try {
    return Number(/^write_bytes: (\d+)/m.exec(readFileSync('/proc/self/io', 'latin1'))?.[1])
  } catch {
    return NaN
  }
}

export interface Cost {
  seconds: number
  cpuSeconds: number
  bytes: number
}

async function measured(cost: Cost, work: () => Promise<unknown>): Promise<void> {
  const [from, cpu, bytes] = [performance.now(), process.cpuUsage(), writtenBytes()]
  await work()
  const { user, system } = process.cpuUsage(cpu)
  cost.seconds += (performance.now() - from) / 1000
  cost.cpuSeconds += (user + system) / 1e6
  cost.bytes += writtenBytes() - bytes
}

export const nothing = (): Cost => ({ seconds: 0, cpuSeconds: 0, bytes: 0 })

export const median = (values: number[]) =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN

export function line(name: string, entries: number, costs: Cost[], best?: number): number {
  const rate = median(costs.map(({ seconds }) => entries / seconds))
  const cpu = median(costs.map(({ cpuSeconds }) => (cpuSeconds / entries) * 1e6))
  const bytes = median(costs.map((cost) => cost.bytes / entries))
  const ratio = best === undefined ? '' : `  ${(rate / best).toFixed(2)} of the best`
  console.log(
    `${name.padEnd(46)} ${Math.round(rate).toLocaleString('en').padStart(10)}/s  ${cpu.toFixed(2)} CPU s/M  ${bytes.toFixed(0)} bytes written each${ratio}`,
  )
  return rate
}

export async function acknowledgeAll(journal: Journal): Promise<void> {
  for (;;) {
    const batch = await journal.take('archive', { maxEntries: 1000, maxBytes: 2 ** 20 })
    if (batch === undefined) return
    const { first, last } = batch
    await journal.ack('archive', { first, through: last, rejected: [] })
  }
}

export async function pruneAll(journal: Journal): Promise<void> {
  while (await journal.prune()) continue
}

/** Appends `pages`, `group` at a time; what is pending is acknowledged and pruned outside of the measure. */
export async function appendPages(journal: Journal, feed: Feed, pages: number, cost: Cost): Promise<void> {
  const group = 50
  for (let done = 0; done < pages; done += group) {
    const parts = Array.from({ length: Math.min(group, pages - done) }, () => feed.page())
    await measured(cost, async () => {
      for (const part of parts) await journal.append(part)
    })
    await acknowledgeAll(journal)
    await pruneAll(journal)
  }
}

interface Store {
  readonly name: string
  readonly path: string
  readonly feed: Feed
  journal: Journal
  readonly costs: Cost[]
}

function openStore(path: string, feed: Feed, keepKeysMs: number): Promise<Journal> {
  const clock = { now: () => feed.nowMs, elapsed: () => performance.now(), sleep: async () => {} }
  return openRegistered({
    ...{ path, maxBytes: 2 ** 31, keepKeysMs, keepDeliveredBytes: 0, sinks: ['archive'], clock, log: quiet },
  })
}

/** Three stores side by side, one sample of each in turn, so that a noisy disk is noisy for all. */
async function benchAppend(stores: readonly Store[]): Promise<void> {
  for (let sample = 0; sample < 9; sample++) {
    for (const { journal, feed, costs } of stores) {
      const cost = nothing()
      await appendPages(journal, feed, 100, cost)
      costs.push(cost)
    }
  }
  const best = Math.max(
    ...stores.map(({ costs }) => median(costs.map(({ seconds }) => (100 * PAGE) / seconds))),
  )
  for (const { name, costs } of stores) line(`append, ${name} keys there`, 100 * PAGE, costs, best)
}

async function benchSteady({ journal, feed }: Store): Promise<void> {
  const steady: Cost[] = []
  const known: Cost[] = []
  const mixed: Cost[] = []
  for (let sample = 0; sample < 5; sample++) {
    const parts = Array.from({ length: 100 }, () => feed.page())
    const [cost, again, half] = [nothing(), nothing(), nothing()]
    await measured(cost, async () => {
      for (const part of parts) {
        await journal.append(part)
        await acknowledgeAll(journal)
        await journal.prune()
      }
    })
    await measured(again, async () => {
      for (const part of parts) await journal.append(part)
    })
    // Every page begins with an entry that is known already, as where `from` is inclusive.
    const overlapping = Array.from({ length: 100 }, () => feed.page()).flatMap((part) => {
      const { entries } = part
      return [
        { ...part, entries: entries.slice(0, PAGE / 2) },
        { ...part, entries: entries.slice(PAGE / 2 - 1, PAGE) },
      ]
    })
    await journal.append(overlapping[1] ?? feed.page())
    await measured(half, async () => {
      for (const part of overlapping) await journal.append(part)
    })
    await acknowledgeAll(journal)
    await pruneAll(journal)
    steady.push(cost)
    known.push(again)
    mixed.push(half)
  }
  line('append, take, acknowledge, prune', 100 * PAGE, steady)
  line('append of known entries', 100 * PAGE, known)
  line('append of 500 each, every second one overlaps', 100 * PAGE, mixed)
}

/** Reopened with a shorter memory each time, so that one more day of a million keys is too old. */
async function benchPrune(store: Store): Promise<void> {
  const days: Cost[] = []
  for (let day = 1; day <= 5; day++) {
    await store.journal.close()
    store.journal = await openStore(store.path, store.feed, store.feed.nowMs - START_US / 1000 - day * DAY_MS)
    const cost = nothing()
    await measured(cost, () => pruneAll(store.journal))
    days.push(cost)
  }
  line('prune of a day of a million keys', 1e6, days)
}

export async function run(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'auditferry-bench-'))
  const stores: Store[] = []
  try {
    console.log(
      `pages of ${PAGE} entries of ${ENTRY_BYTES} bytes, synchronous FULL, bytes of /proc/self/io, medians`,
    )
    for (const pages of [100, 1000, 10_000]) {
      const [path, feed] = [join(folder, `${pages}.db`), new Feed()]
      const journal = await openStore(path, feed, 365 * DAY_MS)
      stores.push({ name: millions(pages * PAGE), path, feed, journal, costs: [] })
      await appendPages(journal, feed, pages, nothing())
    }
    await benchAppend(stores)
    const largest = stores.at(-1)
    if (largest === undefined) return
    await benchSteady(largest)
    console.log(`its file: ${(statSync(largest.path).size / 1e6).toFixed(0)} MB`)
    await benchPrune(largest)
  } finally {
    for (const { journal } of stores) await journal.close()
    rmSync(folder, { recursive: true, force: true })
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await run()
