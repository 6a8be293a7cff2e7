// The mock over real sockets of the loopback, on a clock that a test moves: what every conformance test asks.
import { afterEach } from 'vitest'
import type { Clock } from '../../src/core/clock.ts'
import { listenMock } from '../../src/mock/listen.ts'
import type { Listening } from '../../src/mock/listen.ts'
import { openMock } from '../../src/mock/mock.ts'
import type { Mock, MockOptions } from '../../src/mock/mock.ts'

export const SECOND = 1000
export const MINUTE = 60 * SECOND
export const HOUR = 60 * MINUTE
export const DAY = 24 * HOUR

/** A Tuesday, ten in the morning: the mock's people are at work. */
export const START = Date.UTC(2026, 10, 17, 10)

export const audit = '/api/v1/logs/audit'
export const projects = '/api/v1/vault/workspace/projects'
export const UNKNOWN = '01234567-89ab-4cde-8f01-23456789abcd'

export interface Heard {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** of a JSON body; throws where it is none */
  json(): unknown
}

export interface Sent {
  readonly method?: 'GET' | 'POST' | 'DELETE'
  /** undefined: no Authorization header at all */
  readonly authorization?: string | undefined
  readonly userAgent?: string
  readonly body?: FormData | string
  readonly contentType?: string
}

export interface Served {
  readonly mock: Mock
  readonly clock: { readonly pass: (ms: number) => void; readonly now: () => number }
  readonly ask: (path: string, sent?: Sent) => Promise<Heard>
  /** Of a JSON body, whatever the status. */
  readonly get: (path: string) => Promise<unknown>
}

const open: Listening[] = []
afterEach(async () => {
  for (const server of open.splice(0)) await server.close()
})

function headersOf({ userAgent = 'conformance/1', contentType, ...sent }: Sent): Record<string, string> {
  const authorization = 'authorization' in sent ? sent.authorization : 'Bearer acme-key'
  return {
    'user-agent': userAgent,
    ...(authorization === undefined ? {} : { authorization }),
    ...(contentType === undefined ? {} : { 'content-type': contentType }),
  }
}

/** Quiet and without limits unless told: what a test is about is what it switches on. Ends with the test. */
export async function served(options: Omit<MockOptions, 'clock'> = {}): Promise<Served> {
  let at = START
  const clock: Clock = {
    now: () => at,
    elapsed: () => at,
    sleep: async (ms) => void (at += ms),
  }
  const mock = openMock({
    clock,
    traffic: { entriesPerHour: 0 },
    limits: { audit: 0, history: 0, vault: 0, assistant: 0 },
    ...options,
  })
  const server = await listenMock(mock, { port: 0, host: '127.0.0.1' })
  open.push(server)
  const ask = async (path: string, sent: Sent = {}): Promise<Heard> => {
    const { method = 'GET', body } = sent
    const init = { method, headers: headersOf(sent), redirect: 'manual' as const }
    const response = await fetch(`${server.url}${path}`, { ...init, ...(body === undefined ? {} : { body }) })
    const text = await response.text()
    return {
      status: response.status,
      headers: response.headers,
      text,
      json: () => JSON.parse(text) as unknown,
    }
  }
  return {
    mock,
    clock: { now: () => at, pass: (ms) => void (at += ms) },
    ask,
    get: async (path) => (await ask(path)).json(),
  }
}

/** Four days of a workspace, in plain spelling. */
export const days = { entriesPerHour: 80, since: START - 4 * DAY, exotic: 0 } as const

export const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/
export const email = /^[^\s@]+@[^\s@]+\.[^\s@]+$/
/** ISO 8601, to the microsecond, without a zone. */
export const stamp = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}$/

export const seconds = (ms: number): number => Math.floor(ms / 1000)

export type Fields = Readonly<Record<string, unknown>>
