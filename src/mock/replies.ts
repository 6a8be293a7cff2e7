// The plain replies that every area of the mock gives: JSON, errors with their documented words, and headers.
import { lengthOf } from './answer.ts'
import type { Page } from './pages.ts'

/** An answer in the making: faults, compression and common headers come later. */
export interface Reply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: readonly Uint8Array[]
  /** The elements in the body; what of it counts as shown when the body is sent whole. */
  readonly page: Page | undefined
  /** Called when the body was sent whole. */
  readonly show: ((at: number) => void) | undefined
}

export function json(status: number, body: readonly Uint8Array[]): Reply {
  const headers = { 'content-type': 'application/json', 'content-length': String(lengthOf(body)) }
  return { status, headers, body, page: undefined, show: undefined }
}

export function text(status: number, value: unknown): Reply {
  return json(status, [Buffer.from(JSON.stringify(value))])
}

export function failure(status: number, message: string, headers: Record<string, string> = {}): Reply {
  const reply = text(status, { error: message })
  return { ...reply, headers: { ...reply.headers, ...headers } }
}

export const documented = {
  400: 'Missing required filters',
  401: 'Unauthorized',
  429: 'Rate limit exceeded',
  500: 'Unexpected server error',
} as const
