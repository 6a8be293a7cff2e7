// The plain replies that every area of the mock gives: JSON, errors with their documented words, and headers.
import { isStreamed, lengthOf } from './answer.ts'
import type { Body } from './answer.ts'
import type { Area } from './keys.ts'
import type { Page } from './pages.ts'

/** An answer in the making: faults, compression and common headers come later. */
export interface Reply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Body
  /** The elements in the body; what of it counts as shown when the body is sent whole. */
  readonly page: Page | undefined
  /** how many there are, where they stand in no page */
  readonly elements?: number
  /** Called when the body was sent whole. */
  readonly show: ((at: number) => void) | undefined
}

/** A streamed body that does not say its length goes out in chunks. */
export function json(status: number, body: Body): Reply {
  const length = isStreamed(body) ? body.length : lengthOf(body)
  const said = length === undefined ? {} : { 'content-length': String(length) }
  const headers = { 'content-type': 'application/json', ...said }
  return { status, headers, body, page: undefined, show: undefined }
}

export function text(status: number, value: unknown): Reply {
  return json(status, [Buffer.from(JSON.stringify(value))])
}

export function failure(status: number, message: string, headers: Record<string, string> = {}): Reply {
  const reply = text(status, { error: message })
  return { ...reply, headers: { ...reply.headers, ...headers } }
}

/** The messages of §7. Where an area names none (vault: 429), the others' is taken. */
export const documented = {
  audit: {
    400: 'Missing required filters',
    401: 'Unauthorized',
    429: 'Rate limit exceeded',
    500: 'Unexpected server error',
  },
  history: {
    400: 'Missing start_time',
    401: 'Unauthorized',
    429: 'Rate limit exceeded',
    500: 'Unexpected server error',
  },
  vault: {
    400: 'Missing file',
    401: 'Unauthorized',
    404: 'File not found',
    429: 'Rate limit exceeded',
    500: 'Unexpected server error',
  },
  assistant: {
    400: 'Missing prompt parameter',
    401: 'Invalid API key provided',
    429: 'Rate limit exceeded',
    500: 'An internal error occurred',
  },
} as const satisfies Record<Area, Readonly<Record<number, string>>>
