// Messages as datagrams, one each. There are no answers: dropped datagrams are lost, and the order
// is up to the network.
import { ConnectorError } from '../../core/errors.ts'
import type { CheckResult, Lines, Rejection } from '../../contracts/sink.ts'
import type { Datagrams } from '../../contracts/platform.ts'
import { messagesIn } from './frame.ts'
import type { Delivered, Session, SessionOptions } from './session.ts'

/** The address of a receiver's name may change: it is resolved again after this time. */
const RESOLVED_MS = 60_000

export class DatagramSession implements Session {
  readonly #options: SessionOptions
  #open: { readonly datagrams: Datagrams; readonly since: number } | undefined

  constructor(options: SessionOptions) {
    this.#options = options
  }

  async deliver(lines: Lines, signal: AbortSignal): Promise<Delivered> {
    const { bytes, ends, count } = lines
    const rejected: Rejection[] = []
    let from = 0
    for (let index = 0; index < count; index++) {
      const end = ends[index] as number
      try {
        for (const message of messagesIn(bytes, from, end)) await this.#send(message, signal)
      } catch (error) {
        if (!(error instanceof ConnectorError) || error.code !== 'too_large') {
          await this.close()
          throw error
        }
        rejected.push({ index, code: error.code, reason: error.message, own: true })
      }
      from = end
    }
    return { acknowledged: count, rejected }
  }

  async #send(message: Uint8Array, signal: AbortSignal): Promise<void> {
    if (signal.aborted) throw new ConnectorError('aborted', `the batch to ${this.#options.where} was aborted`)
    await (await this.#ready()).send(message)
  }

  async #ready(): Promise<Datagrams> {
    const now = this.#options.deps.clock.elapsed()
    if (this.#open && now - this.#open.since > RESOLVED_MS) await this.close()
    this.#open ??= { datagrams: await this.#options.deps.datagrams(this.#options.to), since: now }
    return this.#open.datagrams
  }

  async close(): Promise<void> {
    const open = this.#open
    this.#open = undefined
    await open?.datagrams.close()
  }

  async check(): Promise<readonly CheckResult[]> {
    const what = `${this.#options.where} UDP`
    try {
      await (await this.#options.deps.datagrams(this.#options.to)).close()
      const word = 'has an address; whether a receiver listens there is unknown (assurance: sent)'
      return [{ what, ok: true, message: word }]
    } catch (error) {
      const message = error instanceof ConnectorError ? error.message : 'could not be asked'
      return [{ what, ok: false, message }]
    }
  }
}
