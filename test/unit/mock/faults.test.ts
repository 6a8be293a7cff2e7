// Each fault, in memory: what the client receives, and
// that nothing of a damaged answer counts as shown.
import { gunzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { faultNames, faults } from '../../../src/mock/switches.ts'
import { addMany, bearer, START, context } from './stage.ts'

const unreachable = expect.objectContaining({ code: 'unreachable' }) as Error
const ids = (text: string) => (JSON.parse(text) as { id: string }[]).map(({ id }) => id)

/** A workspace of `count` entries whose second request meets `fault`. */
function struck(fault: (typeof faultNames)[number], count = 40) {
  const own = context({ faults: { [fault]: { nth: [2] } } })
  const [first = '', ...rest] = addMany(own.mock, count)
  const path = `?from=${first}&take=10`
  const shown = () => own.mock.entries().filter(({ shownBy }) => shownBy.length > 0).length
  return { ...own, first, rest, path, shown }
}

describe('faults that replace the answer', () => {
  it.each([
    ['error_500', 500],
    ['unauthorized', 401],
    ['forbidden', 403],
    ['redirect', 302],
    ['storm_429', 429],
  ] as const)('%s answers %i and shows no entry', async (fault, status) => {
    const { mock, ask, path, shown } = struck(fault)
    mock.setSwitches({ self_audit: 'all' })
    expect((await ask(path)).status).toBe(200)
    const before = shown()
    expect((await ask(path)).status).toBe(status)
    expect(shown()).toBe(before)
    expect(mock.entries().filter(({ origin }) => origin === 'self')).toHaveLength(1)
    expect(mock.requests[1]).toMatchObject({ status, faults: [fault] })
  })

  it('a storm lasts for its configured time', async () => {
    const { clock, ask, path } = struck('storm_429')
    await ask(path)
    for (const at of [0, 45_000, 89_999]) {
      clock.set(START + at)
      expect((await ask(path)).status).toBe(429)
    }
    clock.set(START + 90_000)
    expect((await ask(path)).status).toBe(200)
  })

  it('a rate hits its share of requests, the same ones for the same seed; a window hits all within it', async () => {
    const statuses = async (seed: number) => {
      const { mock, ask } = context({ seed, faults: { error_500: 0.2 } })
      mock.add()
      const met: number[] = []
      for (let i = 0; i < 500; i++) met.push((await ask('/latest')).status)
      return met
    }
    const [one, again, other] = [await statuses(3), await statuses(3), await statuses(4)]
    expect(one).toEqual(again)
    expect(one).not.toEqual(other)
    const share = one.filter((status) => status === 500).length / 500
    expect(share).toBeGreaterThan(0.12)
    expect(share).toBeLessThan(0.28)
    const { clock, ask, mock } = context({ faults: { error_500: { from: START + 10, until: START + 20 } } })
    mock.add()
    const at = async (ms: number) => (clock.set(START + ms), (await ask('/latest')).status)
    expect([await at(9), await at(10), await at(19), await at(20)]).toEqual([200, 500, 500, 200])
    mock.setFault('error_500', 1)
    expect(await at(21)).toBe(500)
    mock.setFault('error_500', undefined)
    expect(await at(22)).toBe(200)
  })
})

describe('faults of pages', () => {
  it('repeated_page returns the page before once more', async () => {
    const { page, first, rest } = struck('repeated_page')
    expect(await page(first, 10)).toEqual(rest.slice(0, 10))
    expect(await page(rest[9] ?? '', 10)).toEqual(rest.slice(0, 10))
    expect(await page(rest[9] ?? '', 10)).toEqual(rest.slice(10, 20))
  })

  it('shuffled_page returns the same elements in another order', async () => {
    const { page, first, rest } = struck('shuffled_page')
    await page(first, 30)
    const bent = await page(first, 30)
    expect(bent).not.toEqual(rest.slice(0, 30))
    expect(bent.sort()).toEqual(rest.slice(0, 30).sort())
  })

  it('duplicated returns some elements twice; empty_page returns none', async () => {
    const twice = struck('duplicated')
    await twice.page(twice.first, 10)
    const bent = await twice.page(twice.first, 10)
    expect(bent).toHaveLength(13)
    expect([...new Set(bent)]).toEqual(twice.rest.slice(0, 10))
    const empty = struck('empty_page')
    await empty.page(empty.first, 10)
    expect(await empty.page(empty.first, 10)).toEqual([])
    expect(await empty.page(empty.first, 10)).toHaveLength(10)
  })

  it('purged removes the cursor’s entry and all older ones for good', async () => {
    const { ask, page, rest } = struck('purged')
    await page(rest[4] ?? '', 5)
    expect((await ask(`?from=${rest[9] ?? ''}&take=5`)).status).toBe(404)
    expect((await ask(`?from=${rest[9] ?? ''}&take=5`)).status).toBe(404)
    expect(JSON.parse((await ask('/earliest')).text)).toMatchObject({ log: { id: rest[10] } })
  })
})

describe('faults of bodies', () => {
  it('reset sends no answer, yet the request counts and leaves its entry', async () => {
    const { mock, ask, path, shown } = struck('reset')
    mock.setSwitches({ self_audit: 'all' })
    await ask(path)
    const before = shown()
    await expect(ask(path)).rejects.toEqual(unreachable)
    expect(shown()).toBe(before)
    expect(mock.requests[1]).toMatchObject({ status: 0, counted: true, whole: false, faults: ['reset'] })
    expect(mock.entries().filter(({ origin }) => origin === 'self')).toHaveLength(2)
  })

  it.each([
    ['cut', 0],
    ['stalled', 3_600_000],
  ] as const)('%s sends half the body, then breaks the connection after %i ms', async (fault, silence) => {
    const { mock, clock, ask, send, path, first, shown } = struck(fault)
    await ask(`?from=${first}&take=1`)
    const reply = await send(path)
    let length = 0
    const read = async () => {
      for await (const piece of reply.body) length += piece.length
    }
    await expect(read()).rejects.toEqual(unreachable)
    expect(length).toBe(Math.floor(Number(reply.headers['content-length']) / 2))
    expect(clock.now()).toBe(START + silence)
    expect(shown()).toBe(1)
    expect(mock.requests[1]?.whole).toBe(false)
  })

  it('truncated sends half a body with a matching length', async () => {
    const { ask, path, first, shown } = struck('truncated')
    await ask(`?from=${first}&take=1`)
    const { status, headers, bytes, text } = await ask(path)
    expect([status, Number(headers['content-length'])]).toEqual([200, bytes.length])
    expect(() => JSON.parse(text) as unknown).toThrow()
    expect(shown()).toBe(1)
  })

  it('slow sends everything, in pieces with pauses by the clock', async () => {
    const { clock, page, first, rest, shown } = struck('slow')
    await page(first, 1)
    expect(await page(first, 10)).toEqual(rest.slice(0, 10))
    expect(clock.now()).toBe(START + 19_000)
    expect(shown()).toBe(10)
  })

  it('endless repeats its elements for as long as the client reads', async () => {
    const { ask, send, path, first, shown } = struck('endless')
    await ask(`?from=${first}&take=1`)
    const reply = await send(path)
    let text = ''
    for await (const piece of reply.body) if ((text += Buffer.from(piece).toString()).length > 100_000) break
    const seen = ids(`${text}]`)
    expect(seen.length).toBeGreaterThan(100)
    expect(new Set(seen).size).toBe(10)
    expect(reply.headers['content-length']).toBeUndefined()
    expect(shown()).toBe(1)
  })

  it('gzip compresses without being asked, and counts as shown', async () => {
    const { ask, path, rest, first, shown } = struck('gzip')
    await ask(`?from=${first}&take=1`)
    const { headers, bytes } = await ask(path)
    expect(headers['content-encoding']).toBe('gzip')
    expect(ids(gunzipSync(bytes).toString())).toEqual(rest.slice(0, 10))
    expect(shown()).toBe(10)
  })

  it('gzip_bomb unpacks a kilobyte to a mebibyte, endlessly', async () => {
    const { ask, send, path } = struck('gzip_bomb')
    await ask(path)
    const reply = await send(path)
    const pieces: Uint8Array[] = []
    for await (const piece of reply.body) if (pieces.push(piece) === 4) break
    const packed = Buffer.concat(pieces)
    expect(gunzipSync(packed).length).toBe(3 * 2 ** 20 + 1)
    expect(packed.length).toBeLessThan(8192)
  })

  it('html, wrong_type and wrong_shape answer 200 with something that is no page', async () => {
    for (const [fault, type, start] of [
      ['html', 'text/html; charset=utf-8', '<!doctype'],
      ['wrong_type', 'text/plain', '['],
      ['wrong_shape', 'application/json', '{"status"'],
    ] as const) {
      const { ask, path, first, shown } = struck(fault)
      await ask(`?from=${first}&take=1`)
      const { status, headers, text } = await ask(path)
      expect([status, headers['content-type'], text.startsWith(start)]).toEqual([200, type, true])
      expect(Number(headers['content-length'])).toBe(Buffer.byteLength(text))
      expect(shown()).toBe(1)
    }
  })

  it('each works with compression that the client asked for', async () => {
    for (const fault of faultNames.filter((name) => faults[name].kind === 'body')) {
      const { mock, send, path } = struck(fault)
      mock.setSwitches({ gzip: 'asked' })
      const plain = await send(path)
      expect(plain.headers['content-encoding']).toBeUndefined()
      const asked = send(path, { ...bearer, 'accept-encoding': 'gzip' })
      if (fault === 'reset') await expect(asked).rejects.toEqual(unreachable)
      else if (fault !== 'endless') expect((await asked).headers['content-encoding']).toBe('gzip')
    }
  })
})

describe('faults of single entries', () => {
  const one = (fault: (typeof faultNames)[number], nth = [3]) => {
    const own = context({
      faults: { [fault]: { nth } },
      traffic: { entriesPerHour: 40, exotic: 0, since: START - 3_600_000 },
      switches: { deep_levels: 1000, huge_bytes: 50_000 },
    })
    own.clock.pass(1)
    return { ...own, entries: own.mock.entries(), entry: own.mock.entries()[3] }
  }

  it.each([
    ['no_id', (text: string) => !text.includes('"id":')],
    ['bad_time', (text: string) => text.includes('"timestamp":"the day before yesterday"')],
    ['too_deep', (text: string) => text.includes('['.repeat(1000))],
    ['not_an_object', (text: string) => typeof JSON.parse(text) === 'string'],
    ['huge', (text: string) => text.length > 50_000],
    ['poison', (text: string) => text.includes('"note":}')],
    ['invalid_utf8', (text: string) => text.includes('\ufffd')],
  ] as const)('%s hits only that entry, the same way at each read', async (fault, holds) => {
    const { ask, entries, entry } = one(fault)
    expect(entries.map(({ defect }) => defect).filter(Boolean)).toEqual([fault])
    expect(entry?.defect).toBe(fault)
    expect(holds(Buffer.from(entry?.raw ?? []).toString())).toBe(true)
    const before = entries[2]?.id ?? ''
    for (let i = 0; i < 2; i++) {
      const { bytes } = await ask(`?from=${before}&take=1`)
      expect(
        bytes.equals(Buffer.concat([Buffer.from('['), entry?.raw ?? Buffer.alloc(0), Buffer.from(']')])),
      ).toBe(true)
    }
  })

  it('poison makes its whole page invalid, and only the poisoned entry counts as shown', async () => {
    const { mock, ask, entries, entry } = one('poison')
    const { text } = await ask(`?from=${entries[0]?.id ?? ''}&take=6`)
    expect(() => JSON.parse(text) as unknown).toThrow()
    expect(
      mock
        .entries()
        .filter(({ shownBy }) => shownBy.length > 0)
        .map(({ id }) => id),
    ).toEqual([entry?.id])
  })

  it('late makes a share of entries visible after newer ones, within the limit', () => {
    const { mock } = context({
      faults: { late: 0.1 },
      switches: { late_by: 300_000 },
      traffic: { entriesPerHour: 100 },
    })
    const entries = mock.entries()
    const delays = entries.map(({ visibleAt, atUs }) => visibleAt - Math.floor(atUs / 1000))
    const late = delays.filter((delay) => delay > 0)
    expect(late.length / entries.length).toBeGreaterThan(0.07)
    expect(late.length / entries.length).toBeLessThan(0.13)
    expect(Math.max(...late)).toBeLessThanOrEqual(300_000)
  })
})
