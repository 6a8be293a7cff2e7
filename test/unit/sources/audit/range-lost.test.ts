// A walk over the past that loses its place: nothing of it is sent twice, and it ends early nowhere without saying so, behind the reach of `search` too.
import { expect, test } from 'vitest'
import { DAY, MINUTE, SECOND, START } from '../../app/audit-harness.ts'
import { compared, jsonReply, openRangeSetup } from './range-setup.ts'
import type { RangeSetup } from './range-setup.ts'

const gone = () => jsonReply('{"error":"not found"}', 404)
const kindOf = (url: string) => (url.includes('from=') ? 'page' : (/audit\/(\w+)/.exec(url)?.[1] ?? ''))

/** `wrong` sees each request with how often its endpoint was asked before it. */
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

/** In the span and around it, several a second. */
function fill(setup: ReturnType<typeof openRangeSetup>, from: number, count: number) {
  for (let i = 0; i < count; i++) setup.mock.add({ at: from + DAY + i * 300, visibleAt: 0 })
  setup.mock.add({ at: START - MINUTE, visibleAt: 0 })
}

const spans = [
  ['behind the reach of search', old],
  ['within the reach of search', young],
] as const

test.each(
  spans.flatMap(([name, span]) =>
    [[3], [2, 4], [2, 3, 4], [2, 4, 7, 9]].map((nth) => [nth, name, span] as const),
  ),
)(
  'a place that is gone for page %j is found again, and nothing is sent twice, %s',
  async (nths, _name, span) => {
    const at = openRangeSetup({
      ...span,
      wrap: mistaken((kind, nth) => (kind === 'page' && nths.includes(nth) ? gone() : undefined)),
    })
    fill(at, span.from, 4_500)
    const { ids, gaps } = await at.walk()
    expect({ ...compared(ids, at.expected()), gaps }).toEqual(whole)
  },
)

test.each([
  ['behind the reach of search', old, 300],
  ['within the reach of search, five a millisecond', young, 0.2],
] as const)(
  'a place that is gone in the midst of short pages is found again, and nothing is sent twice, %s',
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
    const { ids, gaps } = await at.walk()
    expect({ ...compared(ids, at.expected()), gaps }).toEqual(whole)
  },
)

test.each(spans)(
  'a `latest` that fails by itself does not keep a walk from its end, %s',
  async (_name, span) => {
    const wrong = () => jsonReply('{"error":"no"}', 500)
    const at = openRangeSetup({
      ...span,
      wrap: mistaken((kind) => (kind === 'latest' ? wrong() : undefined)),
    })
    for (let i = 0; i < 30; i++) at.mock.add({ at: span.from + DAY + i * SECOND, visibleAt: 0 })
    const { ids } = await at.walk()
    expect(compared(ids, at.expected())).toEqual({ missing: 0, strange: 0, twice: 0 })
  },
)

test('an older entry that the log shows out of order, past the place that was lost, is none that was sent', async () => {
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
  const { ids } = await at.walk()
  expect(ids).toContain(id)
})

test.each(spans)('a page that is empty by mistake is no end, %s', async (_name, span) => {
  const at = openRangeSetup({
    ...span,
    wrap: mistaken((kind, nth) => (kind === 'page' && nth === 3 ? jsonReply('[]') : undefined)),
  })
  fill(at, span.from, 4_500)
  const { ids, gaps } = await at.walk()
  expect({ ...compared(ids, at.expected()), gaps }).toEqual(whole)
})

test.each(spans)(
  'an empty page and a search that finds nothing, by mistake both, are no end, %s',
  async (_name, span) => {
    const at = openRangeSetup({
      ...span,
      wrap: mistaken((kind, nth) => {
        if (kind === 'page' && nth === 3) return jsonReply('[]')
        return kind === 'search' && nth === (span === old ? 1 : 2) ? jsonReply('{}') : undefined
      }),
    })
    fill(at, span.from, 4_500)
    const { ids, gaps } = await at.walk()
    expect({ ...compared(ids, at.expected()), gaps }).toEqual(whole)
  },
)

const mute = [
  ['is null', () => jsonReply('null')],
  ['is an empty object', () => jsonReply('{}')],
  ['is a 404', () => gone()],
  ['breaks off', () => jsonReply('{"log":{"id":"abc","timest')],
] as const

test.each(spans.flatMap((span) => mute.map(([name, answer]) => [name, span[0], span[1], answer] as const)))(
  'an empty page is no end where `latest` %s, and `search` finds nothing, by mistake each, %s',
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
    const { ids, gaps } = await at.walk()
    expect({ ...compared(ids, at.expected()), gaps }).toEqual(whole)
  },
)

test.each(mute.slice(0, 3))(
  'where `latest` %s for ever the end of a span that `search` reaches is its end, and of an older one it is told as a possible gap',
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
      const { ids, gaps } = await at.walk()
      expect({ ...compared(ids, at.expected()), gaps }).toEqual({ ...whole, gaps: reported })
    }
  },
)

