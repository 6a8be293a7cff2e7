// Members of an object found in its bytes, and an entry made compact by leaving some out.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { compactEntry, eachMember, stringAt } from '../../../src/core/json.ts'

const text = (bytes: Uint8Array | undefined) => Buffer.from(bytes ?? []).toString()

interface Told {
  readonly key: string
  readonly value: string
}

function membersOf(json: string): Told[] {
  const raw = Buffer.from(json)
  const reported: Told[] = []
  eachMember(raw, ({ keyStart, keyEnd, valueStart, valueEnd }) => {
    reported.push({ key: stringAt(raw, keyStart, keyEnd), value: raw.toString('utf8', valueStart, valueEnd) })
  })
  return reported
}

const space = fc.constantFrom('', '', ' ', '\t ', '   ')
const anyString = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 12 }),
  fc.constantFrom(
    '"',
    '\\',
    '\\\\"',
    '"},{"',
    ']',
    '\ud800',
    '\\"'.repeat(40),
    'x'.repeat(80),
    'y'.repeat(47) + '"z',
  ),
)
const written = anyString.chain((value) =>
  fc.constantFrom(
    JSON.stringify(value),
    `"${Array.from({ length: value.length }, (_, i) => `\\u${value.charCodeAt(i).toString(16).padStart(4, '0')}`).join('')}"`,
  ),
)
const scalar = fc.constantFrom('0', '-1.5e+300', '12345678901234567890', 'true', 'false', 'null')
const { value } = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    scalar,
    written,
    fc
      .tuple(space, fc.array(tie('value'), { maxLength: 4 }))
      .map(([gap, all]) => `[${gap}${all.join(`${gap},`)}]`),
    fc
      .tuple(space, fc.array(fc.tuple(written, tie('value')), { maxLength: 4 }))
      .map(([gap, all]) => `{${gap}${all.map(([key, one]) => `${key}${gap}:${one}`).join(',')}}`),
  ),
}))

interface Wanted {
  readonly key: string
  readonly value: string
  readonly gaps: readonly string[]
}

const names = fc.constantFrom('id', 'timestamp', 'type', 'query', 'response', 'auditferry_dropped', 'data')
const key = fc.oneof(
  written,
  names.map((name) => JSON.stringify(name)),
)
const member: fc.Arbitrary<Wanted> = fc.record({ key, value, gaps: fc.tuple(space, space, space, space) })
const object = fc.array(member, { maxLength: 12 })

function jsonOf(members: readonly Wanted[]): string {
  const inside = members.map(({ key, value, gaps: [a, b, c, d] }) => `${a}${key}${b}:${c}${value}${d}`)
  return `{${inside.join(',')}}`
}

describe('members', () => {
  test('the members of any object come in order, duplicates too, with keys decoded and values as written', () => {
    fc.assert(
      fc.property(object, (members) => {
        const wanted = members.map(({ key, value }) => ({ key: JSON.parse(key) as string, value }))
        expect(membersOf(jsonOf(members))).toEqual(wanted)
      }),
      { numRuns: 1000 },
    )
  })

  test('an array, a scalar and nothing at all have no members', () => {
    for (const json of ['[{"a":1}]', '"a"', '', ' ', '{}', '{ }']) expect(membersOf(json)).toEqual([])
  })

  test('invalid JSON ends the search, wherever it is cut', () => {
    const json = '{"a":"x\\"y","b":[{"c":"d"}],"e" : 12 ,"f":{}}'
    for (let at = 0; at < json.length; at++) membersOf(json.slice(0, at))
  })

  test('512 levels, and strings of megabytes full of quotes and backslashes, are skipped', () => {
    const deep = '['.repeat(512) + ']'.repeat(512)
    const long = JSON.stringify('\\"'.repeat(1_000_000))
    expect(membersOf(`{"a":${deep},"b":${long},"c":1}`)).toEqual([
      { key: 'a', value: deep },
      { key: 'b', value: long },
      { key: 'c', value: '1' },
    ])
  })
})

interface Mark {
  readonly field: string
  readonly bytes: number
}

