// The connections to one origin, kept from one request to the next. A bad answer ends that: the next request takes a new connection, to another address where the name has several.
import { lookup } from 'node:dns'
import { Agent, type ClientRequest, type ClientRequestArgs, type IncomingMessage } from 'node:http'
import type { LookupFunction, Socket } from 'node:net'
import type { Duplex } from 'node:stream'

/** An idle connection is kept so long, unless the server names its own time. */
const IDLE_MS = 4_000
const LONGEST_IDLE_MS = 600_000
/** A server may close a little earlier than it says. */
const EARLIER_MS = 2_000

/** Statuses below 500 by which a machine says that it has too much to do. */
const OVERLOADED: ReadonlySet<number> = new Set([408, 429])

export interface Way {
  readonly stop: AbortSignal
  /** the host's addresses, those that last answered badly at the end */
  readonly lookup: LookupFunction
  /** Called once a machine has taken the connection, before TLS. */
  readonly reached: (address: string | undefined) => void
}

interface Kept {
  readonly socket: Socket
  readonly address: string | undefined
  readonly generation: number
  idleMs: number
}

/** What the agent is given beside Node's own options. */
export interface AgentOptions extends ClientRequestArgs {
  readonly stop: AbortSignal
}

export class KeptConnections extends Agent {
  readonly #open: (way: Way) => Promise<Socket>
  readonly #resolve: LookupFunction
  readonly #known = new WeakMap<Duplex, Kept>()
  /** Connections of an earlier one are not used again. */
  #generation = 0
  /** addresses whose last answer was bad, the latest last */
  readonly #suspects = new Set<string>()

  constructor(open: (way: Way) => Promise<Socket>, resolve: LookupFunction = lookup) {
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
    const way: Way = {
      stop: (options as AgentOptions).stop,
      lookup: this.#lookup,
      reached: (by) => (address = by),
    }
    this.#open(way).then(
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
    const kept = this.#known.get(socket)
    if (!kept || kept.generation !== this.#generation || kept.idleMs <= 0) return false
    super.keepSocketAlive(socket)
    kept.socket.setTimeout(kept.idleMs)
    // Data on an idle connection would be taken for the answer to the next request. Node 22 has no guard of its own.
    socket.on('data', unasked)
    return true
  }

  override reuseSocket(socket: Duplex, request: ClientRequest): void {
    socket.off('data', unasked)
    this.#known.get(socket)?.socket.setTimeout(0)
    super.reuseSocket(socket, request)
  }

  /** Each answer comes through here. One that another machine behind the same name might give differently ends the connection. */
  answered(socket: Duplex, { statusCode = 0, headers }: IncomingMessage): void {
    const kept = this.#known.get(socket)
    const isBad = statusCode >= 500 || OVERLOADED.has(statusCode)
    if (isBad) this.renew(socket)
    if (!kept || isBad) return
    if (kept.address !== undefined) this.#suspects.delete(kept.address)
    const seconds = /(?:^|[,;\s])timeout=(\d{1,9})/i.exec(String(headers['keep-alive'] ?? ''))?.[1]
    if (seconds !== undefined) kept.idleMs = Math.min(LONGEST_IDLE_MS, Number(seconds) * 1_000 - EARLIER_MS)
  }

  /** `socket`: on which something went wrong; absent: all are to be new, with no fault of theirs. */
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

function unasked(this: Duplex): void {
  this.destroy()
}
