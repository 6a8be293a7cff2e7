// The checks of `validate --connect` on each collector: health, certificates, clock, token,
// acknowledgements and index. They index nothing.
import type { CheckResult } from '../../contracts/sink.ts'
import { ConnectorError } from '../../core/errors.ts'
import { plainBody } from '../kit/body.ts'
import type { Collector } from './client.ts'
import { type HecReply, verdictOf, said } from './reply.ts'

interface Expected {
  readonly index: string | undefined
  readonly acks: boolean | 'auto'
  /** our own clock, epoch ms */
  readonly now: () => number
  /** results about both sides' certificates; empty without TLS, or if they are not visible */
  readonly certificates: (origin: string, signal: AbortSignal) => Promise<readonly CheckResult[]>
}

const NO_DATA = 5
const HEALTHY = 17
const SKEW_MS = 60_000
/** Full queues and similar: the collector is there and will accept data later. */
const busy = new Set([9, 18, 19, 20, 23, 26, 27])

function verdictText(reply: HecReply, where: string): string {
  const verdict = verdictOf(reply, { count: 1, bytes: 0, where })
  if (verdict.kind === 'failed') return verdict.error.message
  return `Splunk at ${where} answered ${reply.status}${reply.hec ? `, ${said(reply.hec)}` : ''}`
}

/** Why it would accept nothing; undefined: it is up, or busy. */
function healthFault({ where }: Collector, reply: HecReply): ConnectorError | undefined {
  const { hec, status } = reply
  if (hec && ((status === 200 && hec.code === HEALTHY) || busy.has(hec.code))) return undefined
  const verdict = verdictOf(reply, { count: 1, bytes: 0, where })
  return verdict.kind === 'failed' ? verdict.error : undefined
}

function health(collector: Collector, reply: HecReply): CheckResult {
  const what = `${collector.where} health`
  const fault = healthFault(collector, reply)
  if (fault) return { what, ok: false, message: fault.message }
  const isBusy = reply.hec && busy.has(reply.hec.code)
  const message = isBusy ? `the collector is up but busy: ${said(reply.hec)}` : 'the collector is up'
  return { what, ok: true, message }
}

/** Resolves if one of them is up; otherwise throws the fault of the last one. */
export async function probeCollectors(collectors: Iterable<Collector>, signal: AbortSignal): Promise<void> {
  let fault: ConnectorError | undefined
  for (const collector of collectors) {
    try {
      fault = healthFault(collector, await collector.health(signal))
    } catch (error) {
      if (!(error instanceof ConnectorError) || error.action === 'stop') throw error
      fault = error
    }
    if (!fault) return
  }
  if (fault) throw fault
}

/** Entries have their own times, but searches, alerts and certificates use the receiver's clock. */
function clock({ where }: Collector, serverAt: number, now: number): CheckResult {
  const aheadMs = serverAt - now
  const seconds = Math.round(Math.abs(aheadMs) / 1000)
  const skew =
    seconds < 2 ? 'agrees with ours' : `is ${seconds} s ${aheadMs > 0 ? 'ahead of' : 'behind'} ours`
  const ok = Math.abs(aheadMs) <= SKEW_MS
  return { what: `${where} clock`, ok, message: ok ? skew : `${skew}: set both by NTP` }
}

/** A post without an event: success from a receiver other than Splunk means a valid token. */
const takesNothing = (reply: HecReply, where: string): boolean =>
  verdictOf(reply, { count: 0, bytes: 0, where }).kind === 'done'

/** For a post without an event, the answer to a valid token is "no data", or such a success. */
function token({ where }: Collector, reply: HecReply): CheckResult {
  const what = `${where} token`
  if (reply.hec?.code === NO_DATA || takesNothing(reply, where))
    return { what, ok: true, message: 'the token is accepted' }
  if (reply.hec && busy.has(reply.hec.code))
    return { what, ok: true, message: `unknown: the collector is busy (${said(reply.hec)})` }
  return { what, ok: false, message: verdictText(reply, where) }
}

/**
 * Posts an object with an index and no event: rejected for the index, if that is checked first, or
 * for the event. A receiver that accepts an empty post might index it, and is not asked.
 */
async function index(
  name: string,
  collector: Collector,
  empty: HecReply,
  signal: AbortSignal,
): Promise<CheckResult> {
  const { where } = collector
  const what = `${where} index`
  if (takesNothing(empty, where))
    return { what, ok: true, message: 'not checked: this receiver could index the check as an event' }
  const object = plainBody(Buffer.from(JSON.stringify({ index: name })))
  const reply = await collector.post(collector.channels.take(), object, signal)
  if (reply.hec?.code !== 7)
    return { what, ok: true, message: 'not rejected; only the first event proves it' }
  const fault = `the token may not write to the index that 'index' names; ${verdictText(reply, where)}`
  return { what, ok: false, message: fault }
}

/** Asks about a batch that does not exist: any regular answer shows that the token acknowledges. */
async function acknowledges(
  acks: true | 'auto',
  collector: Collector,
  signal: AbortSignal,
): Promise<CheckResult> {
  const what = `${collector.where} acknowledgements`
  try {
    await collector.isSafe({ channel: collector.channels.take(), cookie: collector.cookie }, 0, signal)
    return { what, ok: true, message: 'on: a batch counts once the indexers have it' }
  } catch (error) {
    if (!(error instanceof ConnectorError)) throw error
    if (acks === true) return { what, ok: false, message: error.message }
    const message = 'off: a batch counts once Splunk has accepted it (received, not stored)'
    return { what, ok: true, message }
  }
}

/** Runs one check after the other; stops if a request fails entirely. */
export async function checkCollector(
  collector: Collector,
  expected: Expected,
  signal: AbortSignal,
): Promise<readonly CheckResult[]> {
  const results: CheckResult[] = []
  try {
    const reply = await collector.health(signal)
    results.push(health(collector, reply))
    results.push(...(await expected.certificates(collector.origin, signal)))
    if (reply.hec && reply.serverAt !== undefined)
      results.push(clock(collector, reply.serverAt, expected.now()))
    const empty = await collector.post(collector.channels.take(), plainBody(new Uint8Array(0)), signal)
    const good = token(collector, empty)
    results.push(good)
    if (!good.ok) return results
    if (expected.index !== undefined) results.push(await index(expected.index, collector, empty, signal))
    if (expected.acks !== false) results.push(await acknowledges(expected.acks, collector, signal))
  } catch (error) {
    const message = error instanceof Error ? error.message : 'could not be asked'
    results.push({ what: collector.where, ok: false, message })
  }
  return results
}
