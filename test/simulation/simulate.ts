// Runs one seed: weeks of faults in virtual time with the production code, then compares what arrived with what the mock ever showed.
import { mkdtempSync, rmSync, existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openMock } from '../../src/mock/mock.ts'
import type { Mock } from '../../src/mock/mock.ts'
import { faultNames } from '../../src/mock/switches.ts'
import type { Disk, Transport } from '../../src/contracts/platform.ts'
import { ConnectorError, isRetried } from '../../src/core/errors.ts'
import type { Log, LogFields } from '../../src/core/log.ts'
import { openMemoryBudgets } from '../../src/core/memory-budget.ts'
import { FakeDisk } from '../fakes/disk.ts'
import { FakeHec, hecTransport } from '../fakes/hec.ts'
import type { HecFault } from '../fakes/hec.ts'
import { FakeS3, s3Transport } from '../fakes/s3.ts'
import type { S3Fault } from '../fakes/s3.ts'
import { unsafe, upset } from './acks.ts'
import { API_KEY, HEC_TOKEN, configOf, sourcesOf } from './config.ts'
import { databaseOf } from './database.ts'
import { judge } from './judge.ts'
import { Orders } from './operator.ts'
import type { OperatorScenario } from './operator.ts'
import { withOutages } from './outages.ts'
import type { Outages } from './outages.ts'
import { startProcess } from './process.ts'
import type { Process, Surroundings } from './process.ts'
import type { Database } from './postgres.ts'
import { dice } from './random.ts'
import type { Dice } from './random.ts'
import { Replicas } from './replicas.ts'
import { HOUR_MS, scenarioOf } from './scenario.ts'
import type { Scenario } from './scenario.ts'
import { VirtualClock, settled } from './virtual-clock.ts'

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

