// The daemon process: one app after another behind the same listener and control socket.
import { hostname } from 'node:os'
import { ConfigFaults } from '../../config/faults.ts'
import { basePath } from '../../config/journal.ts'
import { configText } from '../../config/render.ts'
import type { Config } from '../../config/schema.ts'
import { hostPort } from '../../contracts/platform.ts'
import { openControl } from '../../control/server.ts'
import type { Control } from '../../control/server.ts'
import { untilAborted } from '../../core/abort.ts'
import type { ConnectorError } from '../../core/errors.ts'
import type { Log } from '../../core/log.ts'
import { openHttp } from '../../observability/listener.ts'
import type { OpsHttp } from '../../observability/listener.ts'
import { logEnd } from '../../observability/log.ts'
import { exitCodeOf } from '../shared/context.ts'
import type { CommandContext } from '../shared/context.ts'
import { openEngine } from './engine.ts'
import type { Running, Setup } from './engine.ts'

const never: NextSetup = () => new Promise(() => undefined)

interface DaemonOptions {
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
  const engine = await openEngine(first, program, signal)
  if (isStopping()) {
    await engine.close()
    return
  }
  let now = await engine.open(first)
  const front = new Front(() => now)
  try {
    // Opening may take long: if the stop signal came meanwhile, start nothing.
    if (isStopping()) {
      first.environment.log.info('Stopped before anything had begun')
      return
    }
    await front.open(first)
    started?.(front.url)
    for (let setup: Setup | undefined = first; setup && !isStopping();) {
      const next: Setup | undefined = await untilNext({ now, front, setup }, nextSetup, signal)
      if (next) {
        await front.delayFor(async () => {
          // A journal has one owner at a time: the old app finishes before the next one opens it.
          await now.stop()
          if (isStopping()) return
          const { startedAt } = now.registry
          takesOver?.(next)
          now = await engine.open(next, startedAt)
        })
      }
      setup = next
    }
  } finally {
    // Probes and commands are answered until the end.
    front.isReady = false
    try {
      await Promise.all([engine.leave(), now.stop()])
    } finally {
      // An open listener would keep the process alive.
      await front.close()
      await engine.close()
    }
  }
}

interface Served {
  readonly now: Running
  readonly front: Front
  readonly setup: Setup
}

/** Runs an app until the next setup or the signal (undefined). Rejects with what stopped it. */
async function untilNext(
  { now, front, setup }: Served,
  nextSetup: NextSetup,
  signal: AbortSignal,
): Promise<Setup | undefined> {
  const over = new AbortController()
  const running = now.run().then(() => undefined)
  front.isReady = true
  const current: CurrentSetup = {
    ...setup,
    prepareFor: async (next) => {
      await now.prepareFor(next.config)
      await front.move(next)
    },
    reportRejected: (error) => now.registry.configRefused(error),
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

// Listener and control socket: they stay open while the app behind them changes.

class Front {
  isReady = false
  readonly #now: () => Running
  #listen = ''
  #http: OpsHttp | undefined
  #control: Control | undefined
  #shown: { readonly of: Config; readonly text: string } | undefined
  #change: Promise<unknown> = Promise.resolve()

  constructor(now: () => Running) {
    this.#now = now
  }

  get url(): string {
    const at = this.#http?.address
    return at ? `http://${hostPort({ host: at.address, port: at.port })}/` : ''
  }

  async open(setup: Setup): Promise<void> {
    await this.move(setup)
    const now = this.#now
    this.#control = await openControl({
      journalPath: basePath(setup.config),
      log: setup.environment.log,
      afterChange: () => this.#change,
      get registry() {
        return now().registry
      },
      get journal() {
        return now().journal
      },
      retry: (query) => now().retry(query),
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
    const now = this.#now
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
    const { config } = this.#now()
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

/** The current setup, and what it does for the next one. */
export interface CurrentSetup extends Setup {
  /** Prepares the change. Throws ConnectorError `config_invalid` or `misconfigured`. */
  prepareFor(next: Setup): Promise<void>
  /** Shows in the status why the new configuration was rejected; undefined: none is rejected. */
  reportRejected(error: ConnectorError | undefined): void
}

/** Resolves with the next setup. A rejected configuration is reported, and it waits for another. */
export type NextSetup = (current: CurrentSetup, signal: AbortSignal) => Promise<Setup>
