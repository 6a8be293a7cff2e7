// Bodies of the history: generated while they are sent,
// of any size, with the same faults as stored bodies.
import { gunzipSync } from 'node:zlib'
import { request } from 'undici'
import { afterEach, describe, expect, it } from 'vitest'
import { listenMock } from '../../../src/mock/listen.ts'
import type { Listening } from '../../../src/mock/listen.ts'
import type { MockOptions } from '../../../src/mock/mock.ts'
import { begin, call } from './caller.ts'
import { bearer, START, context } from './stage.ts'

const MIB = 2 ** 20
const limits = { history: 0 }

const span = `?start_time=${START / 1000 - 86_400}&end_time=${START / 1000}`
const path = `/api/v2/history/query${span}`

/** This many questions in the last hour. */
function asked(count: number, options: Omit<MockOptions, 'clock'> = {}) {
  const made = context({ limits, ...options })
  for (let n = 0; n < count; n++) made.mock.add({ at: START - 3_600_000 + n * 1000 })
  return made
}

/** The bytes received, and how the answer ended. */
async function drained(mock: ReturnType<typeof asked>['mock'], target = path) {
  const reply = await begin(mock, target)
  const pieces: Uint8Array[] = []
  let code = ''
  try {
    for await (const piece of reply.body) pieces.push(piece)
  } catch (error) {
    code = (error as { code: string }).code
  }
  return { reply, code, bytes: Buffer.concat(pieces) }
}

const shown = (mock: ReturnType<typeof asked>['mock']) =>
  mock.history().filter(({ versions }) => versions.some(({ shownBy }) => shownBy.length > 0)).length

let listening: Listening | undefined
afterEach(async () => {
  await listening?.close()
  listening = undefined
})

describe('bodies of the history', () => {
  it('a response text has the configured length, in valid JSON, and is the same each time', async () => {
    const bytes = 200_000
    const { mock } = asked(8, { switches: { history_event_bytes: bytes, history_order: 'ascending' } })
    const { text, headers } = await call(mock, path)
    const { events } = JSON.parse(text) as { events: { response: string }[] }
    expect(events).toHaveLength(8)
    for (const { response } of events) expect(response.length).toBeGreaterThan(bytes)
    expect(headers['content-length']).toBeUndefined()
    expect((await call(mock, path)).text).toBe(text)
    const [, truth] = mock.history()
    expect(text).toContain(Buffer.from(truth?.versions[0]?.raw ?? []).toString())
    expect((await call(mock, `/api/v2/history/usage${span}`)).bytes.length).toBeLessThan(8000)
  })

  it('a small answer sends its length', async () => {
    const { mock } = asked(3)
    const { headers, bytes } = await call(mock, path)
    expect(headers['content-length']).toBe(String(bytes.length))
  })

  it('an answer of half a gigabyte is sent in limited memory', async () => {
    const { mock } = asked(512, { switches: { history_event_bytes: MIB } })
    const before = process.memoryUsage()
    let [bytes, pieces, most] = [0, 0, 0]
    for await (const piece of (await begin(mock, path)).body) {
      bytes += piece.length
      if (pieces++ % 100 > 0) continue
      const { heapUsed, external } = process.memoryUsage()
      most = Math.max(most, heapUsed + external - before.heapUsed - before.external)
    }
    expect(bytes).toBeGreaterThan(512 * MIB)
    expect(most).toBeLessThan(64 * MIB)
    expect(shown(mock)).toBe(512)
  })

  it('HTTP sends the same bytes, at the reader’s pace', async () => {
    const { mock } = asked(40, { switches: { history_event_bytes: MIB, history_order: 'ascending' } })
    listening = await listenMock(mock, { port: 0, host: '127.0.0.1' })
    const { body, headers } = await request(listening.url + path, { headers: bearer })
    expect(headers['transfer-encoding']).toBe('chunked')
    const inMemory = await call(mock, path)
    expect(Buffer.from(await body.arrayBuffer()).equals(inMemory.bytes)).toBe(true)
    await expect.poll(() => mock.requests[0]?.whole).toBe(true)
  })

  it('a compressed answer is one gzip member with the same bytes', async () => {
    const { mock } = asked(20, { switches: { history_event_bytes: 100_000, history_order: 'ascending' } })
    const plain = await call(mock, path)
    mock.setSwitches({ gzip: 'always' })
    const packed = await call(mock, path)
    expect(packed.headers['content-encoding']).toBe('gzip')
    expect(packed.bytes.length).toBeLessThan(plain.bytes.length / 5)
    expect(gunzipSync(packed.bytes).equals(plain.bytes)).toBe(true)
  })
})

