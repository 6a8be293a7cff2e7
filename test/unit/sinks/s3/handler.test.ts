// One request of the library over our transport: how long it may take, whatever the server does.
import { Readable } from 'node:stream'
import { expect, it } from 'vitest'
import type { HttpReply, Transport } from '../../../../src/contracts/platform.ts'
import { libraryHandler } from '../../../../src/sinks/s3/handler.ts'
import { settled, VirtualClock } from '../../../simulation/virtual-clock.ts'
import { never } from '../../delivery/rig.ts'

const MINUTE = 60_000
const MIB = 2 ** 20
const put = { method: 'PUT', protocol: 'https:', hostname: 's3.test', path: '/logs/a', headers: {} }

const nothing = async function* () {}

/** The outcome of a request, and how long it took. */
async function outcome(clock: VirtualClock, work: Promise<unknown>) {
  const beganAt = clock.now()
  let ended: { by: unknown; at: number } | undefined
  const tell = (by: unknown) => (ended ??= { by, at: clock.now() - beganAt })
  void work.then(tell, tell)
  await settled()
  while (!ended && clock.advance(beganAt + 24 * 60 * MINUTE)) await settled()
  return ended
}

it('a server that sends byte by byte is given up after half an hour', async () => {
  const clock = new VirtualClock(Date.UTC(2026, 10, 17))
  const beganAt = clock.now()
  async function* drops() {
    while (clock.now() < beganAt + 60 * MINUTE) {
      yield Buffer.from(' ')
      await clock.sleep(MINUTE / 2)
    }
  }
  const send: Transport = () => Promise.resolve({ status: 503, headers: {}, body: drops() })
  const { by, at } = (await outcome(clock, libraryHandler(send, clock).handle(put))) ?? {}
  expect(by).toMatchObject({ code: 'timeout', message: expect.stringContaining('32 KiB a second') as string })
  expect(Math.round((at ?? 0) / 1000)).toBe(30 * 60)
})

/** Takes a piece each second. */
const slowly =
  (clock: VirtualClock): Transport =>
  async (request, signal) => {
    const pieces = request.stream?.[Symbol.asyncIterator]()
    while (pieces && !(await pieces.next()).done) await clock.sleep(1_000, signal)
    return { status: 200, headers: { etag: '"e"' }, body: nothing() }
  }

const bodyOf = (bytes: number, piece: number) =>
  Readable.from(
    (function* () {
      for (let at = 0; at < bytes; at += piece) yield Buffer.alloc(Math.min(piece, bytes - at))
    })(),
    { objectMode: false, highWaterMark: 1 },
  )

it.each([
  ['64 KiB a second', 64 * 1024, 256 * MIB, 'got through'],
  ['16 KiB a second', 16 * 1024, 256 * MIB, 'timeout'],
  ['16 KiB a second, small enough', 16 * 1024, 16 * MIB, 'got through'],
])(
  'an upload that moves all the time has the time that its size needs: %s',
  async (_, piece, bytes, wanted) => {
    const clock = new VirtualClock(Date.UTC(2026, 10, 17))
    const body = bodyOf(bytes, piece)
    const { by, at = 0 } =
      (await outcome(clock, libraryHandler(slowly(clock), clock).handle({ ...put, body }))) ?? {}
    if (wanted === 'got through') expect(by).toMatchObject({ response: { statusCode: 200 } })
    else expect(by).toMatchObject({ code: wanted })
    if (wanted === 'timeout') expect(Math.round(at / MINUTE)).toBe(60)
  },
)

it('a stalled upload is given up after a minute, whatever moved before', async () => {
  const clock = new VirtualClock(Date.UTC(2026, 10, 17))
  const send: Transport = async (request, signal) => {
    const pieces = request.stream?.[Symbol.asyncIterator]()
    for (let i = 0; i < 100; i++) {
      await pieces?.next()
      await clock.sleep(1_000, signal)
    }
    return new Promise<HttpReply>(() => undefined)
  }
  const body = bodyOf(MIB, 1024)
  const { by, at } = (await outcome(clock, libraryHandler(send, clock).handle({ ...put, body }))) ?? {}
  expect(by).toMatchObject({
    code: 'timeout',
    message: expect.stringContaining('nothing moved for 60 s') as string,
  })
  expect(at).toBe(100_000 + 59_000)
})

it('an answer that its caller drops is closed, and no longer watched', async () => {
  const clock = new VirtualClock(Date.UTC(2026, 10, 17))
  let closed = false
  const body = {
    [Symbol.asyncIterator]: () => ({
      next: async () => ({ done: false as const, value: Buffer.from('x') }),
      return: async () => {
        closed = true
        return { done: true as const, value: undefined }
      },
    }),
  } as HttpReply['body']
  const send: Transport = () => Promise.resolve({ status: 200, headers: {}, body })
  const { response } = await libraryHandler(send, clock).handle(
    { ...put, method: 'GET' },
    { abortSignal: never },
  )
  for await (const piece of response.body as Readable) if (piece) break
  await settled()
  expect(closed).toBe(true)
  expect(clock.advance(clock.now() + 60 * MINUTE)).toBe(false)
})

it('an upload that is called stored before all of it was sent is not stored', async () => {
  const clock = new VirtualClock(Date.UTC(2026, 10, 17))
  const hasty =
    (pieces: number): Transport =>
    async ({ stream }) => {
      const taken = stream?.[Symbol.asyncIterator]()
      for (let i = 0; i < pieces; i++) await taken?.next()
      return { status: 200, headers: { etag: '"e"' }, body: nothing() }
    }
  const upload = (pieces: number) =>
    libraryHandler(hasty(pieces), clock).handle({
      ...put,
      headers: { 'Content-Length': String(MIB) },
      body: bodyOf(MIB, MIB / 4),
    })
  await expect(upload(3)).rejects.toMatchObject({
    code: 'bad_reply',
    message: expect.stringContaining(`answered 200 after ${(3 * MIB) / 4} of ${MIB} bytes`) as string,
  })
  expect(await upload(4)).toMatchObject({ response: { statusCode: 200 } })
})
