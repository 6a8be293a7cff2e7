// What others talk to, the listener and the control socket: it stays where it is while the app behind it changes.
import { hostname } from 'node:os'
import type { App } from '../../app.ts'
import type { Config } from '../../config/schema.ts'
import { configText } from '../../config/shown.ts'
import { hostPort } from '../../model/socket.ts'
import { openControl } from '../../ops/control.ts'
import type { Control } from '../../ops/control.ts'
import { openHttp } from '../../ops/http.ts'
import type { OpsHttp } from '../../ops/http.ts'
import { retryWanted } from '../../putting-back.ts'
import type { Setup } from './setup.ts'

export class Front {
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
      log: setup.outside.log,
      afterChange: () => this.#change,
      get board() {
        return now().board
      },
      get journal() {
        return now().journal
      },
      retry: (query) => retryWanted(now().journal, now().config.sinks, query),
      get taps() {
        return now().taps
      },
      get backfills() {
        return now().backfills
      },
      get replays() {
        return now().replays
      },
      get surveys() {
        return now().surveys
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
  async move({ config, outside }: Setup): Promise<void> {
    const listen = hostPort(config.server.listen)
    if (listen === this.#listen) return
    const now = this.#app
    const before = this.#http
    this.#http = await openHttp({
      listen,
      hosts: () => hostsOf(now().config),
      clock: outside.clock,
      get board() {
        return now().board
      },
      get metrics() {
        return now().metrics
      },
      live: () => now().alive(),
      ready: () => this.isReady,
      config: () => this.#configText(),
    })
    this.#listen = listen
    outside.log.info('Listening', { listen: new URL(this.url).host })
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
