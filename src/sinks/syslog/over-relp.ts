// Messages over RELP: each is answered, so a batch is settled as far as the receiver said that it has it.
import { orAborted, Tether } from '../../model/abort.ts'
import { ConnectorError } from '../../model/errors.ts'
import type { CheckResult, Lines, Refusal } from '../../model/sink.ts'
import type { Connection } from '../../model/socket.ts'
import { messagesIn } from './messages.ts'
import { RELP_WINDOW, RelpLink } from './relp.ts'
import { CONNECT_MS, type Delivered, type Session, type SessionOptions } from './session.ts'

const CLOSE_MS = 400
const CHECK_MS = 10_000

export class OverRelp implements Session {
  /** What a crash may repeat is the window. */
  readonly maxEntries = RELP_WINDOW
  readonly #options: SessionOptions
  readonly #link: RelpLink
  #connection: Connection | undefined

  constructor(options: SessionOptions) {
    this.#options = options
    this.#link = this.#linkOf((connection) => (this.#connection = connection))
  }

  #linkOf(opened: (connection: Connection) => void): RelpLink {
    const { where, deps, to, tls } = this.#options
    const connect = async (signal: AbortSignal) => {
      const connection = await deps.connect(to, tls, CONNECT_MS, signal)
      opened(connection)
      return connection
    }
    return new RelpLink({ where, clock: deps.clock, connect })
  }

  async deliver({ bytes, ends, count }: Lines, signal: AbortSignal): Promise<Delivered> {
    const messages: Uint8Array[] = []
    /** index of the first message behind line i */
    const until = new Uint32Array(count)
    for (let i = 0; i < count; i++) {
      const from = i === 0 ? 0 : (ends[i - 1] as number)
      // One by one: an entry may have more parts than a call may have arguments.
      for (const message of messagesIn(bytes, from, ends[i] as number)) messages.push(message)
      until[i] = messages.length
    }
    if (messages.length === 0) return { settled: count, refused: [] }
    const outcome = await this.#link.send(messages, signal)
    if (this.#connection) this.#options.expiry.look(this.#connection)
    return linesOf(outcome, until)
  }

  /** A session of its own, beside the one that delivers. */
  async #probe<T>(signal: AbortSignal, use: (connection: Connection | undefined) => T): Promise<T> {
    const { where } = this.#options
    let connection: Connection | undefined
    const link = this.#linkOf((opened) => (connection = opened))
    const limit = new Tether(signal)
    void this.#options.deps.clock.sleep(CHECK_MS, limit.signal).then(() => {
      const words = `${where} did not answer within ${CHECK_MS / 1000} s: does it speak RELP, and with TLS as the address says?`
      if (!limit.signal.aborted) limit.abort(new ConnectorError('timeout', words))
    })
    try {
      await orAborted(link.open(limit.signal), limit.signal)
      return use(connection)
    } finally {
      limit.close()
      await link.close(CLOSE_MS)
    }
  }

  probe(signal: AbortSignal): Promise<void> {
    return this.#probe(signal, () => undefined)
  }

  async check(signal: AbortSignal): Promise<readonly CheckResult[]> {
    const { where, expiry } = this.#options
    const what = `${where} RELP`
    try {
      const ends = await this.#probe(signal, (connection) => (connection ? expiry.results(connection) : []))
      const word = 'opens a session and answers for each message (assurance: received)'
      return [{ what, ok: true, message: word }, ...ends]
    } catch (error) {
      const message = error instanceof ConnectorError ? error.message : 'could not be asked'
      return [{ what, ok: false, message }]
    }
  }

  close(): Promise<void> {
    return this.#link.close(CLOSE_MS)
  }
}

/** An entry in several messages is done with when its last one is, or when one of them is refused: then all of it is. */
function linesOf(outcome: Delivered, until: Uint32Array): Delivered {
  const refused = new Map<number, Refusal>()
  for (const refusal of outcome.refused) {
    const index = until.findIndex((end) => refusal.index < end)
    if (!refused.has(index)) refused.set(index, { ...refusal, index })
  }
  let settled = 0
  while (settled < until.length && ((until[settled] as number) <= outcome.settled || refused.has(settled)))
    settled++
  if (settled === 0)
    throw new ConnectorError('bad_reply', 'the RELP receiver took a part of an entry only; it goes out again')
  return { settled, refused: [...refused.values()].filter(({ index }) => index < settled) }
}
