// A range read that loses its cursor: it sends nothing twice and
// never ends early without a gap, also before the reach of `search`.
import { expect, test } from 'vitest'
import { DAY, MINUTE, SECOND, START } from '../../app/audit-harness.ts'
import { compared, jsonReply, openRangeSetup } from './range-setup.ts'
import type { RangeSetup } from './range-setup.ts'

const gone = () => jsonReply('{"error":"not found"}', 404)
const kindOf = (url: string) => (url.includes('from=') ? 'page' : (/audit\/(\w+)/.exec(url)?.[1] ?? ''))

/** `wrong` sees each request and how often its endpoint was requested before. */
const mistaken = (
  wrong: (kind: string, nth: number, url: string) => ReturnType<typeof jsonReply> | undefined,
) => {
  const asked = new Map<string, number>()
  const wrap: NonNullable<RangeSetup['wrap']> = (send) => (request, signal) => {
    const kind = kindOf(request.url)
    const nth = (asked.get(kind) ?? 0) + 1
    asked.set(kind, nth)
    const reply = wrong(kind, nth, request.url)
    return reply ? Promise.resolve(reply) : send(request, signal)
  }
  return wrap
}

const whole = { missing: 0, strange: 0, twice: 0, gaps: 0 }
const old = { from: START - 400 * DAY, to: START - 390 * DAY }
const young = { from: START - 20 * DAY, to: START - 10 * DAY }

/** In the span and after it, several per second. */
function fill(setup: ReturnType<typeof openRangeSetup>, from: number, count: number) {
  for (let i = 0; i < count; i++) setup.mock.add({ at: from + DAY + i * 300, visibleAt: 0 })
  setup.mock.add({ at: START - MINUTE, visibleAt: 0 })
}

const spans = [
  ['before the reach of search', old],
  ['within the reach of search', young],
] as const

test.each(
  spans.flatMap(([name, span]) =>
    [[3], [2, 4], [2, 3, 4], [2, 4, 7, 9]].map((nth) => [nth, name, span] as const),
  ),
)('a cursor purged for page %j is found again without duplicates, %s', async (nths, _name, span) => {
  const at = openRangeSetup({
    ...span,
    wrap: mistaken((kind, nth) => (kind === 'page' && nths.includes(nth) ? gone() : undefined)),
  })
  fill(at, span.from, 4_500)
  const { ids, gaps } = await at.readAll()
  expect({ ...compared(ids, at.expected()), gaps }).toEqual(whole)
})

test.each([
  ['before the reach of search', old, 300],
  ['within the reach of search, five a millisecond', young, 0.2],
] as const)(
  'a cursor purged between short pages is found again without duplicates, %s',
  async (_name, span, apart) => {
    let pages = 0
    const wrap: NonNullable<RangeSetup['wrap']> = (send) => (request, signal) => {
      if (kindOf(request.url) !== 'page') return send(request, signal)
      pages++
      if (pages === 9) return Promise.resolve(gone())
      const url = pages >= 3 && pages < 9 ? request.url.replace(/take=\d+/, 'take=10') : request.url
      return send({ ...request, url }, signal)
    }
    const at = openRangeSetup({ ...span, wrap })
    for (let i = 0; i < 4_500; i++) at.mock.add({ at: span.from + DAY + Math.floor(i * apart), visibleAt: 0 })
    at.mock.add({ at: START - MINUTE, visibleAt: 0 })
    const { ids, gaps } = await at.readAll()
    expect({ ...compared(ids, at.expected()), gaps }).toEqual(whole)
  },
)

test.each(spans)('a failing `latest` alone does not prevent the end of a range, %s', async (_name, span) => {
  const wrong = () => jsonReply('{"error":"no"}', 500)
  const at = openRangeSetup({
    ...span,
    wrap: mistaken((kind) => (kind === 'latest' ? wrong() : undefined)),
  })
  for (let i = 0; i < 30; i++) at.mock.add({ at: span.from + DAY + i * SECOND, visibleAt: 0 })
  const { ids } = await at.readAll()
  expect(compared(ids, at.expected())).toEqual({ missing: 0, strange: 0, twice: 0 })
})

test('an older entry shown out of order, after the lost cursor, does not count as sent', async () => {
  const id = '11111111-1111-4111-8111-111111111111'
  const strange = mistaken((kind, nth) => (kind === 'page' && nth === 3 ? gone() : undefined))
  let pages = 0
  const wrap: NonNullable<RangeSetup['wrap']> = (send) => async (request, signal) => {
    const reply = await strange(send)(request, signal)
    if (kindOf(request.url) !== 'page' || ++pages !== 7) return reply
    const chunks: Uint8Array[] = []
    for await (const chunk of reply.body) chunks.push(chunk)
    const [first, ...rest] = JSON.parse(Buffer.concat(chunks).toString()) as Record<string, unknown>[]
    const timestamp = new Date(old.from + DAY).toISOString().replace('Z', '000')
    return jsonReply(JSON.stringify([first, { ...first, id, timestamp }, ...rest]))
  }
  const at = openRangeSetup({ ...old, wrap })
  fill(at, old.from, 4_500)
  const { ids } = await at.readAll()
  expect(ids).toContain(id)
})

