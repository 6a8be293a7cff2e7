// How fast the journal takes in, gives out and prunes, at growing numbers of known keys. Prints, asserts nothing. `node bench/journal.ts`
import { randomFillSync } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { openJournal } from '../src/journal/journal.ts'
import { COLUMNS, Entries } from '../src/model/entries.ts'
import type { Append, Journal } from '../src/model/journal.ts'
import type { Log } from '../src/model/log.ts'

const PAGE = 1000
const ENTRY_BYTES = 350
const START_US = 1_760_000_000_000_000
const STEP_US = 86_400
const DAY_MS = 86_400_000
const millions = (count: number) => `${(count / 1e6).toFixed(count < 1e6 ? 1 : 0)} M`

const quiet: Log = { debug() {}, info() {}, warn() {}, error() {}, with: () => quiet }

/** Pages of a feed: a million entries a day, random ids, times ascending. Made outside of what is measured. */
class Feed {
  #count = 0
  readonly #template = Buffer.from(
    `{"id":"${'0'.repeat(36)}","timestamp":"2026-01-31T00:00:00.000000","type":"user:create_query","user":"`
      .padEnd(ENTRY_BYTES - 2, 'x')
      .concat('"}'),
  )

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
      times[i] = START_US + this.#count++ * STEP_US
    }
    return {
      origin: { workspace: 'acme', source: 'audit' },
      entries: new Entries(bytes, PAGE, columns, times, ['user:create_query']),
      quarantined: [],
      findings: [],
      headAt: undefined,
      cursor: `{"from":${this.#count}}`,
      gaps: 0,
    }
  }

  get nowMs(): number {
    return (START_US + this.#count * STEP_US) / 1000
  }
}

function writtenBytes(): number {
  try {
    return Number(/^write_bytes: (\d+)/m.exec(readFileSync('/proc/self/io', 'latin1'))?.[1])
  } catch {
    return NaN
  }
}

interface Cost {
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

const nothing = (): Cost => ({ seconds: 0, cpuSeconds: 0, bytes: 0 })

const median = (values: number[]) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN

function line(name: string, entries: number, costs: Cost[], best?: number): number {
  const rate = median(costs.map(({ seconds }) => entries / seconds))
  const cpu = median(costs.map(({ cpuSeconds }) => (cpuSeconds / entries) * 1e6))
  const bytes = median(costs.map((cost) => cost.bytes / entries))
  const ratio = best === undefined ? '' : `  ${(rate / best).toFixed(2)} of the best`
  console.log(
    `${name.padEnd(44)} ${Math.round(rate).toLocaleString('en').padStart(10)}/s  ${cpu.toFixed(2)} CPU s/M  ${bytes.toFixed(0)} bytes written each${ratio}`,
  )
  return rate
}

async function settleAll(journal: Journal): Promise<void> {
  for (;;) {
    const batch = await journal.take('archive', { maxEntries: 1000, maxBytes: 2 ** 20 })
    if (batch === undefined) return
    const { first, last, count } = batch
    await journal.settle('archive', { first, through: last, accepted: count, filtered: 0, parked: [] })
  }
}

async function pruneAll(journal: Journal): Promise<void> {
  while (await journal.prune()) continue
}

/** Appends `pages`, `group` at a time; what is owed is settled and pruned outside of the measure. */
async function appendPages(journal: Journal, feed: Feed, pages: number, cost: Cost): Promise<void> {
  const group = 50
  for (let done = 0; done < pages; done += group) {
    const parts = Array.from({ length: Math.min(group, pages - done) }, () => feed.page())
    await measured(cost, async () => {
      for (const part of parts) await journal.append(part)
    })
    await settleAll(journal)
    await pruneAll(journal)
  }
}

export async function run(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'auditferry-bench-'))
  const path = join(folder, 'journal.db')
  const feed = new Feed()
  const clock = { now: () => feed.nowMs, elapsed: () => performance.now(), sleep: async () => {} }
  const open = (keepKeysMs: number) =>
    openJournal({
      path,
      maxBytes: 2 ** 31,
      keepKeysMs,
      keepSettledBytes: 0,
      sinks: ['archive'],
      clock,
      log: quiet,
    })
  try {
    let journal = await open(365 * DAY_MS)
    console.log(`pages of ${PAGE} entries of ${ENTRY_BYTES} bytes, synchronous FULL, bytes of /proc/self/io`)
    await appendPages(journal, feed, 100, nothing())
    const rates: number[] = []
    let keys = 100
    for (const size of [100, 1000, 10_000]) {
      if (keys < size) await appendPages(journal, feed, size - keys, nothing())
      const costs: Cost[] = []
      for (let sample = 0; sample < 5; sample++) {
        const cost = nothing()
        await appendPages(journal, feed, 100, cost)
        costs.push(cost)
      }
      keys = size + 500
      const best = rates.length === 0 ? undefined : Math.max(...rates)
      rates.push(line(`append, ${millions(size * PAGE)} keys there`, 100 * PAGE, costs, best))
    }
    const steady: Cost[] = []
    const known: Cost[] = []
    for (let sample = 0; sample < 5; sample++) {
      const parts = Array.from({ length: 100 }, () => feed.page())
      const cost = nothing()
      await measured(cost, async () => {
        for (const part of parts) {
          await journal.append(part)
          await settleAll(journal)
          await journal.prune()
        }
      })
      steady.push(cost)
      const again = nothing()
      await measured(again, async () => {
        for (const part of parts) await journal.append(part)
      })
      known.push(again)
    }
    line('append, take, settle, prune', 100 * PAGE, steady)
    line('append of known entries', 100 * PAGE, known)
    console.log(`file ${(statSync(path).size / 1e6).toFixed(0)} MB`)
    await journal.close()
    // The oldest days become too old, one at a time; the first two only pay for what the drain above still holds.
    const newestMs = feed.nowMs
    const days: Cost[] = []
    for (let day = 1; day <= 5; day++) {
      journal = await open(newestMs - START_US / 1000 - day * DAY_MS)
      const cost = nothing()
      await measured(cost, () => pruneAll(journal))
      days.push(cost)
      await journal.close()
    }
    line('prune of a day of a million keys', 1e6, days)
    console.log(`that is ${median(days.map(({ seconds }) => seconds)).toFixed(2)} s a day`)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await run()