test.each(spans)(
  'a place that was lost and is not found by mistake is no end where `latest` shows nothing, %s',
  async (_name, span) => {
    let lost = false
    const at = openRangeSetup({
      ...span,
      wrap: (send) => {
        const asked = { place: 0, latest: 0 }
        return (request, signal) => {
          const kind = kindOf(request.url)
          if (kind === 'page' && !lost && at.read.ids.length > 1_500) {
            lost = true
            return Promise.resolve(gone())
          }
          if (lost && ['search', 'earliest'].includes(kind) && ++asked.place === 1)
            return Promise.resolve(jsonReply('{}'))
          if (lost && kind === 'latest' && ++asked.latest === 1) return Promise.resolve(jsonReply('{}'))
          return send(request, signal)
        }
      },
    })
    fill(at, span.from, 4_500)
    const { ids, gaps } = await at.walk()
    expect({ ...compared(ids, at.expected()), gaps }).toEqual(whole)
    expect(lost).toBe(true)
  },
)

test.each(spans)(
  'a first place that is not found by mistake is no end where `latest` breaks off, %s',
  async (_name, span) => {
    const at = openRangeSetup({
      ...span,
      wrap: mistaken((kind, nth) => {
        if (['search', 'earliest'].includes(kind) && nth === 1) return jsonReply('{}')
        return kind === 'latest' && nth === 1 ? jsonReply('{"log":{"id":"abc","timest') : undefined
      }),
    })
    fill(at, span.from, 30)
    const { ids, gaps } = await at.walk()
    expect({ ...compared(ids, at.expected()), gaps }).toEqual(whole)
  },
)

test.each(spans)(
  'a place that is never found although `latest` tells of more is a possible gap, %s',
  async (_name, span) => {
    const at = openRangeSetup({
      ...span,
      wrap: mistaken((kind) => (['search', 'earliest'].includes(kind) ? jsonReply('{}') : undefined)),
    })
    fill(at, span.from, 30)
    expect(await at.walk()).toMatchObject({ ids: [], gaps: 1 })
  },
)

test.each(spans)('a first place that is not found by mistake is no end, %s', async (_name, span) => {
  const at = openRangeSetup({
    ...span,
    wrap: mistaken((kind, nth) =>
      ['search', 'earliest'].includes(kind) && nth === 1 ? jsonReply('{}') : undefined,
    ),
  })
  fill(at, span.from, 30)
  const { ids, gaps } = await at.walk()
  expect({ ...compared(ids, at.expected()), gaps }).toEqual(whole)
})

test.each(spans)(
  'a page that is empty by mistake in the last second of the span is no end, %s',
  async (_name, span) => {
    const at = openRangeSetup({
      ...span,
      wrap: mistaken((kind, nth) => (kind === 'page' && nth === 2 ? jsonReply('[]') : undefined)),
    })
    for (let i = 0; i < 1_500; i++) at.mock.add({ at: span.to - SECOND + Math.floor(i / 2), visibleAt: 0 })
    at.mock.add({ at: span.to + MINUTE, visibleAt: 0 })
    const { ids, gaps } = await at.walk()
    expect({ ...compared(ids, at.expected()), gaps }).toEqual(whole)
  },
)

test('an empty page is the end of the span where `search` shows that what follows is behind it', async () => {
  const at = openRangeSetup({
    ...young,
    switches: { from: 'exclusive', page_cap: 29 },
    wrap: mistaken((kind, nth) => (kind === 'page' && nth > 1 ? jsonReply('[]') : undefined)),
  })
  fill(at, young.from, 30)
  const { ids, gaps } = await at.walk()
  expect({ ...compared(ids, at.expected()), gaps }).toEqual(whole)
})

test('from where no page leads on, behind the reach of search, the walk goes on where search reaches, and tells the gap', async () => {
  const span = { from: START - 370 * DAY, to: START - 300 * DAY }
  let dead = ''
  const at = openRangeSetup({
    ...span,
    wrap: mistaken((_kind, _nth, url) => (dead !== '' && url.includes(dead) ? gone() : undefined)),
  })
  for (let i = 0; i < 3_000; i++) at.mock.add({ at: span.from + i * MINUTE, visibleAt: 0 })
  // From where the first page ends there is no way on.
  dead = at.mock.entries()[1_000]?.id ?? ''
  const later = at.mock.add({ at: START - 350 * DAY + SECOND, visibleAt: 0 })
  const { ids, gaps } = await at.walk()
  const { twice, strange } = compared(ids, at.expected())
  expect({ twice, strange, reported: gaps > 0, later: ids.includes(later.id) }).toEqual({
    twice: 0,
    strange: 0,
    reported: true,
    later: true,
  })
})

test('of a span that search does not reach at all, a dead place is told as a gap', async () => {
  let dead = ''
  const at = openRangeSetup({
    ...old,
    wrap: mistaken((_kind, _nth, url) => (dead !== '' && url.includes(dead) ? gone() : undefined)),
  })
  fill(at, old.from, 3_000)
  dead = at.mock.entries()[1_000]?.id ?? ''
  const { ids, gaps } = await at.walk()
  const { twice } = compared(ids, at.expected())
  expect({ twice, reported: gaps > 0 }).toEqual({ twice: 0, reported: true })
})

test('an entry that no page ever leads on from is tried some times, and passed as a gap', async () => {
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
  const { ids, gaps, steps } = await at.walk()
  expect({ ...compared(ids, at.expected()), gaps }).toEqual({ ...whole, gaps: 1 })
  expect(steps).toBeLessThan(30)
})
