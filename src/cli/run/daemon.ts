// The daemon in its process: one app after another behind the same listener and control socket, until a signal.
import { hostname } from 'node:os'
import { openApp } from '../../app/app.ts'
import type { App } from '../../app/app.ts'
import { retryWanted } from '../../app/delivery.ts'
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
  /** of the world */
  readonly journalCheck?: string | undefined
  /** absent: the first is the only one */
  readonly nextSetup?: NextSetup
  /** is told where the status page is */
  readonly started?: (url: string) => void
  /** is told of each later setup, before its app is opened */
  readonly takesOver?: (setup: Setup) => void
}

/** Runs until `signal` aborts. Rejects with what stopped the daemon, once everything is closed. */
export async function runDaemon(
  first: Setup,
  signal: AbortSignal,
  { journalCheck: program, nextSetup = never, started, takesOver }: DaemonOptions = {},
): Promise<void> {
  const isToldToStop = () => signal.aborted
  // Reading all of a large journal again at each reload would leave probes and signals without an answer meanwhile.
  const { path } = first.config.journal
  const open = await checkApart({ path, program, log: first.environment.log }, signal)
  if (isToldToStop()) return
  let app = await openApp(first.config, first.environment, { once: false }, open)
  const front = new Front(() => app)
  try {
    // Opening may take long, and nothing is started for somebody who has told it to stop meanwhile: no batch goes out for nothing.
    if (isToldToStop()) {
      first.environment.log.info('Stopped before anything had begun')
      return
    }
    await front.open(first)
    started?.(front.url)
    for (let setup: Setup | undefined = first; setup && !isToldToStop();) {
      const next: Setup | undefined = await untilNext({ app, front, setup }, nextSetup, signal)
      if (next) {
        await front.holdFor(async () => {
          // The journal has one owner at a time: what is under way is finished before the next opens it.
          await app.stop()
          if (isToldToStop()) return
          const { startedAt } = app.registry
          takesOver?.(next)
          app = await openApp(next.config, next.environment, { once: false, startedAt }, open)
        })
      }
      setup = next
    }
  } finally {
    // Probes and commands are answered to the last: only then do they close.
    front.isReady = false
    try {
      await app.stop()
    } finally {
      // An open listener would keep the process alive, and nothing works in it any more.
      await front.close()
    }
  }
}

interface Served {
  readonly app: App
  readonly front: Front
  readonly setup: Setup
}

/** Runs one app until the next setup takes over or the signal comes (undefined). Rejects with what stopped it. */
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
    makeWayFor: async (next) => {
      await refuseLoss(app)
      await front.move(next)
    },
    tellRefused: (error) => app.registry.configRefused(error),
  }
  const ended = AbortSignal.any([signal, over.signal])
  const next = nextSetup(current, ended)
  // Told to stop, it rejects, and nobody listens any more.
  next.catch(() => undefined)
  try {
    return await Promise.race([running, untilAborted(ended), next])
  } finally {
    over.abort()
  }
}

/** The next app would begin a journal of its own, and read and send everything again. */
async function refuseLoss({ journal }: App): Promise<void> {
  const lost = await journal.lost()
  if (lost !== undefined) throw new ConnectorError('config_invalid', `journal.path: ${lost}`)
}

// What others talk to, the listener and the control socket: it stays where it is while the app behind it changes.

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
      retry: (query) => retryWanted(now().journal, now().config.sinks, query),
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

  /** Makes the change. Commands that come meanwhile are held and answered behind it: a replay of many steps would break off in its middle. */
  holdFor(change: () => Promise<void>): Promise<void> {
    const changing = change()
    this.#change = changing.catch(() => undefined)
    return changing
  }

  /** Listens where this configuration wants it. Throws ConnectorError as `openHttp` does, and stays where it was. */
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

  /** Made once for each: the page asks every few seconds. */
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

// What ends `run` or `demo`: a line of the log, or, on a terminal, one for people.

/**
 * Resolves with the exit code. Rejects with what is left to print: faults of the configuration, which have lines of their own, and on
 * a terminal any error. `work` says which log it has, each time that it is another one: a changed configuration brings its own, which
 * masks its own secrets.
 */
export async function withLastWords(
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

// What a daemon runs with, and how the next one takes over.

/** A configuration and the world that it runs in. */
export interface Setup {
  readonly config: Config
  readonly environment: Environment
}

/** What the daemon runs with now, and what it does for whoever brings the next. */
export interface CurrentSetup extends Setup {
  /** Makes sure that the next one can take over, and gets what only that needs. Throws ConnectorError `config_invalid` or `misconfigured`; then nothing has changed. */
  makeWayFor(next: Setup): Promise<void>
  /** Has the status say why the next one cannot be taken; undefined: what was brought is this one, and none is refused any more. */
  tellRefused(error: ConnectorError | undefined): void
}

/** Resolves with the setup that takes over from the current one; a configuration that is refused is told and waited on. */
export type NextSetup = (current: CurrentSetup, signal: AbortSignal) => Promise<Setup>
