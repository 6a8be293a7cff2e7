// What a request leaves behind, however it ends: no timer, its permit returned a minute later, and an error that says what to wait for.
import { expect, it } from 'vitest'
import { ConnectorError } from '../../../../src/core/errors.ts'
import type { HttpReply } from '../../../../src/contracts/platform.ts'
import { MemoryBudget } from '../../../../src/core/memory-budget.ts'
import { Secret } from '../../../../src/core/secret.ts'
import { RateLimiter } from '../../../../src/sources/http/rate-limiter.ts'
import { Client } from '../../../../src/sources/http/client.ts'
import type { Ask } from '../../../../src/sources/http/client.ts'
import { SourceNotes } from '../../../fakes/reporters.ts'
import { settled, VirtualClock } from '../../../simulation/virtual-clock.ts'
import { driven, MINUTE, SECOND, START } from '../../app/audit-harness.ts'

const never = new AbortController().signal
const json = { 'content-type': 'application/json' }

class Timed extends SourceNotes {
  readonly asked: [code: string, tookMs: number][] = []
  override request(code: string, tookMs = NaN): void {
    this.asked.push([code, tookMs])
  }
}

async function* bodyOf(...pieces: readonly string[]) {
  for (const piece of pieces) yield Buffer.from(piece)
}

function open(
  answer: (clock: VirtualClock) => Promise<HttpReply>,
  secret = new Secret('the-key'),
  save = (): Promise<void> => Promise.resolve(),
) {
  const clock = new VirtualClock(START)
  const reporter = new Timed()
  const store = { load: async () => undefined, save }
  const rateLimiter = new RateLimiter({ limit: () => 100, clock, random: () => 0.5, store })
  const memory = new MemoryBudget(32 * 2 ** 20)
  const client = new Client({
    ...{ baseUrl: 'https://api.test', apiKey: secret, transport: () => answer(clock) },
    ...{ clock, rateLimiter, memory, reporter, userAgent: 'tester/1' },
  })
  const send = async (ask: Partial<Ask> = {}) => {
    const pieces = client.send({ method: 'GET', path: '/x', ...ask }, 'live', never, ({ body }) => body)
    while (!(await pieces.next()).done);
  }
  return { clock, reporter, rateLimiter, memory, client, send }
}

const answering = (status: number, headers: Record<string, string> = {}) =>
  open(async () => ({ status, headers: { ...json, ...headers }, body: bodyOf('[]') }))

const errorOf = (asked: Promise<unknown>): Promise<ConnectorError> =>
  asked.then(
    () => expect.fail('it went well'),
    (error: unknown) => (error instanceof ConnectorError ? error : expect.fail(String(error))),
  )

it.each([200, 204, 302, 401, 429, 500])(
  'status %i: its permit comes back, and no timer is left',
  async (status) => {
    const { clock, rateLimiter, send } = answering(status, { 'retry-after': '0' })
    await send().catch(() => undefined)
    expect(clock.advance(Infinity)).toBe(false)
    clock.advance(START + 2 * MINUTE)
    expect(rateLimiter.used.permits).toBe(0)
  },
)

it('if the transport fails, its permit comes back, and an error that is not ours is reported unchanged', async () => {
  const fault = new TypeError('a bug')
  const { clock, rateLimiter, reporter, send } = open(() => Promise.reject(fault))
  await expect(send()).rejects.toBe(fault)
  expect(reporter.asked).toEqual([['aborted', 0]])
  clock.advance(START + 2 * MINUTE)
  expect(rateLimiter.used.permits).toBe(0)
})

it('the duration of a request is reported, from its start to the end of the answer', async () => {
  const { clock, reporter, send } = open(async (time) => {
    await time.sleep(3 * SECOND)
    return { status: 200, headers: json, body: bodyOf('[]') }
  })
  await driven(clock, send())
  expect(reporter.asked).toEqual([['200', 3 * SECOND]])
})

it('the minute of a permit begins when the answer is complete, however long it is processed then', async () => {
  const { clock, rateLimiter, client } = open(async () => ({
    status: 200,
    headers: json,
    body: bodyOf('[', ']'),
  }))
  const working = client.send({ method: 'GET', path: '/x' }, 'live', never, async function* ({ body }) {
    for await (const piece of body) yield piece.length
    await clock.sleep(5 * MINUTE)
    yield rateLimiter.used.permits
  })
  const seen: number[] = []
  await driven(
    clock,
    (async () => {
      for await (const one of working) seen.push(one)
    })(),
  )
  expect(seen).toEqual([1, 1, 0])
})

it('touch() reads an answer to its end, so that a truncated one fails', async () => {
  async function* broken() {
    yield* bodyOf('[', '1')
    await settled()
    throw new ConnectorError('unreachable', 'it broke off')
  }
  const { client } = open(async () => ({ status: 200, headers: json, body: broken() }))
  expect((await errorOf(client.touch('/x', 'live', never))).code).toBe('unreachable')
})

it('touch() accepts an empty answer', async () => {
  await expect(answering(204).client.touch('/x', 'live', never)).resolves.toBeUndefined()
})

it.each([
  [400, 1],
  [422, 1],
  [404, 0],
  [500, 0],
  [429, 0],
])(
  'status %i reports the server’s clock to a caller with a time, %i times: only if the request is invalid',
  async (status, times) => {
    const reported: (number | undefined)[] = []
    const { send } = answering(status, { date: new Date(START + 3 * SECOND).toUTCString() })
    await errorOf(send({ invalid: (serverAt) => void reported.push(serverAt) }))
    expect(reported).toEqual(Array.from({ length: times }, () => START + 3 * SECOND))
  },
)

it('a 429 is reported when the store has it: a killed process does not come back earlier', async () => {
  const store = { isSlow: false, land: (): void => undefined }
  const save = () =>
    store.isSlow ? new Promise<void>((resolve) => (store.land = resolve)) : Promise.resolve()
  const opened = open(
    async () => {
      store.isSlow = true
      return { status: 429, headers: json, body: bodyOf('') }
    },
    new Secret('the-key'),
    save,
  )
  let reported = false
  const asking = errorOf(opened.send()).then((error) => {
    reported = true
    return error.code
  })
  for (let i = 0; i < 5; i++) await settled()
  expect(reported).toBe(false)
  store.land()
  expect(await asking).toBe('rate_limited')
})

it.each([403, 500])('a changed key is no reason to retry at once after status %i', async (status) => {
  let key = 'old'
  const { send } = open(
    async () => {
      key = 'new'
      return { status, headers: json, body: bodyOf('') }
    },
    new Secret('old', () => key),
  )
  const error = await errorOf(send())
  expect(error.retryAfterMs).toBeUndefined()
  expect(error.message).not.toContain('trying the new key')
})

it.each([
  [401, '0', undefined],
  [403, '0', undefined],
  [401, '1', 1_000],
  [403, '30', 30_000],
  [500, '0', 0],
  [429, '0', 0],
])(
  'beside status %i a retry-after of %s waits %s ms: zero is reserved for a changed key',
  async (status, hint, waitMs) => {
    expect((await errorOf(answering(status, { 'retry-after': hint }).send())).retryAfterMs).toBe(waitMs)
  },
)
