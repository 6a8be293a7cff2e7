// What runs behind the listener and the control socket: one app with its journal in a file, or the
// shards that this replica holds of a journal in PostgreSQL.
import { lstatSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { hostname } from 'node:os'
import { dirname } from 'node:path'
import { openApp } from '../../app/app.ts'
import type { App } from '../../app/app.ts'
import { retryWantedDeadLetters } from '../../app/delivery.ts'
import type { Environment } from '../../app/environment.ts'
import { Shards, workspacesByKey } from '../../app/process.ts'
import { basePath } from '../../config/journal.ts'
import type { Config } from '../../config/schema.ts'
import { clientOf, connectControl } from '../../control/client.ts'
import { answerOf } from '../../control/server.ts'
import type { ControlOptions } from '../../control/questions.ts'
import { shardsAsOne } from '../../control/shards.ts'
import type { ShardClient } from '../../control/shards.ts'
import { randomDigits, within } from '../../core/clock.ts'
import { ConnectorError, isRetried } from '../../core/errors.ts'
import { folderFault, ownerCalls, ownerFault } from '../../core/file-owners.ts'
import { PostgresStore } from '../../journal/postgres/open.ts'
import { Replicas } from '../../journal/postgres/replicas.ts'
import { checkApart } from '../../journal/sqlite/open.ts'
import { postgresSettings } from '../shared/postgres.ts'
import type { PostgresConfig } from '../shared/postgres.ts'

/** A configuration and the environment that it runs in. */
export interface Setup {
  readonly config: Config
  readonly environment: Environment
}

/** What commands ask, and how it runs. */
export interface Running
  extends
    Omit<ControlOptions, 'journalPath' | 'log' | 'afterChange'>,
    Pick<App, 'config' | 'run' | 'alive' | 'stop'> {
  readonly registry: Pick<App['registry'], 'startedAt' | 'status' | 'configRefused'>
  readonly metrics: Pick<App['metrics'], 'contentType' | 'render'>
  /** Throws ConnectorError `config_invalid` if another configuration could not take over. */
  prepareFor(next: Config): Promise<void>
}

/** One per process: it outlasts a change of the configuration. */
export interface Engine {
  /** `startedAt`: of the process, if it ran another configuration before. */
  open(setup: Setup, startedAt?: number): Promise<Running>
  /** Call before the last one stops. */
  leave(): Promise<void>
  /** Call after the last one has stopped. */
  close(): Promise<void>
}

/** `journalCheck`: as in the command context. Throws ConnectorError. */
export function openEngine(
  setup: Setup,
  journalCheck: string | undefined,
  signal: AbortSignal,
): Promise<Engine> {
  const { postgres } = setup.config.journal
  return postgres ? openShards(setup, postgres) : openFile(setup, journalCheck, signal)
}

async function openFile(
  { config, environment }: Setup,
  program: string | undefined,
  signal: AbortSignal,
): Promise<Engine> {
  const { path } = config.journal
  // Checked once: a check of a large journal at each reload would leave probes without an answer.
  const open = await checkApart({ path, program, log: environment.log }, signal)
  return {
    async open(setup, startedAt) {
      const mode = { once: false, ...(startedAt !== undefined && { startedAt }) }
      const app = await openApp(setup.config, setup.environment, mode, open)
      return { ...app, retry: retryOf(app), prepareFor: () => assertJournalThere(app) }
    },
    leave: async () => undefined,
    close: async () => undefined,
  }
}

const retryOf =
  ({ journal, config }: App): Running['retry'] =>
  (query) =>
    retryWantedDeadLetters(journal, config.sinks, query)

/** A new app would create an empty journal, then read and send everything again. */
async function assertJournalThere({ journal }: App): Promise<void> {
  const lost = await journal.lost()
  if (lost !== undefined) throw new ConnectorError('config_invalid', `journal.path: ${lost}`)
}

// The shards of a replica.

/** A stop does not wait longer for a database that does not answer. */
const LEAVE_MS = 1_000

async function openShards({ config, environment }: Setup, postgres: PostgresConfig): Promise<Engine> {
  await claimFolder(config)
  const { clock, log, random } = environment
  const holder = `${hostname()}-${randomDigits(random, 6)}`
  const database = {
    settings: postgresSettings(postgres),
    schema: postgres.schema,
    holder,
    termMs: postgres.lease,
  }
  const store = new PostgresStore({ ...database, clock, log })
  const replicas = new Replicas({ ...database, clock })
  log.info('Starting as a replica of the database', { replica: holder })
  let current: Shards | undefined
  const living = replicas.live(() => current?.isWell ?? true)
  const failing = living.then(() => new Promise<never>(() => undefined))
  // Awaited only while something runs.
  failing.catch(() => undefined)
  return {
    async open(setup, startedAt) {
      const shards = new Shards({
        ...setup,
        ...(startedAt !== undefined && { startedAt }),
        shards: postgres.shards,
        answer: (app, question) => answerOf(question, partsOf(app, setup)),
        ...{ store, replicas },
      })
      current = shards
      return {
        ...controlOf(shards, setup, replicas),
        ...{ config: shards.config, registry: shards.registry, metrics: shards.metrics },
        run: () => Promise.race([shards.run(), failing]),
        alive: () => shards.alive(),
        stop: () => shards.stop(),
        async prepareFor(next) {
          const assigned = replicas.assign(workspacesByKey(next.workspaces), postgres.shards)
          // While the database is away, the new configuration waits for it as the old one does.
          await assigned.catch(unlessAway)
        },
      }
    },
    leave: () => within(LEAVE_MS, clock, replicas.leave()),
    async close() {
      await within(LEAVE_MS, clock, Promise.all([replicas.close(), store.close()]))
    },
  }
}

function unlessAway(error: unknown): void {
  if (!isRetried(error)) throw error
}

/**
 * The folder of the control socket and the spool. Every user may create files beside it, so another
 * one may have made it. Two replicas must not share it.
 */
async function claimFolder(config: Config): Promise<void> {
  const base = basePath(config)
  const folder = dirname(base)
  // If it cannot be made, the control socket logs why.
  await mkdir(folder, { recursive: true, mode: 0o700 }).catch(() => undefined)
  const calls = ownerCalls(lstatSync)
  const unsafe = ownerFault(folder, calls) ?? folderFault(folder, calls)
  if (unsafe !== undefined) throw new ConnectorError('misconfigured', unsafe)
  if ((await connectControl(base)) === undefined) return
  throw new ConnectorError(
    'misconfigured',
    `Another auditferry already runs on this machine with this database, and answers at ${base}.sock. A second replica here needs its own TMPDIR, server.listen and file paths`,
  )
}

const partsOf = (app: App, { environment }: Setup): ControlOptions => ({
  ...{ registry: app.registry, journal: app.journal, taps: app.taps, jobs: app.jobs },
  ...{ comparing: app.comparing, metrics: app.metrics, retry: retryOf(app) },
  ...{ journalPath: '', log: environment.log },
})

/** What commands ask, of all shards. */
function controlOf(
  shards: Shards,
  setup: Setup,
  replicas: Replicas,
): Omit<ReturnType<typeof shardsAsOne>, 'journal'> & Pick<Running, 'journal'> {
  const clientFor = (shard: number): ShardClient =>
    clientOf(async (method, path, body = {}) => {
      const asked = { question: `${method} ${path}`, body: JSON.stringify(body) }
      const app = shards.held.get(shard)
      if (app) return answerOf(asked, partsOf(app, setup))
      const { status, bytes } = await replicas.ask(shard, asked)
      return { status, bytes: Buffer.from(bytes) }
    })
  const asOne = shardsAsOne({
    all: () => new Map(shards.used.map((shard) => [shard, clientFor(shard)])),
    shardOf: (workspace) => shards.shardOf(workspace),
  })
  // A command that names the instances of all shards is recognised in each of them.
  const get = async (name: string) =>
    name === 'instance' ? (await replicas.instances()).join(' ') : undefined
  return { ...asOne, journal: { ...asOne.journal, state: { get } } }
}
