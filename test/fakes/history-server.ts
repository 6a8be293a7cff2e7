// A history API as a function: its events, how it treats a request's ends, units and versions, and faults by window.
import { ConnectorError } from '../../src/core/errors.ts'
import type { ErrorCode } from '../../src/core/errors.ts'
import type { HttpReply, Transport } from '../../src/contracts/platform.ts'
import type { Clock } from '../../src/core/clock.ts'

export interface HistoryEvent {
  /** epoch ms */
  readonly at: number
  /** the event's JSON, as each version writes it */
  readonly v2: string
  readonly v1: string
  /** epoch ms; before it no request sees it */
  readonly visibleAt?: number
}

export interface HistoryRequest {
  readonly version: 'v1' | 'v2'
  readonly kind: string
  /** epoch ms, as asked */
  readonly from: number
  readonly to: number
  readonly at: number
}

/** How a request fails: a status, a code thrown before the answer, or a body cut after so many bytes or in the given way. */
export interface HistoryFault {
  readonly status?: number
  readonly error?: ErrorCode
  readonly cutBytes?: number
  readonly cutError?: ErrorCode
  /** the body ends there as if it were whole */
  readonly shortBytes?: number
  readonly body?: string
  /** the answer takes so long before it begins */
  readonly delayMs?: number
}

export interface HistoryServerOptions {
  readonly clock: Clock
  unit?: 's' | 'ms'
  /** what the other unit answers */
  otherUnit?: 'refused' | 'empty'
  startInclusive?: boolean
  endInclusive?: boolean
  /** a future end by the server's clock is a 400 */
  endsInPast?: boolean
  versions?: readonly ('v1' | 'v2')[]
  chunkBytes?: number
  dateAt?: () => number
  hidesDate?: boolean
  fault?: (request: HistoryRequest) => HistoryFault | undefined
}

const MONTH_MS = 30 * 86_400_000

export class HistoryServer {
  readonly options: HistoryServerOptions
  readonly requests: HistoryRequest[] = []
  readonly refused: string[] = []
  events: HistoryEvent[] = []

  constructor(options: HistoryServerOptions) {
    this.options = options
  }

  readonly transport: Transport = async ({ url }) => {
    const request = this.#requestOf(new URL(url))
    if (request) this.requests.push(request)
    if (request && request.to <= request.from) throw new Error(`asked backwards: ${url}`)
    const fault = request && this.options.fault?.(request)
    if (fault?.delayMs !== undefined) await this.options.clock.sleep(fault.delayMs)
    if (fault?.error) throw new ConnectorError(fault.error, 'as scripted')
    if (fault?.status !== undefined) return this.#reply(fault.status, '{"error":"as scripted"}', fault)
    if (!request) return this.#reply(400, '{"error":"Missing start_time"}')
    const { versions = ['v1', 'v2'], otherUnit = 'refused', unit = 's', endsInPast } = this.options
    if (!versions.includes(request.version)) return this.#reply(404, '{"error":"Not found"}')
    const isThisUnit = this.#unitOf(new URL(url)) === unit
    if (!isThisUnit && otherUnit === 'refused') return this.#reply(400, '{"error":"Invalid start_time"}')
    if (endsInPast && isThisUnit && request.to > this.#now())
      return this.#reply(400, '{"error":"end_time is in the future"}')
    if (isThisUnit && request.to - request.from > MONTH_MS) {
      this.refused.push(url)
      return this.#reply(400, '{"error":"Range too long"}')
    }
    return this.#reply(200, this.#listed(isThisUnit ? this.#within(request) : [], request), fault)
  }

  /** Its answer to a request, and one more element. */
  bodyOf(request: HistoryRequest, element: string): string {
    return this.#listed([...this.#within(request), { at: request.from, v2: element, v1: element }], request)
  }

  #listed(events: readonly HistoryEvent[], { version }: HistoryRequest): string {
    const list = `[${events.map((event) => event[version]).join(',')}]`
    return version === 'v2' ? `{"events":${list}}` : list
  }

  /** The server's own clock, if it sends a Date. */
  #now(): number {
    return (this.options.dateAt ?? (() => this.options.clock.now()))()
  }

  #unitOf(url: URL): 's' | 'ms' {
    return Number(url.searchParams.get('start_time')) > 1e11 ? 'ms' : 's'
  }

  #requestOf(url: URL): HistoryRequest | undefined {
    const [, version, kind] = /\/api\/(v1|v2)\/history\/(usage|query)$/.exec(url.pathname) ?? []
    const scale = this.#unitOf(url) === 'ms' ? 1 : 1000
    const from = Number(url.searchParams.get('start_time')) * scale
    const to = Number(url.searchParams.get('end_time')) * scale
    if (!version || !kind || !from || !to) return undefined
    return { version: version as 'v1' | 'v2', kind, from, to, at: this.#now() }
  }

  #within({ from, to, at: now }: HistoryRequest): HistoryEvent[] {
    const { startInclusive = true, endInclusive = false } = this.options
    return this.events.filter(
      ({ at, visibleAt = 0 }) =>
        visibleAt <= now && (startInclusive ? at >= from : at > from) && (endInclusive ? at <= to : at < to),
    )
  }

  #reply(status: number, text: string, fault: HistoryFault = {}): HttpReply {
    const { dateAt, hidesDate = false, chunkBytes = 65_536 } = this.options
    const headers: Record<string, string> = { 'content-type': 'application/json' }
    if (dateAt && !hidesDate) headers['date'] = new Date(dateAt()).toUTCString()
    const whole = Buffer.from(fault.body ?? text)
    const body = whole.subarray(0, Math.min(fault.cutBytes ?? Infinity, fault.shortBytes ?? Infinity))
    const cut = fault.cutBytes === undefined ? undefined : (fault.cutError ?? 'unreachable')
    return { status, headers, body: chunks(body, chunkBytes, cut) }
  }
}

async function* chunks(body: Buffer, size: number, cut: ErrorCode | undefined): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < body.length; at += size)
    yield await Promise.resolve(Buffer.from(body.subarray(at, at + size)))
  if (cut) throw new ConnectorError(cut, 'cut as scripted')
}

let made = 0

/** An event at a whole second, the same in both versions but for what each names. */
export function historyEvent(
  at: number,
  more: { id?: string; fields?: object; timeless?: boolean } = {},
): HistoryEvent {
  const id = more.id ?? `7d3f0000-0000-4000-8000-${String(++made).padStart(12, '0')}`
  const time = new Date(at).toISOString().slice(0, 19).replace('T', ' ')
  const user = 'person@example.com'
  const v2 = {
    unique_usage_id: id,
    utc_time: time,
    user,
    product_surface_area: 'ASSISTANT',
    metadata: {},
    ...more.fields,
  }
  const v1 = {
    email: user,
    ...(more.timeless ? {} : { timestamp: time }),
    Task: 'Assistant',
    n: id,
    ...more.fields,
  }
  return { at, v2: JSON.stringify(v2), v1: JSON.stringify(v1) }
}
