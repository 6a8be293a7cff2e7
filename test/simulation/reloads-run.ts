// Runs one seed of reloads: the daemon dies and changes its configuration in the middle of a backfill and of replays, and ends with the original one.
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { App } from '../../src/app/app.ts'
import { configSchema } from '../../src/config/schema.ts'
import { openMock } from '../../src/mock/mock.ts'
import { faultNames } from '../../src/mock/switches.ts'
import { ConnectorError } from '../../src/core/errors.ts'
import type { Log, LogFields } from '../../src/core/log.ts'
import type { Job, JobSpan } from '../../src/contracts/jobs.ts'
import { FakeDisk } from '../fakes/disk.ts'
import { judgeReloads } from './judge-reloads.ts'
import { reloadsPlanOf } from './reloads-plan.ts'
import type { ReloadsPlan, Variant } from './reloads-plan.ts'
import { startProcess } from './process.ts'
import type { Process } from './process.ts'
import { dice } from './random.ts'
import { settled, VirtualClock } from './virtual-clock.ts'

const HOUR_MS = 3_600_000
const MAX_TURNS = 1_000_000
/** Half an hour of quiet at once, until all has ended. */
const QUIET_MS = HOUR_MS / 2
const MOST_QUIETS = 60
export const paths = { archive: '/out/archive.ndjson', other: '/out/other.ndjson' }

function archiveOf(variant: Variant): readonly object[] {
  if (variant === 'sink gone') return []
  if (variant === 'sink renamed') return [{ name: 'new', path: '/out/new.ndjson' }]
  const archive = { name: 'archive', path: paths.archive }
  return [variant === 'sink without audit' ? { ...archive, sources: ['history.usage'] } : archive]
}

function configOf(plan: ReloadsPlan, variant: Variant, folder: string) {
  const { startAt, startHours, version, journalBytes, batchEntries } = plan
  const start = new Date(startAt - startHours * HOUR_MS).toISOString()
  const batch = { max_entries: batchEntries, linger: '1s' }
  const sink = (more: object) => ({ ...{ type: 'file', format: 'envelope', batch }, ...more })
  return configSchema.parse({
    journal: { path: join(folder, 'a.db'), max_bytes: journalBytes },
    workspaces: [
      {
        name: variant === 'workspace renamed' ? 'renamed' : 'acme',
        ...{ base_url: 'https://api.test', api_key: 'acme-key' },
        ...(variant === 'no audit' ? {} : { audit: { interval: '1h', start, lookback: '0s' } }),
        ...(variant === 'no history' ? {} : { history: { version, interval: '1h', start, lookback: '0s' } }),
        rate_limits: { audit: variant === 'other budget' ? 20 : 60 },
      },
    ],
    sinks: [
      ...archiveOf(variant).map((more) => sink(more)),
      ...(variant === 'other sink gone' ? [] : [sink({ name: 'other', path: paths.other })]),
    ],
  })
}

