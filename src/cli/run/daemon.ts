// The daemon process: one app after another behind the same listener and control socket.
import { hostname } from 'node:os'
import { openApp } from '../../app/app.ts'
import type { App } from '../../app/app.ts'
import { retryWantedDeadLetters } from '../../app/delivery.ts'
import type { Environment } from '../../app/environment.ts'
import { ConfigFaults } from '../../config/faults.ts'
import { configText } from '../../config/render.ts'
import type { Config } from '../../config/schema.ts'
import { hostPort } from '../../contracts/platform.ts'
import { openControl } from '../../control/server.ts'
import type { Control } from '../../control/server.ts'
import { untilAborted } from '../../core/abort.ts'
import { ConnectorError } from '../../core/errors.ts'
import type { Log } from '../../core/log.ts'
import { checkApart } from '../../journal/sqlite/open.ts'
import { openHttp } from '../../observability/listener.ts'
import type { OpsHttp } from '../../observability/listener.ts'
import { logEnd } from '../../observability/log.ts'
import { exitCodeOf } from '../shared/world.ts'
import type { CommandContext } from '../shared/world.ts'

const never: NextSetup = () => new Promise(() => undefined)

interface DaemonOptions {
  /** from the command context */
  readonly journalCheck?: string | undefined
  /** absent: the first is the only one */
  readonly nextSetup?: NextSetup
  /** receives the URL of the status page */
  readonly started?: (url: string) => void
  /** receives each later setup before its app opens */
  readonly takesOver?: (setup: Setup) => void
}

/** Runs until `signal` aborts. Rejects with the daemon's error, after closing everything. */
export async function runDaemon(
  first: Setup,
  signal: AbortSignal,
  { journalCheck: program, nextSetup = never, started, takesOver }: DaemonOptions = {},
): Promise<void> {
  const isStopping = () => signal.aborted
  // Checked once: a check of a large journal at each reload would leave probes without an answer.
  const { path } = first.config.journal
  const open = await checkApart({ path, program, log: first.environment.log }, signal)
  if (isStopping()) return
  let app = await openApp(first.config, first.environment, { once: false }, open)
  const front = new Front(() => app)
  try {
    // Opening may take long: if the stop signal came meanwhile, start nothing.
    if (isStopping()) {
      first.environment.log.info('Stopped before anything had begun')
      return
    }
    await front.open(first)
    started?.(front.url)
    for (let setup: Setup | undefined = first; setup && !isStopping();) {
      const next: Setup | undefined = await untilNext({ app, front, setup }, nextSetup, signal)
      if (next) {
        await front.delayFor(async () => {
          // The journal has one owner at a time: the old app finishes before the next one opens it.
          await app.stop()
          if (isStopping()) return
          const { startedAt } = app.registry
          takesOver?.(next)
          app = await openApp(next.config, next.environment, { once: false, startedAt }, open)
        })
      }
      setup = next
    }
  } finally {
    // Probes and commands are answered until the end.
    front.isReady = false
    try {
      await app.stop()
    } finally {
      // An open listener would keep the process alive.
      await front.close()
    }
  }
}

interface Served {
  readonly app: App
  readonly front: Front
  readonly setup: Setup
}

/** Runs an app until the next setup or the signal (undefined). Rejects with what stopped it. */
async function untilNext(
  { app, front, setup }: Served,
  nextSetup: NextSetup,
  signal: AbortSignal,
): Promise<Setup | undefined> {
  const over = new AbortController()
  const running = app.run().then(() => undefined)
  front.isReady = true
  const current: CurrentSetup = {
    ...setup,
    prepareFor: async (next) => {
      await assertJournalThere(app)
      await front.move(next)
    },
    reportRejected: (error) => app.registry.configRefused(error),
  }
  const ended = AbortSignal.any([signal, over.signal])
  const next = nextSetup(current, ended)
  // Rejects at a stop, when nothing awaits it any more.
  next.catch(() => undefined)
  try {
    return await Promise.race([running, untilAborted(ended), next])
  } finally {
    over.abort()
  }
}

