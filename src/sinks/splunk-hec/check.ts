// What `validate --connect` asks of each collector: its health, whether the token is good, whether the index is allowed. Indexes nothing.
import type { CheckResult } from '../../model/sink.ts'
import type { Endpoint } from './endpoints.ts'
import { type HecReply, judge, said } from './reply.ts'

export interface Asking {
  readonly index: string | undefined
  health(endpoint: Endpoint, signal: AbortSignal): Promise<HecReply>
  post(endpoint: Endpoint, body: Uint8Array, signal: AbortSignal): Promise<HecReply>
}

const NO_DATA = 5
const HEALTHY = 17
/** Full queues and the like: the collector is there and will take more later. */
const busy = new Set([9, 18, 19, 20, 23, 26, 27])

function verdictOf(reply: HecReply, where: string): string {
  const verdict = judge(reply, { count: 1, bytes: 0, where })
  return verdict.kind === 'failed' ? verdict.error.message : `Splunk at ${where} answered ${reply.status}`
}

async function health(asking: Asking, endpoint: Endpoint, signal: AbortSignal): Promise<CheckResult> {
  const what = `${endpoint.where} health`
  const reply = await asking.health(endpoint, signal)
  const healthy = reply.status === 200 && (reply.hec === undefined || reply.hec.code === HEALTHY)
  if (reply.hec && healthy) return { what, ok: true, message: 'the collector is up' }
  if (reply.hec && busy.has(reply.hec.code))
    return { what, ok: true, message: `the collector is up but busy: ${said(reply.hec)}` }
  return { what, ok: false, message: verdictOf(reply, endpoint.where) }
}

/** A post without an event: a good token is answered with "no data". */
async function token(asking: Asking, endpoint: Endpoint, signal: AbortSignal): Promise<CheckResult> {
  const what = `${endpoint.where} token`
  const reply = await asking.post(endpoint, new Uint8Array(0), signal)
  if (reply.hec?.code === NO_DATA) return { what, ok: true, message: 'the token is accepted' }
  if (reply.hec && busy.has(reply.hec.code))
    return { what, ok: true, message: `not told: the collector is busy (${said(reply.hec)})` }
  return { what, ok: false, message: verdictOf(reply, endpoint.where) }
}

/** An object with an index and no event: refused for the index, where that is looked at first, or for the event. */
async function index(
  asking: Asking,
  name: string,
  endpoint: Endpoint,
  signal: AbortSignal,
): Promise<CheckResult> {
  const what = `${endpoint.where} index`
  const reply = await asking.post(endpoint, Buffer.from(JSON.stringify({ index: name })), signal)
  if (reply.hec?.code === 7)
    return {
      what,
      ok: false,
      message: `the token may not write to the index that 'index' names; ${verdictOf(reply, endpoint.where)}`,
    }
  return { what, ok: true, message: 'not refused; the first event will tell for sure' }
}

export async function checkEndpoint(
  asking: Asking,
  endpoint: Endpoint,
  signal: AbortSignal,
): Promise<readonly CheckResult[]> {
  const results: CheckResult[] = []
  try {
    results.push(await health(asking, endpoint, signal))
    const good = await token(asking, endpoint, signal)
    results.push(good)
    if (good.ok && asking.index !== undefined)
      results.push(await index(asking, asking.index, endpoint, signal))
  } catch (error) {
    const message = error instanceof Error ? error.message : 'could not be asked'
    results.push({ what: endpoint.where, ok: false, message })
  }
  return results
}
