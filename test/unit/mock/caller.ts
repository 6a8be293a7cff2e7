// Calls any area of the mock, in memory.
import type { HttpRequest } from '../../../src/contracts/platform.ts'
import type { Mock } from '../../../src/mock/mock.ts'
import { bearer } from './stage.ts'

export interface CallOptions {
  readonly method?: HttpRequest['method']
  readonly key?: string
  readonly type?: string
  readonly body?: string | Uint8Array
}

/** The reply, with its body not read yet. */
export function begin(mock: Mock, path: string, { method = 'GET', key, type, body }: CallOptions = {}) {
  const headers: Record<string, string> = { ...bearer }
  if (key !== undefined) headers['authorization'] = `Bearer ${key}`
  if (type !== undefined) headers['content-type'] = type
  const request = { method, url: `https://api.example.com${path}`, headers }
  const bytes = typeof body === 'string' ? Buffer.from(body) : body
  return mock.transport(
    { ...request, ...(bytes === undefined ? {} : { body: bytes }) },
    new AbortController().signal,
  )
}

export async function call(mock: Mock, path: string, options: CallOptions = {}) {
  const reply = await begin(mock, path, options)
  const pieces: Uint8Array[] = []
  for await (const piece of reply.body) pieces.push(piece)
  const bytes = Buffer.concat(pieces)
  return { status: reply.status, headers: reply.headers, bytes, text: bytes.toString() }
}

export type Row = Readonly<Record<string, unknown>>

/** The events or rows of a range, with both ends in epoch ms. */
export async function history(mock: Mock, path: string, from: number, to: number): Promise<Row[]> {
  const query = `?start_time=${Math.floor(from / 1000)}&end_time=${Math.ceil(to / 1000)}`
  const { status, text } = await call(mock, `/api/${path}${query}`)
  if (status !== 200) throw new Error(`status ${status}: ${text}`)
  const body = JSON.parse(text) as Row[] | { events: Row[] }
  return 'events' in body ? body.events : body
}