/** A new app would create an empty journal, then read and send everything again. */
async function assertJournalThere({ journal }: App): Promise<void> {
  const lost = await journal.lost()
  if (lost !== undefined) throw new ConnectorError('config_invalid', `journal.path: ${lost}`)
}

// Listener and control socket: they stay open while the app behind them changes.

class Front {
  isReady = false
  readonly #app: () => App
  #listen = ''
  #http: OpsHttp | undefined
  #control: Control | undefined
  #shown: { readonly of: Config; readonly text: string } | undefined
  #change: Promise<unknown> = Promise.resolve()

  constructor(app: () => App) {
    this.#app = app
  }

  get url(): string {
    const at = this.#http?.address
    return at ? `http://${hostPort({ host: at.address, port: at.port })}/` : ''
  }

  async open(setup: Setup): Promise<void> {
    await this.move(setup)
    const now = this.#app
    this.#control = await openControl({
      journalPath: setup.config.journal.path,
      log: setup.environment.log,
      afterChange: () => this.#change,
      get registry() {
        return now().registry
      },
      get journal() {
        return now().journal
      },
      retry: (query) => retryWantedDeadLetters(now().journal, now().config.sinks, query),
      get taps() {
        return now().taps
      },
      get jobs() {
        return now().jobs
      },
      get comparing() {
        return now().comparing
      },
      get metrics() {
        return now().metrics
      },
    })
  }

  /** Delays commands during the change: a replay of many steps would break off. */
  delayFor(change: () => Promise<void>): Promise<void> {
    const changing = change()
    this.#change = changing.catch(() => undefined)
    return changing
  }

  /** Listens at the configured address. Throws like `openHttp`; then nothing has changed. */
  async move({ config, environment }: Setup): Promise<void> {
    const listen = hostPort(config.server.listen)
    if (listen === this.#listen) return
    const now = this.#app
    const before = this.#http
    this.#http = await openHttp({
      listen,
      hosts: () => hostsOf(now().config),
      clock: environment.clock,
      get registry() {
        return now().registry
      },
      get metrics() {
        return now().metrics
      },
      live: () => now().alive(),
      ready: () => this.isReady,
      config: () => this.#configText(),
    })
    this.#listen = listen
    environment.log.info('Listening', { listen: new URL(this.url).host })
    await before?.close()
  }

  /** Rendered once per configuration: the page requests it every few seconds. */
  #configText(): string {
    const { config } = this.#app()
    if (this.#shown?.of !== config) this.#shown = { of: config, text: configText(config) }
    return this.#shown.text
  }

  async close(): Promise<void> {
    await this.#http?.close()
    await this.#control?.close()
  }
}

const hostsOf = ({ server }: Config) => [server.listen.host, hostname(), ...server.allowed_hosts]

// Reports the error that ends `run` or `demo`: as a log line, or as text on a terminal.

/**
 * Resolves with the exit code. Rejects with an error to print as text: an invalid configuration, or
 * on a terminal any error. `work` passes on each new log, which masks the current secrets.
 */
export async function withErrorReport(
  { onBug, terminal }: Pick<CommandContext, 'onBug' | 'terminal'>,
  work: (useLog: (log: Log) => void) => Promise<number>,
): Promise<number> {
  let log: Log | undefined
  const report = (error: unknown) => logEnd(error, log)
  onBug?.(report)
  try {
    return await work((now) => void (log = now))
  } catch (error) {
    if (terminal || error instanceof ConfigFaults) throw error
    report(error)
    return exitCodeOf(error)
  }
}

// A configuration with its environment, and the change from one to the next.

/** A configuration and the environment that it runs in. */
export interface Setup {
  readonly config: Config
  readonly environment: Environment
}

/** The current setup, and what it does for the next one. */
export interface CurrentSetup extends Setup {
  /** Prepares the change. Throws ConnectorError `config_invalid` or `misconfigured`. */
  prepareFor(next: Setup): Promise<void>
  /** Shows in the status why the new configuration was rejected; undefined: none is rejected. */
  reportRejected(error: ConnectorError | undefined): void
}

/** Resolves with the next setup. A rejected configuration is reported, and it waits for another. */
export type NextSetup = (current: CurrentSetup, signal: AbortSignal) => Promise<Setup>
