// Reading a body of events as Splunk does: object after object, strict, and objects before the first bad one count.
import { gunzipSync } from 'node:zlib'
import type { HttpRequest } from '../../src/contracts/platform.ts'
import type { HecSettings, HecToken } from './hec-options.ts'
import { coded, page } from './hec-replies.ts'
import type { Answered } from './hec-replies.ts'
import { Malformed, parseRange, scanObject, skipSpace } from './hec-scan.ts'
import type { Scanned } from './hec-scan.ts'

export interface HecEvent {
  /** The bytes of `event`, exactly as they were sent. */
  readonly event: Buffer
  /** As written, so that no digit is lost; undefined if none was sent. */
  readonly time: string | undefined
  readonly host: string | undefined
  readonly source: string | undefined
  readonly sourcetype: string | undefined
  readonly index: string | undefined
  readonly fields: Readonly<Record<string, unknown>>
  /** which request for events brought it, from 1 */
  readonly request: number
  /** which indexer has it */
  readonly indexer: number
  /** when it is on the disk: until then the indexer's crash loses it */
  readonly safeAt: number
}

type Event = Omit<HecEvent, 'request' | 'indexer' | 'safeAt'>

export interface BodyRead {
  readonly events: readonly Event[]
  readonly objects: number
  readonly fault?: { readonly code: 6 | 7 | 12 | 13 | 15; readonly event: number }
}

const envelopeKeys = new Set(['time', 'host', 'source', 'sourcetype', 'index', 'event', 'fields'])

/** The body as Splunk reads it, or its refusal. */
export function unpack({ maxContentBytes, gzip }: HecSettings, request: HttpRequest): Buffer | Answered {
  const wire = Buffer.from(request.body ?? [])
  const encoding = request.headers['content-encoding'] ?? 'identity'
  const tooLarge = () => page(413, 'Content-Length too large')
  if (wire.length > maxContentBytes) return tooLarge()
  if (encoding === 'identity') return wire
  if (encoding !== 'gzip' || !gzip) return page(415, 'Unsupported Media Type')
  try {
    return gunzipSync(wire, { maxOutputLength: maxContentBytes })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') return tooLarge()
    return coded(6)
  }
}

function flat(value: unknown): boolean {
  const scalar = (item: unknown) => ['string', 'number', 'boolean'].includes(typeof item)
  return scalar(value) || (Array.isArray(value) && value.every(scalar))
}

/** `skip`: answered with 200 and not indexed. `stop`: neither this object nor any behind it is, and still 200. */
type Judged = { readonly event: Event } | 'skip' | 'stop' | { readonly code: 6 | 7 | 12 | 13 | 15 }

function judge(bytes: Buffer, object: Scanned, token: HecToken, settings: HecSettings): Judged {
  const unknown = object.members.some(({ key }) => !envelopeKeys.has(key))
  if (unknown && settings.unknownKey === 'stops') return 'stop'
  const members = new Map(object.members.map((member) => [member.key, member]))
  const value = (key: string): unknown => {
    const member = members.get(key)
    return member && parseRange(bytes, member.start, member.end)
  }
  const texts = ['host', 'source', 'sourcetype', 'index'].map(value)
  if (texts.some((text) => text !== undefined && typeof text !== 'string')) return { code: 6 }
  const [host, source, sourcetype, named] = texts as (string | undefined)[]
  const fields = value('fields') ?? {}
  const event = members.get('event')
  if (!event) return members.has('fields') && settings.eventless === 'skipped' ? 'skip' : { code: 12 }
  const raw = bytes.subarray(event.start, event.end)
  if (raw.equals(Buffer.from('null'))) return { code: 12 }
  if (raw.equals(Buffer.from('""'))) return { code: 13 }
  if (raw.length > settings.maxEventBytes) return { code: 6 }
  if (typeof fields !== 'object' || Array.isArray(fields) || !Object.values(fields).every(flat))
    return { code: 15 }
  const time = members.get('time')
  const written = time && bytes.toString('latin1', time.start, time.end).replaceAll('"', '')
  if (written !== undefined && !/^-?\d+(\.\d+)?$/.test(written)) return { code: 6 }
  const index = named ?? token.defaultIndex
  if (named !== undefined && token.indexes && !token.indexes.includes(named)) return { code: 7 }
  const kept = { event: Buffer.from(raw), time: written, host, source, sourcetype, index }
  return { event: { ...kept, fields: fields as Record<string, unknown> } }
}

export function readEvents(bytes: Buffer, token: HecToken, settings: HecSettings): BodyRead {
  const events: Event[] = []
  let number = 0
  for (let at = skipSpace(bytes, 0); at < bytes.length; number++) {
    let judged: Judged
    try {
      const object = scanObject(bytes, at)
      judged = judge(bytes, object, token, settings)
      at = skipSpace(bytes, object.end)
    } catch (error) {
      if (!(error instanceof Malformed)) throw error
      judged = { code: 6 }
    }
    if (judged === 'skip') continue
    // An unknown key in the first object leaves nothing at all to index, which Splunk calls no data.
    if (judged === 'stop') return { events, objects: number }
    if ('event' in judged) {
      events.push(judged.event)
      continue
    }
    const event = number + (judged.code === 7 && settings.wrongIndexNamesNext ? 1 : 0)
    return { events, objects: number, fault: { code: judged.code, event } }
  }
  return { events, objects: number }
}