function capture(lines: string[], fields: LogFields = {}): Log {
  const at = (level: string) => (sentence: string, more?: LogFields) =>
    void lines.push(JSON.stringify({ level, sentence, ...fields, ...more }))
  return {
    ...{ debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') },
    with: (more) => capture(lines, { ...fields, ...more }),
  }
}

export type ReloadsStage = ReturnType<typeof openReloadsStage>

function openReloadsStage(plan: ReloadsPlan) {
  const clock = new VirtualClock(plan.startAt)
  const mock = openMock({
    clock,
    seed: plan.seed,
    traffic: { entriesPerHour: plan.entriesPerHour, since: plan.startAt - plan.days * 24 * HOUR_MS },
    switches: plan.switches,
    faults: plan.faults,
  })
  const span: JobSpan = {
    fromUs: (plan.startAt - plan.days * 24 * HOUR_MS) * 1000 - 1,
    toUs: (plan.startAt - HOUR_MS) * 1000,
  }
  const disk = new FakeDisk({ random: dice(plan.seed + 1) })
  const orders = { backfills: [] as Job[], replays: [] as Job[] }
  return { plan, clock, mock, disk, span, orders, logged: [] as string[], faults: [] as string[], deaths: 0 }
}

class Journey {
  readonly stage: ReloadsStage
  readonly #folder: string
  #turns = 0
  #variant: Variant = 'whole'
  #process: Process | undefined

  constructor(stage: ReloadsStage, folder: string) {
    this.stage = stage
    this.#folder = folder
  }

  get app(): App | undefined {
    return this.#process?.app
  }

  async #start(fatalStep: number): Promise<void> {
    const { clock, mock, disk, logged, plan } = this.stage
    const around = {
      ...{ clock, random: dice(plan.seed + 2), log: capture(logged), disk, transport: mock.transport },
      ...{ print: async () => undefined, fatalChunk: Infinity, settling: () => undefined },
    }
    const config = configOf(plan, this.#variant, this.#folder)
    const started = await this.#drive(startProcess(config, around, false, fatalStep))
    if ('app' in started) {
      this.#process = started
      return
    }
    await started.buried
    this.#died()
    await this.#start(Infinity)
  }

  #died(): void {
    this.stage.deaths++
    this.stage.disk.crash('kill')
    this.stage.disk.restart()
    this.#process = undefined
  }

  async #drive<T>(promise: Promise<T>): Promise<T> {
    const watch = { over: false }
    const watched = promise.finally(() => (watch.over = true))
    watched.catch(() => undefined)
    for (;;) {
      await settled()
      if (watch.over) return watched
      this.#turn(Infinity)
    }
  }

  #turn(until: number): boolean {
    if (++this.#turns > MAX_TURNS) throw new Error('the run goes in circles')
    return this.stage.clock.advance(until)
  }

  /** Until then, or until the process is dead. */
  async pass(until: number): Promise<void> {
    for (;;) {
      await settled()
      if (!this.#process || this.#process.life.dead) return
      if (this.#process.failed() !== undefined) throw this.#process.failed() as Error
      if (!this.#turn(until)) return
    }
  }

  async begin(): Promise<void> {
    await this.#start(Infinity)
    const { clock, orders, plan, span } = this.stage
    const { app } = this
    if (!app) throw new Error('no daemon')
    await this.pass(clock.now() + 5_000)
    const refused = (error: unknown) => {
      if (!(error instanceof ConnectorError)) throw error
      return []
    }
    orders.backfills.push(...(await this.#drive(app.jobs.backfill({}, span).catch(refused))))
    for (const source of plan.replays) {
      const reads = [{ stream: { workspace: 'acme', source }, spans: [span] }]
      const request = { sink: 'archive', startedAt: clock.now(), reads }
      orders.replays.push(...(await this.#drive(app.jobs.replay(request).catch(refused))))
    }
  }

  async travel(): Promise<void> {
    for (const step of this.stage.plan.steps) {
      const process = this.#process
      if (process) {
        process.life.doom(step.notes)
        await this.pass(this.stage.clock.now() + step.ms)
      }
      await this.change(step.end, step.next, step.steps)
    }
    for (const name of faultNames) this.stage.mock.setFault(name, undefined)
    await this.change('reload', 'whole', Infinity)
  }

  async change(end: 'reload' | 'kill' | 'stop', next: Variant, fatalStep: number): Promise<void> {
    const process = this.#process
    if (process && (end === 'kill' || process.life.dead)) {
      await process.bury()
      this.#died()
    } else if (process) {
      process.life.doom(0)
      await this.#stop(process)
    }
    this.#variant = next
    await this.#start(fatalStep)
  }

  /** It may die over that. */
  async #stop(process: Process): Promise<void> {
    const stop = { over: false }
    const stopping = process.app.stop().finally(() => (stop.over = true))
    stopping.catch(() => undefined)
    for (;;) {
      await settled()
      if (stop.over) break
      if (process.life.dead) {
        await process.bury()
        this.#died()
        return
      }
      this.#turn(Infinity)
    }
    this.#process = undefined
  }

  async rest(): Promise<void> {
    const { app } = this
    if (!app) throw new Error('no daemon')
    for (let look = 0; look < MOST_QUIETS; look++) {
      await this.pass(this.stage.clock.now() + QUIET_MS)
      const all = [...(await app.jobs.all('replay')), ...(await app.jobs.all('backfill'))]
      if (all.every(({ endedAt }) => endedAt !== undefined) && app.journal.stats().entries === 0) return
    }
  }

  async stop(): Promise<void> {
    if (this.#process) await this.#drive(this.#process.app.stop())
  }
}

export async function runReloads(seed: number): Promise<ReloadsStage> {
  const stage = openReloadsStage(reloadsPlanOf(seed))
  const fast = existsSync('/dev/shm') ? '/dev/shm' : tmpdir()
  const folder = mkdtempSync(join(fast, 'auditferry-reloads-'))
  const journey = new Journey(stage, folder)
  try {
    await journey.begin()
    await journey.travel()
    await journey.rest()
    if (journey.app) stage.faults.push(...(await judgeReloads(stage, journey.app)))
    await journey.stop()
  } catch (error) {
    stage.faults.push(error instanceof Error ? (error.stack ?? error.message) : String(error))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
  return stage
}
