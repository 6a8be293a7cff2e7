// A virtual clock and a simple client for the mock's tests.
import type { Clock } from '../../../src/core/clock.ts'
import type { HttpReply } from '../../../src/contracts/platform.ts'
import { openMock } from '../../../src/mock/mock.ts'
import type { Mock, MockOptions } from '../../../src/mock/mock.ts'

/** A Tuesday at ten in the morning. */
export const START = Date.UTC(2026, 10, 17, 10)

interface VirtualClock extends Clock {
  set(at: number): void
  pass(ms: number): void
}

/** Sleeping moves it. */
function virtualClock(start = START): VirtualClock {
  let at = start
  return {
    now: () => at,
    elapsed: () => at,
    sleep: async (ms, signal) => {
      if (!signal?.aborted) at += ms
    },
    set: (to) => void (at = to),
    pass: (ms) => void (at += ms),
  }
}

interface Heard {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly bytes: Buffer
  readonly text: string
}

export interface CommandContext {
  readonly clock: VirtualClock
  readonly mock: Mock
  /** The reply, with its body not read yet. */
  readonly send: (path: string, headers?: Record<string, string>, signal?: AbortSignal) => Promise<HttpReply>
  readonly ask: (path: string, headers?: Record<string, string>) => Promise<Heard>
  /** The ids of a page. */
  readonly page: (from: string, take?: number) => Promise<string[]>
}

export const bearer = { authorization: 'Bearer acme-key', 'user-agent': 'tester/1' }

export function context(options: Omit<MockOptions, 'clock'> = {}): CommandContext {
  const clock = virtualClock()
  const quiet = {
    traffic: { entriesPerHour: 0 },
    limits: { audit: 0 },
    switches: { self_audit: 'off' as const },
  }
  const mock = openMock({
    clock,
    ...quiet,
    ...options,
    switches: { ...quiet.switches, ...options.switches },
  })
  const send: CommandContext['send'] = (path, headers = bearer, signal = new AbortController().signal) =>
    mock.transport(
      { method: 'GET', url: `https://api.example.com/api/v1/logs/audit${path}`, headers },
      signal,
    )
  const ask: CommandContext['ask'] = async (path, headers) => {
    const reply = await send(path, headers)
    const pieces: Uint8Array[] = []
    for await (const piece of reply.body) pieces.push(piece)
    const bytes = Buffer.concat(pieces)
    return { status: reply.status, headers: reply.headers, bytes, text: bytes.toString() }
  }
  const page: CommandContext['page'] = async (from, take = 1000) => {
    const { status, text } = await ask(`?from=${from}&take=${take}`)
    if (status !== 200) throw new Error(`status ${status}: ${text}`)
    return (JSON.parse(text) as { id: string }[]).map(({ id }) => id)
  }
  return { clock, mock, send, ask, page }
}

/** `count` entries, one per second up to now. */
export function addMany(mock: Mock, count: number): string[] {
  return Array.from({ length: count }, (_, i) => mock.add({ at: mock.clock.now() - (count - i) * 1000 }).id)
}
