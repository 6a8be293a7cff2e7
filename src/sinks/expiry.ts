// Certificates that end soon: told in the log once a day from 30 days on, and in words for `check`.
import type { Clock } from '../model/clock.ts'
import type { Log } from '../model/log.ts'
import type { CheckResult } from '../model/sink.ts'
import type { Connection } from '../model/socket.ts'

const DAY_MS = 86_400_000
const AHEAD_MS = 30 * DAY_MS

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

export class Expiry {
  readonly #clock: Clock
  readonly #log: Log
  readonly #where: string
  readonly #toldAt = new Map<string, number>()

  constructor(where: string, clock: Clock, log: Log) {
    this.#where = where
    this.#clock = clock
    this.#log = log
  }

  /** May be asked as often as one likes. */
  look(ends: Ends): void {
    const now = this.#clock.now()
    for (const { whose, endsAt } of certificatesOf(ends)) {
      if (endsAt - now > AHEAD_MS || now - (this.#toldAt.get(whose) ?? -Infinity) < DAY_MS) continue
      this.#toldAt.set(whose, now)
      this.#log.warn('A certificate ends soon: renew it in time, its files are read again by themselves', {
        certificate: whose,
        receiver: this.#where,
        ends: new Date(endsAt).toISOString(),
        days: Math.floor((endsAt - now) / DAY_MS),
      })
    }
  }

  /** One result for each certificate that the connection has; not ok where it has ended. */
  results(ends: Ends): readonly CheckResult[] {
    const now = this.#clock.now()
    return certificatesOf(ends).map(({ whose, endsAt }) => {
      const days = Math.floor((endsAt - now) / DAY_MS)
      const until = `ends on ${new Date(endsAt).toISOString().slice(0, 10)}, in ${days} days`
      const soon = endsAt - now > AHEAD_MS ? '' : ': renew it soon'
      const message = endsAt > now ? `${until}${soon}` : 'has ended: renew it'
      return { what: `${this.#where} ${whose}`, ok: endsAt > now, message }
    })
  }
}