test.each(spans)('a wrongly empty page is no end, %s', async (_name, span) => {
  const at = openRangeSetup({
    ...span,
    wrap: mistaken((kind, nth) => (kind === 'page' && nth === 3 ? jsonReply('[]') : undefined)),
  })
  fill(at, span.from, 4_500)
  const { ids, gaps } = await at.readAll()
  expect({ ...compared(ids, at.expected()), gaps }).toEqual(whole)
})

test.each(spans)('a wrongly empty page with a wrongly empty search is no end, %s', async (_name, span) => {
  const at = openRangeSetup({
    ...span,
    wrap: mistaken((kind, nth) => {
      if (kind === 'page' && nth === 3) return jsonReply('[]')
      return kind === 'search' && nth === (span === old ? 1 : 2) ? jsonReply('{}') : undefined
    }),
  })
  fill(at, span.from, 4_500)
  const { ids, gaps } = await at.readAll()
  expect({ ...compared(ids, at.expected()), gaps }).toEqual(whole)
})

const mute = [
  ['is null', () => jsonReply('null')],
  ['is an empty object', () => jsonReply('{}')],
  ['is a 404', () => gone()],
  ['breaks off', () => jsonReply('{"log":{"id":"abc","timest')],
] as const

test.each(spans.flatMap((span) => mute.map(([name, answer]) => [name, span[0], span[1], answer] as const)))(
  'a wrongly empty page with a `latest` that %s and a wrongly empty `search` is no end, %s',
  async (_name, _span, span, latest) => {
    const at = openRangeSetup({
      ...span,
      wrap: mistaken((kind, nth) => {
        if (kind === 'page' && nth === 3) return jsonReply('[]')
        if (kind === 'search' && nth === 2) return jsonReply('{}')
        return kind === 'latest' && nth === 1 ? latest() : undefined
      }),
    })
    fill(at, span.from, 4_500)
    const { ids, gaps } = await at.readAll()
    expect({ ...compared(ids, at.expected()), gaps }).toEqual(whole)
  },
)

test.each(mute.slice(0, 3))(
  'if `latest` always %s, a span that `search` reaches ends normally, and an older one with a possible gap',
  async (_name, latest) => {
    for (const [span, reported] of [
      [young, 0],
      [old, 1],
    ] as const) {
      const at = openRangeSetup({
        ...span,
        wrap: mistaken((kind) => (kind === 'latest' ? latest() : undefined)),
      })
      for (let i = 0; i < 30; i++) at.mock.add({ at: span.from + DAY + i * 300, visibleAt: 0 })
      const { ids, gaps } = await at.readAll()
      expect({ ...compared(ids, at.expected()), gaps }).toEqual({ ...whole, gaps: reported })
    }
  },
)

test.each(spans)(
  'a lost cursor that is wrongly not found is no end if `latest` is wrongly empty, %s',
  async (_name, span) => {
    let lost = false
    const at = openRangeSetup({
      ...span,
      wrap: (send) => {
        const asked = { start: 0, latest: 0 }
        return (request, signal) => {
          const kind = kindOf(request.url)
          if (kind === 'page' && !lost && at.read.ids.length > 1_500) {
            lost = true
            return Promise.resolve(gone())
          }
          if (lost && ['search', 'earliest'].includes(kind) && ++asked.start === 1)
            return Promise.resolve(jsonReply('{}'))
          if (lost && kind === 'latest' && ++asked.latest === 1) return Promise.resolve(jsonReply('{}'))
          return send(request, signal)
        }
      },
    })
    fill(at, span.from, 4_500)
    const { ids, gaps } = await at.readAll()
    expect({ ...compared(ids, at.expected()), gaps }).toEqual(whole)
    expect(lost).toBe(true)
  },
)

test.each(spans)(
  'a first search that wrongly finds nothing is no end if `latest` breaks off, %s',
  async (_name, span) => {
    const at = openRangeSetup({
      ...span,
      wrap: mistaken((kind, nth) => {
        if (['search', 'earliest'].includes(kind) && nth === 1) return jsonReply('{}')
        return kind === 'latest' && nth === 1 ? jsonReply('{"log":{"id":"abc","timest') : undefined
      }),
    })
    fill(at, span.from, 30)
    const { ids, gaps } = await at.readAll()
    expect({ ...compared(ids, at.expected()), gaps }).toEqual(whole)
  },
)