describe('faults in bodies of the history', () => {
  const whole = async () =>
    (await call(asked(20, { switches: { history_order: 'ascending' } }).mock, path)).bytes
  const struck = (fault: object, switches: object = {}) =>
    asked(20, { faults: fault, switches: { history_order: 'ascending', ...switches } })

  it('a cut and a stall end the body midway, and nothing counts as shown', async () => {
    const expected = await whole()
    for (const fault of [{ cut: 1 }, { stalled: 1 }]) {
      const { mock, clock } = struck(fault)
      const before = clock.now()
      const { code, bytes, reply } = await drained(mock)
      expect(code).toBe('unreachable')
      expect(bytes.equals(expected.subarray(0, bytes.length))).toBe(true)
      expect(bytes.length / expected.length).toBeGreaterThan(0.1)
      expect(bytes.length / expected.length).toBeLessThan(0.9)
      expect(reply.headers['content-length']).toBe(String(expected.length))
      expect(clock.now() - before).toBe('stalled' in fault ? 3_600_000 : 0)
      expect(shown(mock)).toBe(0)
    }
  })

  it('a cut may hit the middle of one huge event', async () => {
    const { mock } = asked(1, { faults: { cut: 1 }, switches: { history_event_bytes: 4 * MIB } })
    const { code, bytes } = await drained(mock)
    expect(code).toBe('unreachable')
    expect(bytes.length / MIB).toBeCloseTo(2, 0)
  })

  it('truncated sends half with a matching length', async () => {
    const { mock } = struck({ truncated: 1 })
    const { code, bytes } = await drained(mock)
    expect(code).toBe('')
    expect(() => JSON.parse(bytes.toString()) as unknown).toThrow()
    expect(shown(mock)).toBe(0)
  })

  it('a cut of a compressed body leaves a gzip without its end', async () => {
    const { mock } = struck({ cut: 1 }, { gzip: 'always' })
    const { code, bytes } = await drained(mock)
    expect(code).toBe('unreachable')
    expect(() => gunzipSync(bytes)).toThrow(/unexpected end/)
  })

  it('slow sends the same bytes with pauses', async () => {
    const { mock, clock } = struck({ slow: 1 }, { slow_pause: 1000 })
    const before = clock.now()
    const { bytes } = await drained(mock)
    expect(bytes.equals(await whole())).toBe(true)
    expect(clock.now() - before).toBeGreaterThanOrEqual(10_000)
    expect(shown(mock)).toBe(20)
  })

  it('endless sends events for ever, or blanks if there is no event', async () => {
    for (const count of [0, 5]) {
      const { mock } = asked(count, { faults: { endless: 1 } })
      let text = ''
      for await (const piece of (await begin(mock, path)).body)
        if ((text += Buffer.from(piece).toString()).length > 200_000) break
      expect(text.startsWith('{"events":[')).toBe(true)
      expect(text.split('unique_usage_id').length > 20).toBe(count > 0)
    }
  })

  it('the other faults do what their description says', async () => {
    const ask = async (fault: object) => call(struck(fault).mock, path)
    expect((await ask({ wrong_type: 1 })).headers['content-type']).toBe('text/plain')
    expect((await ask({ wrong_type: 1 })).bytes.equals(await whole())).toBe(true)
    expect((await ask({ wrong_shape: 1 })).text).toBe('{"status":"ok","items":3}')
    expect(gunzipSync((await ask({ gzip: 1 })).bytes).equals(await whole())).toBe(true)
    expect((await ask({ empty_page: 1 })).text).toBe('{"events":[]}')
    expect((await ask({ duplicated: 1 })).text.split('unique_usage_id')).toHaveLength(26)
    const odd = await ask({ odd_element: 1 })
    expect((JSON.parse(odd.text) as { events: object[] }).events.at(-1)).toHaveProperty('request')
    expect((await ask({ error_500: 1 })).text).toBe('{"error":"Unexpected server error"}')
    await expect(ask({ reset: 1 })).rejects.toMatchObject({ code: 'unreachable' })
  })
})