export interface Stage {
  readonly scenario: Scenario
  readonly clock: VirtualClock
  readonly mock: Mock
  /** before the mock */
  readonly outages: Outages
  readonly hec: FakeHec
  disk: FakeDisk
  /** the archive of replicas; undefined: it is a file */
  readonly s3: FakeS3 | undefined
  /** what went to standard output, line by line */
  readonly printed: Buffer[]
  readonly logged: string[]
  /** how often the daemon died or was cut off from power */
  deaths: number
  /** how often another replica took the shard from one that lived */
  takeovers: number
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
  readonly takeovers: number
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

function hecFaults(roll: Dice, share: number, stage: Stage): () => HecFault | undefined {
  return () => {
    if (!roll.chance(share)) return undefined
    const indexes = roll.chance(0.5)
    if (indexes) stage.hecDoubts++
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

function openStage(scenario: Scenario, inPostgres: boolean): Stage {
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
    s3: inPostgres ? new FakeS3() : undefined,
    printed: [],
    logged: [],
    deaths: 0,
    takeovers: 0,
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

const RETRY_MS = 5_000

function s3Faults(roll: Dice, share: number): () => S3Fault | undefined {
  return () => {
    if (!roll.chance(share)) return undefined
    const stores = roll.chance(0.5)
    return roll.pick<S3Fault>([
      { kind: 'reset', stores },
      { kind: 'html', stores },
      { kind: 'code', status: 503, code: 'SlowDown' },
      { kind: 'slow', ms: 5_000 },
    ])
  }
}

class Run {
  readonly stage: Stage
  readonly #replicas: Replicas | undefined
  readonly #config
  readonly #roll: Dice
  readonly #fatalSteps: number[]
  readonly #fatalChunks: number[]
  readonly #fatalNotes: number[] = []
  #process: Process | undefined
  #turns = 0
  /** epoch ms until which each sink is dead */
  readonly #dead: { readonly archive: number; readonly splunk: number; readonly console: number }

  constructor(stage: Stage, folder: string, database: Database | undefined) {
    this.stage = stage
    const { scenario, s3 } = stage
    this.#roll = dice(scenario.seed + 2)
    this.#config = configOf(scenario, folder, s3 ? 's3' : 'file')
    const { seed, startAt, troubleMs } = scenario
    if (database)
      this.#replicas = new Replicas(
        database.shard(stage.clock),
        stage.clock,
        databaseOf(seed, startAt, troubleMs),
      )
    if (s3) s3.faultOf = s3Faults(dice(seed + 5), scenario.hecFaultShare)
    this.#fatalSteps = [...scenario.fatalSteps]
    this.#fatalChunks = [...(scenario.areas?.fatalChunks ?? [])]
    const until = scenario.startAt + scenario.deadSinkHours * HOUR_MS
    const which = this.#roll.below(4)
    this.#dead = {
      archive: which === 0 ? until : 0,
      splunk: which === 1 ? until : 0,
      console: which === 2 ? until : 0,
    }
    stage.hec.faultOf = hecFaults(this.#roll, scenario.hecFaultShare, stage)
    const { hec, clock } = stage
    if (scenario.acks)
      upset(hec, scenario.acks, dice(scenario.seed + 3), () => clock.now(), () => stage.hecDoubts++) // prettier-ignore
  }

  async #start(): Promise<void> {
    const replicas = this.#replicas
    if (!replicas) return this.#begin({})
    // An earlier one ended, or its lease did.
    await replicas.shard.expire()
    // Nothing of its disk is left to the next replica.
    this.stage.disk = new FakeDisk({ random: this.#roll })
    const line = await replicas.line()
    try {
      await this.#begin({
        journal: {
          open: async (...asked) => {
            const journal = await line.open(...asked)
            replicas.acquired()
            return journal
          },
          counted: (work) => line.counted(work),
          changed: (...call) => line.changed(...call),
          end: () => line.end(),
        },
        shard: { number: replicas.shard.number, memory: openMemoryBudgets(this.#config.sinks.length) },
      })
    } catch (error) {
      await line.end()
      if (!isRetried(error) && !(error instanceof ConnectorError && error.code === 'lease_lost')) throw error
      await this.#drive(this.stage.clock.sleep(RETRY_MS), Infinity)
      return
    }
    if (this.#process) replicas.started(this.#process, line)
  }

  async #begin(more: Pick<Surroundings, 'journal' | 'shard'>): Promise<void> {
    const { stage } = this
    const { clock, hec, disk, printed, logged, scenario, outages, s3 } = stage
    const receiver = hecTransport(hec, clock)
    const bucket = s3 && s3Transport(s3, clock)
    const transport: Transport = (request, signal) => {
      if (bucket && request.url.startsWith('https://s3.test')) {
        if (clock.now() >= this.#dead.archive) return bucket(request, signal)
        return Promise.reject(new ConnectorError('unreachable', 'refused'))
      }
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
          const ids = unsafe(journal, hec, acknowledgement, clock.now(), wanted)
          void ids.then((early) => stage.tooEarly.push(...early), ignoreLost)
        },
        ...more,
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
    if (!this.#replicas) return this.#start()
  }

  #died(): void {
    const { stage } = this
    stage.deaths++
    stage.disk.crash(stage.scenario.powerCuts ? 'power' : 'kill')
    stage.disk.restart()
    this.#process = undefined
    this.#replicas?.died()
  }

  /** Lets time pass until `promise` settles. */
  async #drive<T>(promise: Promise<T>, until: number): Promise<T> {
    const watch = { over: false }
    const watched = promise.finally(() => {
      watch.over = true
    })
    watched.catch(() => undefined)
    for (;;) {
      await this.#quiet()
      if (watch.over) return watched
      this.#advance(until)
    }
  }

  #quiet(): Promise<void> {
    return this.#replicas ? this.#replicas.shard.quiet() : settled()
  }

  /** False: nothing happens until then. */
  #advance(until: number): boolean {
    this.#turn()
    const { clock } = this.stage
    const replicas = this.#replicas
    const next = replicas?.next ?? Infinity
    if (!replicas || next > until || next === Infinity) return clock.advance(until)
    if (!clock.advance(next)) replicas.act()
    return true
  }

  #turn(): void {
    if (++this.#turns > MAX_TURNS) throw new Error('the run goes in circles')
  }

  async pass(until: number): Promise<void> {
    for (;;) {
      await this.#quiet()
      const replicas = this.#replicas
      if (replicas && !this.#process?.life.dead && !replicas.tend()) this.#process = undefined
      const process = this.#process
      if (!process) await this.#start()
      else if (process.life.dead) {
        await process.bury()
        this.#died()
      } else if (process.failed() !== undefined) throw process.failed() as Error
      else {
        if (!this.#advance(until)) return
      }
    }
  }

  /** The operator acts when a daemon runs. */
  async operate(operator: OperatorScenario): Promise<void> {
    const { stage } = this
    const { scenario, clock } = stage
    await this.pass(scenario.startAt + Math.floor(scenario.troubleMs * operator.after))
    const process = this.#process
    if (!process || process.life.dead) return
    stage.orders = new Orders()
    const first = scenario.startAt - scenario.historyMs
    stage.orders.give(process.app, operator, first, clock.now())
    this.#fatalNotes.push(...operator.fatalNotes)
    process.life.doom(this.#fatalNotes.shift() ?? 0)
  }

  /** No more faults, no more deaths; everything has time to be reported. */
  async calm(): Promise<void> {
    const { stage } = this
    this.#fatalSteps.length = 0
    this.#fatalChunks.length = 0
    this.#fatalNotes.length = 0
    for (const name of faultNames) stage.mock.setFault(name, undefined)
    stage.hec.faultOf = undefined
    stage.hec.ackFaultOf = undefined
    if (stage.s3) stage.s3.faultOf = undefined
    this.#replicas?.calm()
    const process = this.#process
    if (process) {
      await process.bury()
      this.#died()
      stage.deaths--
    }
    const { scenario, clock } = stage
    const short = scenario.areas === undefined && scenario.seed % LONG_QUIET_EACH !== 0
    await this.pass(
      Math.max(
        clock.now() + (short ? SHORT_QUIET_MS : LONG_QUIET_MS),
        Math.max(...Object.values(this.#dead)) + BACK_MS,
      ),
    )
    // Not in the middle of a poll: entries read a moment ago are not delivered yet.
    for (let look = 0; look < 100 && (this.app?.journal.stats().entries ?? 0) > 0; look++)
      await this.pass(stage.clock.now() + 1_000)
  }

  async stop(): Promise<void> {
    if (this.#process) await this.#drive(this.#process.app.stop(), Infinity)
  }

  /** How its replicas behaved. */
  judgeReplicas(): readonly string[] {
    this.stage.takeovers = this.#replicas?.takeovers ?? 0
    return this.#replicas?.judge() ?? []
  }

  async close(): Promise<void> {
    await this.#replicas?.shard.close()
  }

  get app() {
    return this.#process?.app
  }
}

/** A replica that has lost its journal reads nothing, and acknowledges nothing. */
function ignoreLost(error: unknown): void {
  if (!(error instanceof ConnectorError)) throw error
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

/** For a person who wants to know why. Without a database the journal is a file. */
export async function simulateStage(seed: number, database?: Database): Promise<Stage> {
  return (await runSeed(seed, database)).stage
}

/** Throws nothing: failures are in the verdict. */
export async function simulate(seed: number, database?: Database): Promise<Verdict> {
  const { stage, faults } = await runSeed(seed, database)
  return {
    faults,
    entries: stage.mock.entries().length,
    requests: stage.mock.requests.length,
    deaths: stage.deaths,
    takeovers: stage.takeovers,
  }
}

async function runSeed(
  seed: number,
  database: Database | undefined,
): Promise<{ stage: Stage; faults: string[] }> {
  const scenario = scenarioOf(seed)
  const fast = existsSync('/dev/shm') ? '/dev/shm' : tmpdir()
  const folder = mkdtempSync(join(fast, 'auditferry-simulation-'))
  const stage = openStage(scenario, database !== undefined)
  const run = new Run(stage, folder, database)
  const faults: string[] = []
  try {
    if (scenario.operator) await run.operate(scenario.operator)
    await run.pass(scenario.startAt + scenario.troubleMs)
    await run.calm()
    faults.push(...run.judgeReplicas(), ...(await judge(stage, run.app)))
    await run.stop()
  } catch (error) {
    faults.push(error instanceof Error ? (error.stack ?? error.message) : String(error))
  } finally {
    await run.close()
    rmSync(folder, { recursive: true, force: true })
  }
  return { stage, faults }
}