test.each(spans)(
  'a start that is never found although `latest` shows more is a possible gap, %s',
  async (_name, span) => {
    const at = openRangeSetup({
      ...span,
      wrap: mistaken((kind) => (['search', 'earliest'].includes(kind) ? jsonReply('{}') : undefined)),
    })
    fill(at, span.from, 30)
    expect(await at.readAll()).toMatchObject({ ids: [], gaps: 1 })
  },
)

test.each(spans)('a first search that wrongly finds nothing is no end, %s', async (_name, span) => {
  const at = openRangeSetup({
    ...span,
    wrap: mistaken((kind, nth) =>
      ['search', 'earliest'].includes(kind) && nth === 1 ? jsonReply('{}') : undefined,
    ),
  })
  fill(at, span.from, 30)
  const { ids, gaps } = await at.readAll()
  expect({ ...compared(ids, at.expected()), gaps }).toEqual(whole)
})

test.each(spans)('a wrongly empty page in the last second of the span is no end, %s', async (_name, span) => {
  const at = openRangeSetup({
    ...span,
    wrap: mistaken((kind, nth) => (kind === 'page' && nth === 2 ? jsonReply('[]') : undefined)),
  })
  for (let i = 0; i < 1_500; i++) at.mock.add({ at: span.to - SECOND + Math.floor(i / 2), visibleAt: 0 })
  at.mock.add({ at: span.to + MINUTE, visibleAt: 0 })
  const { ids, gaps } = await at.readAll()
  expect({ ...compared(ids, at.expected()), gaps }).toEqual(whole)
})

test('an empty page is the end of the span if `search` shows that the next entry is after it', async () => {
  const at = openRangeSetup({
    ...young,
    switches: { from: 'exclusive', page_cap: 29 },
    wrap: mistaken((kind, nth) => (kind === 'page' && nth > 1 ? jsonReply('[]') : undefined)),
  })
  fill(at, young.from, 30)
  const { ids, gaps } = await at.readAll()
  expect({ ...compared(ids, at.expected()), gaps }).toEqual(whole)
})

test('if no page leads on before the reach of search, reading continues where search reaches, with a gap', async () => {
  const span = { from: START - 370 * DAY, to: START - 300 * DAY }
  let dead = ''
  const at = openRangeSetup({
    ...span,
    wrap: mistaken((_kind, _nth, url) => (dead !== '' && url.includes(dead) ? gone() : undefined)),
  })
  for (let i = 0; i < 3_000; i++) at.mock.add({ at: span.from + i * MINUTE, visibleAt: 0 })
  // No page leads on from where the first page ends.
  dead = at.mock.entries()[1_000]?.id ?? ''
  const later = at.mock.add({ at: START - 350 * DAY + SECOND, visibleAt: 0 })
  const { ids, gaps } = await at.readAll()
  const { twice, strange } = compared(ids, at.expected())
  expect({ twice, strange, reported: gaps > 0, later: ids.includes(later.id) }).toEqual({
    twice: 0,
    strange: 0,
    reported: true,
    later: true,
  })
})

test('in a span that search does not reach, a dead cursor is a gap', async () => {
  let dead = ''
  const at = openRangeSetup({
    ...old,
    wrap: mistaken((_kind, _nth, url) => (dead !== '' && url.includes(dead) ? gone() : undefined)),
  })
  fill(at, old.from, 3_000)
  dead = at.mock.entries()[1_000]?.id ?? ''
  const { ids, gaps } = await at.readAll()
  const { twice } = compared(ids, at.expected())
  expect({ twice, reported: gaps > 0 }).toEqual({ twice: 0, reported: true })
})

test('an entry that no page ever leads on from is tried several times, then skipped as a gap', async () => {
  const dead = { id: 'nobody' }
  const at = openRangeSetup({
    ...young,
    // The first one by time, and a page that ends at the dead one.
    switches: { page_cap: 10 },
    wrap: mistaken((kind, _nth, url) => (kind === 'page' && url.includes(dead.id) ? gone() : undefined)),
  })
  fill(at, young.from, 10)
  dead.id = at.mock.add({ at: young.from + 2 * DAY, visibleAt: 0 }).id
  for (let i = 1; i <= 5; i++) at.mock.add({ at: young.from + 2 * DAY + i * SECOND, visibleAt: 0 })
  const { ids, gaps, steps } = await at.readAll()
  expect({ ...compared(ids, at.expected()), gaps }).toEqual({ ...whole, gaps: 1 })
  expect(steps).toBeLessThan(30)
})
