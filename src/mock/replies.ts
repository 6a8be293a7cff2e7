// The common replies of every area of the mock: JSON, errors with their documented messages, and
// headers.
import { isStreamed, lengthOf } from './answer.ts'
import type { Body } from './answer.ts'
import type { Entry, ShownIn } from './entry.ts'
import type { Area } from './keys.ts'

/** A reply before faults, compression and common headers are applied. */
export interface Reply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Body
  /** The elements in the body; they count as shown when the body is sent completely. */
  readonly page: Page | undefined
  /** number of elements that are in no page */
  readonly elements?: number
  /** Called when the body was sent completely. */
  readonly show: ((at: number) => void) | undefined
}

/** A streamed body without a length is sent in chunks. */
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

/** The messages of §7. If an area has none (vault: 429), that of the others is used. */
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

// Pages of entries as sent: their joined bytes, and a record of what was shown.

export interface Page {
  readonly count: number
  element(index: number): Uint8Array
  /** The elements with `separator` between them. */
  joined(separator: string): Uint8Array
  /** Called when an answer with this page was sent to its end. */
  show(where: ShownIn, at: number): void
}

export function join(elements: readonly Uint8Array[], separator: string): Uint8Array {
  const between = Buffer.from(separator)
  return Buffer.concat(elements.flatMap((element, i) => (i === 0 ? [element] : [between, element])))
}

/** If a poisoned entry makes the page unreadable, that entry alone counts as shown. */
export function pageOf(entries: readonly Entry[]): Page {
  return {
    count: entries.length,
    element: (index) => entries[index]?.raw ?? new Uint8Array(0),
    joined: (separator) =>
      join(
        entries.map((entry) => entry.raw),
        separator,
      ),
    show: (where, at) => {
      const poisoned = entries.filter((entry) => entry.defect === 'poison')
      for (const entry of poisoned.length > 0 ? poisoned : entries) entry.show(where, at)
    },
  }
}

export const emptyPage: Page = pageOf([])

/** The elements of `page` in another order, or some of them twice. */
export function arranged(page: Page, order: readonly number[]): Page {
  const elements = order.map((index) => page.element(index))
  return {
    count: order.length,
    element: (index) => elements[index] ?? new Uint8Array(0),
    joined: (separator) => join(elements, separator),
    show: (where, at) => page.show(where, at),
  }
}

export function chained(first: Page, second: Page): Page {
  if (second.count === 0) return first
  if (first.count === 0) return second
  return {
    count: first.count + second.count,
    element: (index) => (index < first.count ? first.element(index) : second.element(index - first.count)),
    joined: (separator) => join([first.joined(separator), second.joined(separator)], separator),
    show: (where, at) => {
      first.show(where, at)
      second.show(where, at)
    },
  }
}
