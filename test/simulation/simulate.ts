// Runs one seed: weeks of faults in virtual time with the production code, then compares what arrived with what the mock ever showed.
import { mkdtempSync, rmSync, existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { configSchema } from '../../src/config/schema.ts'
import { openMock } from '../../src/mock/mock.ts'
import type { Mock } from '../../src/mock/mock.ts'
import { faultNames } from '../../src/mock/switches.ts'
import type { Disk, Transport } from '../../src/contracts/platform.ts'
import { ConnectorError } from '../../src/core/errors.ts'
import type { Log, LogFields } from '../../src/core/log.ts'
import { FakeDisk } from '../fakes/disk.ts'
import { FakeHec, hecTransport } from '../fakes/hec.ts'
import type { HecFault } from '../fakes/hec.ts'
import { unsafe, upset } from './acks.ts'
import { judge } from './judge.ts'
import { Orders } from './operator.ts'
import type { OperatorScenario } from './operator.ts'
import { withOutages } from './outages.ts'
import type { Outages } from './outages.ts'
import { startProcess } from './process.ts'
import type { Process } from './process.ts'
import { dice } from './random.ts'
import type { Dice } from './random.ts'
import { hecBatchEntries, HOUR_MS, scenarioOf } from './scenario.ts'
import type { Scenario } from './scenario.ts'
import { VirtualClock, settled } from './virtual-clock.ts'

const API_KEY = 'api-key-that-nobody-may-see'
const HEC_TOKEN = 'hec-token-that-nobody-may-see'
export const secrets = [API_KEY, HEC_TOKEN]
export const FILE_PATH = '/out/entries.ndjson'
/** After the faults: long enough for two whole lookbacks or passes of the vault, and for every retry. */
const LONG_QUIET_MS = 14 * HOUR_MS
/** Of most seeds that read the audit log alone: whatever was visible before is due by then (`judge.ts`). */
const SHORT_QUIET_MS = 8 * HOUR_MS
/** One in so many of those is given the long one too. */
const LONG_QUIET_EACH = 5
/** A sink that comes back is done with its pauses by then. */
const BACK_MS = 2 * HOUR_MS
/** An upper bound of turns of the event loop: a run that needs more goes in circles. */
const MAX_TURNS = 3_000_000

export interface World {
  readonly scenario: Scenario
  readonly clock: VirtualClock
  readonly mock: Mock
  /** before the mock */
  readonly outages: Outages
  readonly hec: FakeHec
  readonly disk: FakeDisk
  /** what went to standard output, line by line */
  readonly printed: Buffer[]
  readonly logged: string[]
  /** how often the daemon died or was cut off from power */
  deaths: number
  /** batches between sending and acknowledging may have come twice this often */
  hecDoubts: number
  /** entries that were acknowledged at the collector and not safe there */
  readonly tooEarly: string[]
  /** undefined: no job was started, or no daemon ran */
  orders: Orders | undefined
}

export interface Verdict {
  readonly faults: readonly string[]
  readonly entries: number
  readonly requests: number
  readonly deaths: number
}

function capture(lines: string[], fields: LogFields = {}): Log {
  const at = (level: string) => (sentence: string, more?: LogFields) =>
    void lines.push(JSON.stringify({ level, sentence, ...fields, ...more }))
  return {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    with: (more) => capture(lines, { ...fields, ...more }),
  }
}

function hecFaults(roll: Dice, share: number, world: World): () => HecFault | undefined {
  return () => {
    if (!roll.chance(share)) return undefined
    const indexes = roll.chance(0.5)
    if (indexes) world.hecDoubts++
    return roll.pick<HecFault>([
      { kind: 'reset', indexes },
      { kind: 'status', status: 502, indexes },
      { kind: 'code', code: 9, indexes: false },
      { kind: 'code', code: 8, indexes },
      { kind: 'code', code: 26, indexes: false },
      { kind: 'html', indexes: false },
      { kind: 'garbage', indexes },
      { kind: 'slow', ms: 5_000, indexes: true },
    ])
  }
}

const usualSources = ['audit', 'history.usage', 'vault.projects']

/** What a sink wants. */
export function sourcesOf({ areas }: Scenario, sink: string): readonly string[] {
  return areas?.history?.queryAt.includes(sink) === true ? [...usualSources, 'history.query'] : usualSources
}

/** What a workspace reads beside its audit log. */
function areaConfig({ areas, startAt }: Scenario) {
  const history = areas?.history
  const span = history?.startSpanMs
  return {
    ...(areas?.vault ? { vault: { projects: true, interval: areas.vault.interval } } : {}),
    ...(history
      ? {
          history: {
            version: history.version,
            ...(history.v1UntilMs === undefined
              ? {}
              : { v1_until: new Date(history.v1UntilMs).toISOString().slice(0, 10) }),
            query: history.query,
            interval: history.interval,
            start: span === undefined ? 'earliest' : new Date(startAt - span).toISOString(),
            lookback: `${history.rereadMs / HOUR_MS}h`,
          },
        }
      : {}),
  }
}

function configOf(scenario: Scenario, folder: string) {
  const { journalBytes, interval, activity, start, batchEntries, rotateBytes, acks } = scenario
  const batch = { max_entries: batchEntries }
  const wants = (sink: string) => {
    const sources = sourcesOf(scenario, sink)
    return sources === usualSources ? {} : { sources }
  }
  return configSchema.parse({
    journal: { path: join(folder, 'auditferry.db'), max_bytes: journalBytes, keep_delivered: '1MiB' },
    workspaces: [
      {
        name: 'acme',
        base_url: 'https://api.test',
        api_key: API_KEY,
        audit: { interval, activity, start },
        ...areaConfig(scenario),
      },
    ],
    sinks: [
      {
        name: 'archive',
        type: 'file',
        path: FILE_PATH,
        batch,
        ...wants('archive'),
        ...(rotateBytes ? { rotate: { max_bytes: rotateBytes, keep: 1000 } } : {}),
      },
      {
        name: 'splunk',
        type: 'splunk_hec',
        ...(acks?.endpoints === 2
          ? { urls: ['https://hec.test:8088', 'https://hec.test:8089'] }
          : { url: 'https://hec.test:8088' }),
        token: HEC_TOKEN,
        compression: 'none',
        ...(acks ? { acks: acks.acks, max_in_flight: acks.maxInFlight, ack_timeout: acks.timeout } : {}),
        batch: { max_entries: hecBatchEntries(scenario) },
        ...wants('splunk'),
      },
      { name: 'console', type: 'stdout', batch },
    ],
  })
}

function openWorld(scenario: Scenario): World {
  const clock = new VirtualClock(scenario.startAt)
  const mock = openMock({
    clock,
    seed: scenario.seed,
    workspaces: [{ name: 'acme', keys: [{ key: API_KEY }] }],
    traffic: {
      entriesPerHour: scenario.entriesPerHour,
      since: scenario.startAt - scenario.historyMs,
      exotic: 0.2,
    },
    ...(scenario.areas ? { projects: scenario.areas.projects } : {}),
    switches: scenario.switches,
    faults: scenario.faults,
  })
  const hec = openHec(scenario)
  const disk = new FakeDisk({ random: dice(scenario.seed + 1) })
  return {
    scenario,
    clock,
    mock,
    outages: withOutages(mock.transport, scenario.outages, clock, dice(scenario.seed + 4)),
    hec,
    disk,
    printed: [],
    logged: [],
    deaths: 0,
    hecDoubts: 0,
    tooEarly: [],
    orders: undefined,
  }
}

function openHec({ acks }: Scenario): FakeHec {
  if (!acks) return new FakeHec({ tokens: { [HEC_TOKEN]: {} } })
  const { indexers, cookieRolls, delayMs } = acks
  return new FakeHec({ tokens: { [HEC_TOKEN]: { acks: true } }, indexers, cookieRolls, ackDelayMs: delayMs })
}

class ChunkSlice {
  readonly world: World
  readonly #config
  readonly #roll: Dice
  readonly #fatalSteps: number[]
  readonly #fatalChunks: number[]
  readonly #fatalNotes: number[] = []
  #process: Process | undefined
  #turns = 0
  /** epoch ms until which each sink is dead */
  readonly #dead: { readonly archive: number; readonly splunk: number; readonly console: number }

  constructor(world: World, folder: string) {
    this.world = world
    const { scenario } = world
    this.#roll = dice(scenario.seed + 2)
    this.#config = configOf(scenario, folder)
    this.#fatalSteps = [...scenario.fatalSteps]
    this.#fatalChunks = [...(scenario.areas?.fatalChunks ?? [])]
    const until = scenario.startAt + scenario.deadSinkHours * HOUR_MS
    const which = this.#roll.below(4)
    this.#dead = {
      archive: which === 0 ? until : 0,
      splunk: which === 1 ? until : 0,
      console: which === 2 ? until : 0,
    }
    world.hec.faultOf = hecFaults(this.#roll, scenario.hecFaultShare, world)
    const { hec, clock } = world
    if (scenario.acks)
      upset(hec, scenario.acks, dice(scenario.seed + 3), () => clock.now(), () => world.hecDoubts++) // prettier-ignore
  }

  async #start(): Promise<void> {
    const { world } = this
    const { clock, hec, disk, printed, logged, scenario, outages } = world
    const receiver = hecTransport(hec, clock)
    const transport: Transport = (request, signal) => {
      if (!request.url.startsWith('https://hec.test')) return outages.transport(request, signal)
      if (clock.now() < this.#dead.splunk) return Promise.reject(new ConnectorError('unreachable', 'refused'))
      return receiver(request, signal)
    }
    const fatalStep = this.#fatalSteps.shift() ?? Infinity
    const started = startProcess(
      this.#config,
      {
        clock,
        random: this.#roll,
        log: capture(logged),
        disk: mendingDisk(disk, () => clock.now() < this.#dead.archive),
        transport,
        fatalChunk: this.#fatalChunks.shift() ?? Infinity,
        print: (bytes) => {
          if (clock.now() < this.#dead.console)
            return Promise.reject(new ConnectorError('unreachable', 'nobody reads'))
          for (const line of Buffer.from(bytes).toString('latin1').split('\n').slice(0, -1))
            printed.push(Buffer.from(line, 'latin1'))
          return Promise.resolve()
        },
        settling: (journal, sink, acknowledgement) => {
          if (!scenario.acks || sink !== 'splunk') return
          const wanted = sourcesOf(scenario, sink)
          void unsafe(journal, hec, acknowledgement, clock.now(), wanted).then((ids) =>
            world.tooEarly.push(...ids),
          )
        },
      },
      false,
      fatalStep,
    )
    const process = await this.#drive(started, Infinity)
    if ('app' in process) {
      this.#process = process
      process.life.doom(this.#fatalNotes.shift() ?? 0)
      return
    }
    await process.buried
    this.#died()
    return this.#start()
  }

  #died(): void {
    const { world } = this
    world.deaths++
    world.disk.crash(world.scenario.powerCuts ? 'power' : 'kill')
    world.disk.restart()
    this.#process = undefined
  }

  /** Lets time pass until `promise` settles. */
  async #drive<T>(promise: Promise<T>, until: number): Promise<T> {
    const watch = { over: false }
    const watched = promise.finally(() => {
      watch.over = true
    })
    watched.catch(() => undefined)
    for (;;) {
      await settled()
      if (watch.over) return watched
      this.#turn()
      this.world.clock.advance(until)
    }
  }

  #turn(): void {
    if (++this.#turns > MAX_TURNS) throw new Error('the run goes in circles')
  }

  async pass(until: number): Promise<void> {
    const { clock } = this.world
    for (;;) {
      await settled()
      const process = this.#process
      if (!process) await this.#start()
      else if (process.life.dead) {
        await process.bury()
        this.#died()
      } else if (process.failed() !== undefined) throw process.failed() as Error
      else {
        this.#turn()
        if (!clock.advance(until)) return
      }
    }
  }

  /** The operator acts when a daemon runs. */
  async operate(operator: OperatorScenario): Promise<void> {
    const { world } = this
    const { scenario, clock } = world
    await this.pass(scenario.startAt + Math.floor(scenario.troubleMs * operator.after))
    const process = this.#process
    if (!process || process.life.dead) return
    world.orders = new Orders()
    const first = scenario.startAt - scenario.historyMs
    world.orders.give(process.app, operator, first, clock.now())
    this.#fatalNotes.push(...operator.fatalNotes)
    process.life.doom(this.#fatalNotes.shift() ?? 0)
  }

  /** No more faults, no more deaths; everything has time to be reported. */
  async calm(): Promise<void> {
    const { world } = this
    this.#fatalSteps.length = 0
    this.#fatalChunks.length = 0
    this.#fatalNotes.length = 0
    for (const name of faultNames) world.mock.setFault(name, undefined)
    world.hec.faultOf = undefined
    world.hec.ackFaultOf = undefined
    const process = this.#process
    if (process) {
      await process.bury()
      this.#died()
      world.deaths--
    }
    const { scenario, clock } = world
    const short = scenario.areas === undefined && scenario.seed % LONG_QUIET_EACH !== 0
    await this.pass(
      Math.max(
        clock.now() + (short ? SHORT_QUIET_MS : LONG_QUIET_MS),
        Math.max(...Object.values(this.#dead)) + BACK_MS,
      ),
    )
    // Not in the middle of a poll: entries read a moment ago are not delivered yet.
    for (let look = 0; look < 100 && (this.app?.journal.stats().entries ?? 0) > 0; look++)
      await this.pass(world.clock.now() + 1_000)
  }

  async stop(): Promise<void> {
    if (this.#process) await this.#drive(this.#process.app.stop(), Infinity)
  }

  get app() {
    return this.#process?.app
  }
}

/** A volume that is read-only for a while. */
function mendingDisk(disk: FakeDisk, broken: () => boolean): Disk {
  const unlessBroken = <T>(work: () => Promise<T>): Promise<T> =>
    broken() ? Promise.reject(new ConnectorError('misconfigured', 'the volume is read-only')) : work()
  return {
    open: (path) => unlessBroken(() => disk.open(path)),
    openNew: (path) => unlessBroken(() => disk.openNew(path)),
    openToRead: (path) => disk.openToRead(path),
    exists: (path) => disk.exists(path),
    look: (path) => unlessBroken(() => disk.look(path)),
    list: (folder) => disk.list(folder),
    rename: (from, to) => disk.rename(from, to),
    remove: (path) => disk.remove(path),
    syncFolder: (folder) => disk.syncFolder(folder),
  }
}

/** The files that a seed leaves behind: for a person who wants to know why. */
export async function simulateWorld(seed: number): Promise<World> {
  return (await runSeed(seed)).world
}

/** Throws nothing: failures are in the verdict. */
export async function simulate(seed: number): Promise<Verdict> {
  const { world, faults } = await runSeed(seed)
  return {
    faults,
    entries: world.mock.entries().length,
    requests: world.mock.requests.length,
    deaths: world.deaths,
  }
}

async function runSeed(seed: number): Promise<{ world: World; faults: string[] }> {
  const scenario = scenarioOf(seed)
  const fast = existsSync('/dev/shm') ? '/dev/shm' : tmpdir()
  const folder = mkdtempSync(join(fast, 'auditferry-simulation-'))
  const world = openWorld(scenario)
  const run = new ChunkSlice(world, folder)
  const faults: string[] = []
  try {
    if (scenario.operator) await run.operate(scenario.operator)
    await run.pass(scenario.startAt + scenario.troubleMs)
    await run.calm()
    faults.push(...(await judge(world, run.app)))
    await run.stop()
  } catch (error) {
    faults.push(error instanceof Error ? (error.stack ?? error.message) : String(error))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
  return { world, faults }
}