describe('a compact entry', () => {
  test('leaves out the largest field, names it and its size, and keeps all other bytes', () => {
    const big = JSON.stringify('r'.repeat(300))
    const raw = `{ "id":"a","query": "${'q'.repeat(100)}" , "response" :${big},"n":1e400 }`
    expect(text(compactEntry(Buffer.from(raw), 250))).toBe(
      `{ "id":"a","query": "${'q'.repeat(100)}" ,"n":1e400 ,"auditferry_dropped":[{"field":"response","bytes":302}]}`,
    )
  })

  test('leaves out as many fields as it must, of equals the first, and names them in their original order', () => {
    const part = JSON.stringify('x'.repeat(98))
    const raw = Buffer.from(
      `{"b":${part},"id":"a","c":${part},"a":${part.repeat(1)},"d":"${'y'.repeat(200)}"}`,
    )
    const reported = JSON.parse(text(compactEntry(raw, 320))) as Record<string, unknown>
    expect(Object.keys(reported)).toEqual(['id', 'c', 'a', 'auditferry_dropped'])
    expect(reported['auditferry_dropped']).toEqual([
      { field: 'b', bytes: 100 },
      { field: 'd', bytes: 202 },
    ])
  })

  test('is the entry itself if that fits', () => {
    const raw = Buffer.from('{"id":"a","auditferry_dropped":"by the API"}')
    expect(compactEntry(raw, raw.length)).toBe(raw)
  })

  test.each(['id', 'timestamp', 'type', 'unique_usage_id', 'utc_time'])(
    'keeps %s, however large',
    (field) => {
      const raw = Buffer.from(
        JSON.stringify({ a: 'x'.repeat(50), [field]: 'y'.repeat(500), b: 'z'.repeat(100) }),
      )
      expect(compactEntry(raw, 400)).toBeUndefined()
      expect(text(compactEntry(raw, 640))).toContain(`"${field}":"yyy`)
    },
  )

  test('keeps a kept field that is written with escapes', () => {
    const raw = Buffer.from(`{"\\u0069d":"${'y'.repeat(300)}","b":"${'z'.repeat(100)}"}`)
    expect(text(compactEntry(raw, 400))).toMatch(/^\{"\\u0069d":"y+","auditferry_dropped":\[\{"field":"b"/)
  })

  test('drops a mark that came with the entry', () => {
    const forged = '"auditferry_dropped":[{"field":"nothing","bytes":1}],"\\u0061uditferry_dropped":7'
    const raw = Buffer.from(`{"id":"a",${forged},"response":"${'z'.repeat(300)}"}`)
    expect(text(compactEntry(raw, 300))).toBe(
      '{"id":"a","auditferry_dropped":[{"field":"auditferry_dropped","bytes":31},' +
        '{"field":"\\u0061uditferry_dropped","bytes":1},{"field":"response","bytes":302}]}',
    )
  })

  test('keeps a field if naming it would take as many bytes', () => {
    const short = `"short":"${'s'.repeat(16)}"`
    const padded = `"padded":${' '.repeat(200)}"${'p'.repeat(14)}"`
    expect(text(compactEntry(Buffer.from(`{"id":"a",${short},${padded}}`), 120))).toBe(
      `{"id":"a",${short},"auditferry_dropped":[{"field":"padded","bytes":16}]}`,
    )
  })

  test('keeps the bytes around the object', () => {
    const raw = Buffer.from(` { "id":"a","b":"${'z'.repeat(300)}" } `)
    expect(text(compactEntry(raw, 100))).toBe(
      ` { "id":"a","auditferry_dropped":[{"field":"b","bytes":302}]} `,
    )
  })

  test('may have nothing left but the mark', () => {
    const raw = Buffer.from(`{"b":"${'z'.repeat(300)}"}`)
    expect(text(compactEntry(raw, 100))).toBe('{"auditferry_dropped":[{"field":"b","bytes":302}]}')
    expect(compactEntry(raw, 49)).toBeUndefined()
  })

  test('any entry becomes valid JSON of the size asked for, the mark names exactly what is gone, the rest is untouched', () => {
    const padded = fc.record({
      key,
      value: fc.oneof(
        value,
        fc.nat(400).map((n) => JSON.stringify('é'.repeat(n))),
      ),
    })
    const gaps = ['', ' ', '', ' ']
    fc.assert(
      fc.property(
        fc.array(padded, { maxLength: 12 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (all, share) => {
          const raw = Buffer.from(jsonOf(all.map((one) => ({ ...one, gaps }))))
          const maxBytes = Math.floor(raw.length * share)
          const compact = compactEntry(raw, maxBytes)
          if (compact === undefined || compact === raw) return
          expect(compact.length).toBeLessThanOrEqual(maxBytes)
          JSON.parse(text(compact))
          const before = membersOf(raw.toString())
          const after = membersOf(text(compact))
          const marks = JSON.parse(after.pop()?.value ?? '') as Mark[]
          const gone = marks.map(({ field, bytes }) => `${field}:${bytes}`)
          const left = before.filter(({ key, value }) => {
            const at = gone.indexOf(`${key}:${Buffer.byteLength(value)}`)
            if (at === 0) gone.shift()
            return at !== 0
          })
          expect(gone).toEqual([])
          expect(after).toEqual(left)
          const keys = new Set(after.map(({ key }) => key))
          for (const { key } of before)
            if (['id', 'timestamp', 'type'].includes(key)) expect(keys).toContain(key)
          expect(keys).not.toContain('auditferry_dropped')
        },
      ),
      { numRuns: 1000 },
    )
  })

  test('an entry of half a million fields takes bounded time', () => {
    const fields = Array.from({ length: 500_000 }, (_, i) => `"k${i}":"${'v'.repeat(24 + (i % 7))}"`)
    const raw = Buffer.from(`{"id":"a",${fields.join(',')}}`)
    const compact = compactEntry(raw, raw.length - 1000)
    expect(compact?.length).toBeLessThanOrEqual(raw.length - 1000)
    expect(compactEntry(raw, 8192)).toBeUndefined()
  })
})
