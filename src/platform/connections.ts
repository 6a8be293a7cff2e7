// The connections to one origin, reused between requests. A bad answer ends reuse: the next request
// uses a new connection, to another address if the name has several.
import { lookup } from 'node:dns'
import { Agent, type ClientRequest, type ClientRequestArgs, type IncomingMessage } from 'node:http'
import type { LookupFunction, Socket } from 'node:net'
import type { Duplex } from 'node:stream'

/** How long an idle connection is kept, unless the server specifies a time. */
const IDLE_MS = 4_000
const MAX_IDLE_MS = 600_000
/** A server may close a little earlier than it announced. */
const EARLIER_MS = 2_000

/** Statuses below 500 that signal an overloaded machine. */
const OVERLOADED: ReadonlySet<number> = new Set([408, 429])

export interface Route {
  readonly stop: AbortSignal
  /** the host's addresses, those with a bad last answer at the end */
  readonly lookup: LookupFunction
  /** Called once a machine has accepted the connection, before TLS. */
  readonly reached: (address: string | undefined) => void
}

interface PooledSocket {
  readonly socket: Socket
  readonly address: string | undefined
  readonly generation: number
  idleMs: number
}

/** Agent options in addition to Node's. */
export interface AgentOptions extends ClientRequestArgs {
  readonly stop: AbortSignal
}

export class ConnectionPool extends Agent {
  readonly #open: (route: Route) => Promise<Socket>
  readonly #resolve: LookupFunction
  readonly #known = new WeakMap<Duplex, PooledSocket>()
  /** Generation: connections of an earlier one are not reused. */
  #generation = 0
  /** addresses whose last answer was bad, the latest last */
  readonly #suspects = new Set<string>()

  constructor(open: (route: Route) => Promise<Socket>, resolve: LookupFunction = lookup) {
    super({ keepAlive: true })
    this.#open = open
    this.#resolve = resolve
  }

  override createConnection(
    options: ClientRequestArgs,
    done?: (error: Error | null, socket: Duplex) => void,
  ): undefined {
    const generation = this.#generation
    let address: string | undefined
    const route: Route = {
      stop: (options as AgentOptions).stop,
      lookup: this.#lookup,
      reached: (by) => (address = by),
    }
    this.#open(route).then(
      (socket) => {
        this.#known.set(socket, { socket, address, generation, idleMs: IDLE_MS })
        done?.(null, socket)
      },
      (error: unknown) => {
        this.#suspect(address)
        done?.(error as Error, undefined as never)
      },
    )
  }

  override keepSocketAlive(socket: Duplex): boolean {
    const pooled = this.#known.get(socket)
    if (!pooled || pooled.generation !== this.#generation || pooled.idleMs <= 0) return false
    super.keepSocketAlive(socket)
    pooled.socket.setTimeout(pooled.idleMs)
    // Data on an idle connection would be taken for the answer to the next request. Node 22 has no
    // protection against that.
    socket.on('data', destroyOnData)
    return true
  }

  override reuseSocket(socket: Duplex, request: ClientRequest): void {
    socket.off('data', destroyOnData)
    this.#known.get(socket)?.socket.setTimeout(0)
    super.reuseSocket(socket, request)
  }

  /**
   * Called for each answer. One that another machine behind the same name might answer differently
   * ends reuse of the connection.
   */
  answered(socket: Duplex, { statusCode = 0, headers }: IncomingMessage): void {
    const pooled = this.#known.get(socket)
    const isBad = statusCode >= 500 || OVERLOADED.has(statusCode)
    if (isBad) this.renew(socket)
    if (!pooled || isBad) return
    if (pooled.address !== undefined) this.#suspects.delete(pooled.address)
    const seconds = /(?:^|[,;\s])timeout=(\d{1,9})/i.exec(String(headers['keep-alive'] ?? ''))?.[1]
    if (seconds !== undefined) pooled.idleMs = Math.min(MAX_IDLE_MS, Number(seconds) * 1_000 - EARLIER_MS)
  }

  /** `socket`: the one with the error; absent: replaces all connections, without an error. */
  renew(socket?: Duplex | null): void {
    if (socket) this.#suspect(this.#known.get(socket)?.address)
    this.#generation++
    for (const idle of Object.values(this.freeSockets).flat()) idle?.destroy()
  }

  #suspect(address: string | undefined): void {
    if (address === undefined) return
    this.#suspects.delete(address)
    this.#suspects.add(address)
  }

  readonly #lookup: LookupFunction = (host, options, done) => {
    this.#resolve(host, options, (error, found, family) => {
      if (error || !Array.isArray(found)) {
        done(error, found, family)
        return
      }
      const suspects = [...this.#suspects]
      const rank = ({ address }: { readonly address: string }) => suspects.indexOf(address)
      done(
        null,
        found.toSorted((one, other) => rank(one) - rank(other)),
      )
    })
  }
}

function destroyOnData(this: Duplex): void {
  this.destroy()
}
