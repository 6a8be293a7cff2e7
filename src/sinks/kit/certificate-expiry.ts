// Reports when certificates end: to metrics, daily in the log from 30 days on, and for `check`.
// Also for sinks over HTTP, whose requests do not show certificates.
import type { CheckResult } from '../../contracts/sink.ts'
import type { SinkDeps } from '../../contracts/sink-kind.ts'
import {
  type Address,
  addressOf,
  type Connection,
  hostPort,
  type TlsOptions,
} from '../../contracts/platform.ts'
import { DAY_MS, dayText } from '../../core/time.ts'

const AHEAD_MS = 30 * DAY_MS
/** Timeout of a connection that is opened to see certificates. */
const CONNECT_MS = 10_000

type Ends = Pick<Connection, 'certificateEndsAt' | 'ownCertificateEndsAt'>

interface Certificate {
  readonly whose: string
  readonly endsAt: number
}

function certificatesOf(ends: Ends): readonly Certificate[] {
  const all = [
    { whose: "the receiver's certificate", endsAt: ends.certificateEndsAt },
    { whose: 'our client certificate', endsAt: ends.ownCertificateEndsAt },
  ]
  return all.flatMap(({ whose, endsAt }) => (endsAt === undefined ? [] : [{ whose, endsAt }]))
}

type ExpiryDeps = Pick<SinkDeps, 'clock' | 'log' | 'certificateEnds'>

export class Expiry {
  readonly #deps: ExpiryDeps
  readonly #where: string
  /** monotonic, like `#lookedAt` below: the wall clock may have been years ahead for a while */
  readonly #loggedAt = new Map<string, number>()

  constructor(where: string, deps: ExpiryDeps) {
    this.#where = where
    this.#deps = deps
  }

  look(ends: Ends): void {
    const { clock, log, certificateEnds } = this.#deps
    const now = clock.now()
    const elapsed = clock.elapsed()
    for (const { whose, endsAt } of certificatesOf(ends)) {
      certificateEnds?.(`${this.#where} ${whose}`, endsAt)
      if (endsAt - now > AHEAD_MS || elapsed - (this.#loggedAt.get(whose) ?? -Infinity) < DAY_MS) continue
      this.#loggedAt.set(whose, elapsed)
      log.warn('A certificate ends soon: renew it in time; its files are read again automatically', {
        certificate: whose,
        receiver: this.#where,
        ends: new Date(endsAt).toISOString(),
        days: Math.floor((endsAt - now) / DAY_MS),
      })
    }
  }

  /** One result per certificate of the connection; not ok if it has ended. */
  results(ends: Ends): readonly CheckResult[] {
    const now = this.#deps.clock.now()
    return certificatesOf(ends).map(({ whose, endsAt }) => {
      const days = Math.floor((endsAt - now) / DAY_MS)
      const until = `ends on ${dayText(endsAt)}, in ${days} days`
      const soon = endsAt - now > AHEAD_MS ? '' : ': renew it soon'
      const message = endsAt > now ? `${until}${soon}` : 'has ended: renew it'
      return { what: `${this.#where} ${whose}`, ok: endsAt > now, message }
    })
  }
}

interface Looked {
  readonly to: Address
  readonly expiry: Expiry
}

type Deps = ExpiryDeps & Pick<SinkDeps, 'connect'>

/** Sees the certificates of https URLs on a separate connection: requests do not show them. */
export class Certificates {
  /** by origin */
  readonly #behind: ReadonlyMap<string, Looked>
  readonly #tls: TlsOptions
  readonly #deps: Deps
  readonly #closed = new AbortController()
  #looking = false
  #lookedAt = -Infinity

  constructor(urls: readonly string[], tls: TlsOptions | undefined, deps: Deps) {
    this.#tls = tls ?? {}
    this.#deps = deps
    const encrypted = urls.filter((url) => new URL(url).protocol === 'https:')
    this.#behind = new Map(
      encrypted.map((url) => {
        const to = addressOf(url)
        return [new URL(url).origin, { to, expiry: new Expiry(hostPort(to), deps) }]
      }),
    )
  }

  /** For `check`. Empty without TLS, and if no connection is possible, as behind a proxy. */
  async results(url: string, signal: AbortSignal): Promise<readonly CheckResult[]> {
    const looked = this.#behind.get(new URL(url).origin)
    const ends = looked && (await this.#endsAt(looked, signal))
    return ends ? looked.expiry.results(ends) : []
  }

  /** Call with each delivery: connects once a day, in the background, and warns of an early end. */
  lookDaily(): void {
    const since = this.#deps.clock.elapsed() - this.#lookedAt
    if (this.#behind.size === 0 || this.#looking || since < DAY_MS) return
    this.#looking = true
    void this.#lookAll(this.#closed.signal)
  }

  async #lookAll(signal: AbortSignal): Promise<void> {
    for (const looked of this.#behind.values()) {
      const ends = await this.#endsAt(looked, signal)
      if (ends) looked.expiry.look(ends)
    }
    // Counted from the end of this check, so that the next one is a whole day after it.
    this.#lookedAt = this.#deps.clock.elapsed()
    this.#looking = false
  }

  /** A failed connection is ignored here: the delivery itself reports why. */
  async #endsAt({ to }: Looked, signal: AbortSignal): Promise<Ends | undefined> {
    if (signal.aborted) return undefined
    try {
      const connection = await this.#deps.connect(to, this.#tls, CONNECT_MS, signal)
      connection.destroy()
      return connection
    } catch {
      return undefined
    }
  }

  /** Aborts the check under way. */
  close(): void {
    this.#closed.abort()
  }
}
