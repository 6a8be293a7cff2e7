// A body under its limits: capped after decompression, closed when it is dropped.
import { gzipSync } from 'node:zlib'
import { expect, it } from 'vitest'
import { ConnectorError } from '../../../../src/core/errors.ts'
import { readBody } from '../../../../src/sources/http/reply.ts'
import { Deadline } from '../../../../src/sources/http/deadline.ts'
import type { BodyLimits } from '../../../../src/sources/http/deadline.ts'
import { VirtualClock, settled } from '../../../simulation/virtual-clock.ts'

const limits: BodyLimits = {
  capBytes: 10_000,
  totalMs: 60_000,
  wholeBytes: 1_000,
  idleMs: 30_000,
  minBytesPerSecond: 100,
}

/** Endless units; reports when it was dropped. */
function endless(unit: Uint8Array) {
  const state = { sent: 0, left: false }
  const body = (async function* () {
    try {
      for (;;) {
        state.sent += unit.length
        yield unit
      }
    } finally {
      state.left = true
    }
  })()
  return { state, body }
}

async function read(body: AsyncIterable<Uint8Array>, headers: Record<string, string> = {}) {
  const deadline = new Deadline(new VirtualClock(0), limits, new AbortController().signal)
  let bytes = 0
  let error: unknown
  try {
    for await (const chunk of readBody({ status: 200, headers, body }, limits, deadline))
      bytes += chunk.length
  } catch (thrown) {
    error = thrown
  }
  deadline.close()
  return { bytes, error }
}

it('an endless body is cut at the cap and its connection closed', async () => {
  const { state, body } = endless(Buffer.alloc(1_024, ' '))
  const { bytes, error } = await read(body)
  await settled()
  expect(error).toMatchObject({ code: 'too_large' })
  expect(bytes).toBeLessThanOrEqual(limits.capBytes)
  expect(state.left).toBe(true)
})

it('a compressed body is capped by its decompressed size, and its connection closed', async () => {
  const unit = gzipSync(Buffer.alloc(2 ** 20, ' '))
  const { state, body } = endless(unit)
  const { error } = await read(body, { 'content-encoding': 'gzip' })
  expect(error).toMatchObject({ code: 'too_large' })
  for (let i = 0; i < 50 && !state.left; i++) await settled()
  expect(state.left).toBe(true)
  expect(state.sent).toBeLessThan(100 * unit.length)
})

it('a body just under the cap is read whole', async () => {
  const body = (async function* () {
    yield Buffer.alloc(limits.capBytes)
  })()
  expect(await read(body)).toEqual({ bytes: limits.capBytes, error: undefined })
})

it('an error that is not ours is passed on unchanged', async () => {
  const body = (async function* (): AsyncGenerator<Uint8Array> {
    yield Buffer.from('[')
    throw new TypeError('a bug')
  })()
  expect((await read(body)).error).toBeInstanceOf(TypeError)
})

it('a deadline that was closed never fires', async () => {
  const clock = new VirtualClock(0)
  const deadline = new Deadline(clock, limits, new AbortController().signal)
  deadline.close()
  await settled()
  clock.advance(1e9)
  expect(deadline.signal.reason).not.toBeInstanceOf(ConnectorError)
})

it('a deadline counts only the time in which we wait for the server', async () => {
  const clock = new VirtualClock(0)
  const deadline = new Deadline(clock, limits, new AbortController().signal)
  deadline.pause()
  await passTime(clock, 10 * limits.totalMs)
  expect(deadline.signal.aborted).toBe(false)
  deadline.resume()
  await passTime(clock, limits.idleMs - 10)
  expect(deadline.signal.aborted).toBe(false)
  await passTime(clock, 2_000)
  expect(deadline.signal.aborted).toBe(true)
})

it('a reader that pauses longer than any limit still gets the rest of the body', async () => {
  const clock = new VirtualClock(0)
  const deadline = new Deadline(clock, limits, new AbortController().signal)
  const pieces = (async function* () {
    for (let i = 0; i < 3; i++) yield await Promise.resolve(Buffer.alloc(600))
  })()
  let bytes = 0
  for await (const chunk of readBody({ status: 200, headers: {}, body: pieces }, limits, deadline)) {
    bytes += chunk.length
    await passTime(clock, 10 * limits.totalMs)
  }
  expect(bytes).toBe(1_800)
  expect(deadline.signal.aborted).toBe(false)
  deadline.close()
})

it('a body is cut off at the overall time limit, however fast it is', async () => {
  const clock = new VirtualClock(0)
  const deadline = new Deadline(
    clock,
    { ...limits, longestMs: 5 * limits.totalMs },
    new AbortController().signal,
  )
  for (let at = 0; at < 6 * limits.totalMs; at += limits.idleMs / 2) {
    deadline.progress(2 ** 30)
    await passTime(clock, limits.idleMs / 2)
    expect(deadline.signal.aborted).toBe(clock.now() >= 5 * limits.totalMs)
  }
})

it('a deadline is reported as timeout, an abort from outside as abort', async () => {
  const clock = new VirtualClock(0)
  const outer = new AbortController()
  const late = new Deadline(clock, limits, outer.signal)
  const left = new Deadline(clock, limits, outer.signal)
  clock.advance(limits.idleMs)
  await settled()
  expect(late.signal.reason).toBeInstanceOf(ConnectorError)
  outer.abort()
  expect(left.signal.aborted).toBe(true)
})

async function passTime(clock: VirtualClock, ms: number): Promise<void> {
  const until = clock.now() + ms
  do await settled()
  while (clock.advance(until))
  await settled()
}
