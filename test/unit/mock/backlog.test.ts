// The prepared backlog: its pages are ranges of one buffer.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { uuidStream } from '../../../src/mock/random.ts'
import { START, context } from './stage.ts'

const COUNT = 2500
const prepared = (switches = {}) =>
  context({ traffic: { backlog: COUNT, since: START - 86_400_000 }, switches })

describe('a backlog', () => {
  it('is read page by page from earliest to an empty page, each entry once, with the bytes of the ground truth', async () => {
    const { mock, ask } = prepared()
    const truth = mock.entries()
    expect(truth).toHaveLength(COUNT)
    const earliest = await ask('/earliest')
    expect(earliest.text).toBe(`{"log":${Buffer.from(truth[0]?.raw ?? []).toString()}}`)
    let next = 1
    while (true) {
      const { bytes, headers } = await ask(`?from=${truth[next - 1]?.id ?? ''}&take=1000`)
      const entries = JSON.parse(bytes.toString()) as { id: string }[]
      const expected = truth.slice(next, next + 1000)
      expect(entries.map(({ id }) => id)).toEqual(expected.map(({ id }) => id))
      const raws = expected.map(({ raw }) => Buffer.from(raw).toString())
      expect(bytes.toString()).toBe(`[${raws.join(',')}]`)
      expect(Number(headers['content-length'])).toBe(bytes.length)
      if (entries.length === 0) break
      next += entries.length
    }
    expect(next).toBe(COUNT)
    const after = mock.entries()
    expect(after[0]?.shownBy).toEqual(['earliest'])
    expect(after.slice(1).every(({ shownBy, shownAt }) => shownBy[0] === 'page' && shownAt === START)).toBe(
      true,
    )
  })

  it('answers search, latest and log_type', async () => {
    const { mock, ask, page } = prepared()
    const truth = mock.entries()
    expect((await ask('/latest')).text).toContain(truth.at(-1)?.id)
    const second = Math.ceil((truth[1200]?.atUs ?? 0) / 1e6)
    const found = truth.find(({ atUs }) => atUs >= second * 1e6)
    expect((await ask(`/search?time=${second}`)).text).toContain(found?.id)
    const logins = truth.filter(({ type }) => type === 'auth:login')
    expect(logins.length).toBeGreaterThan(20)
    const [first, ...rest] = logins
    const { text } = await ask(`?from=${first?.id ?? ''}&take=7&log_type=auth:login`)
    expect((JSON.parse(text) as { id: string }[]).map(({ id }) => id)).toEqual(
      rest.slice(0, 7).map(({ id }) => id),
    )
    expect((await ask('/latest?log_type=auth:login')).text).toContain(logins.at(-1)?.id)
    expect((await ask('/earliest?log_type=no:such')).status).toBe(404)
    expect(await page(truth[COUNT - 1]?.id ?? '')).toEqual([])
  })

  it('is followed by later entries, audited reads included', async () => {
    const { mock, page } = prepared({ self_audit: 'all' })
    const truth = mock.entries()
    const from = truth[COUNT - 3]?.id ?? ''
    expect(await page(from)).toEqual(truth.slice(COUNT - 2).map(({ id }) => id))
    const added = mock.add()
    const self = mock.entries().find(({ origin }) => origin === 'self')
    expect(await page(from)).toEqual([...truth.slice(COUNT - 2).map(({ id }) => id), self?.id, added.id])
  })

  it('can be purged and damaged like any other', async () => {
    const { mock, ask, page } = prepared()
    const truth = mock.entries()
    mock.purgeBefore(Math.floor((truth[1000]?.atUs ?? 0) / 1000))
    expect((await ask(`?from=${truth[10]?.id ?? ''}&take=10`)).status).toBe(404)
    mock.setFault('shuffled_page', 1)
    const bent = await page(truth[1100]?.id ?? '', 50)
    expect(bent.sort()).toEqual(
      truth
        .slice(1101, 1151)
        .map(({ id }) => id)
        .sort(),
    )
  })
})

describe('uuids', () => {
  it('are well formed, unique, and different for each seed and name', () => {
    fc.assert(
      fc.property(fc.integer(), fc.nat(0xffffffff), (seed, index) => {
        const id = uuidStream(seed, 'a')(index)
        expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
        expect(uuidStream(seed, 'b')(index)).not.toBe(id)
        expect(uuidStream(seed + 1, 'a')(index)).not.toBe(id)
      }),
    )
    const ids = uuidStream(1, 'a')
    expect(new Set(Array.from({ length: 100_000 }, (_, i) => ids(i))).size).toBe(100_000)
  })
})
