// The splitter's rules, one by one, on bodies made by hand.
import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { ConnectorError } from '../../../../src/core/errors.ts'
import { openSplitter } from '../../../../src/sources/splitter/splitter.ts'
import type { SplitterOptions } from '../../../../src/sources/splitter/splitter.ts'
import { drain, entry, everyByte, options, splitAll } from './splitter-fixtures.ts'

const sha256 = (bytes: string | Uint8Array) => createHash('sha256').update(bytes).digest('hex')
const time = '"timestamp":"2026-11-20T10:00:00"'

describe('entries', () => {
  test('an entry is the bytes that came: numbers above 2^53, escapes, white space and all', () => {
    const raw = `{ "id" : "a",\t"n":12345678901234567890.10e+00,  "s":"\\u00e9\\/é",${time},"type":"t","__proto__":{"id":"x"}}`
    const body = ` [ ${raw} , ${entry('b')} ] \n`
    for (const cuts of [[], everyByte(body)]) {
      const { entries, error } = splitAll(body, {}, cuts)
      expect(error).toBeUndefined()
      expect(entries.map((e) => e.raw)).toEqual([raw, entry('b')])
      expect(entries[0]).toMatchObject({ id: 'a', time: '2026-11-20T10:00:00', type: 't' })
    }
  })

  test.each([40, 4000])('types of %i bytes that differ in one of them are distinguished', (size) => {
    const types = Array.from({ length: 900 }, (_, i) => `${'a'.repeat(size - 9)}${i + 100}${'a'.repeat(6)}`)
    const list = [...types, ...types].map((type, i) => `{"id":"${i}",${time},"type":"${type}"}`)
    const { entries, groups } = splitAll(`[${list.join()}]`)
    expect(entries.map(({ type }) => type)).toEqual([...types, ...types])
    expect(groups.length).toBeGreaterThan(1)
  })

  test.each([
    ['x'.repeat(99), 16_384],
    ['é', 8192],
    ['\\u0061', 2731],
    ['\\n', 8192],
  ])(
    'of a type of megabytes, such as of %s, the beginning counts, cut in no character and no escape',
    (unit, length) => {
      const long = `t${unit.repeat(2e6 / unit.length)}`
      const { entries } = splitAll(`[{"id":"a",${time},"type":"${long}"},${entry('b')}]`)
      expect(entries[0]?.type).toBe((JSON.parse(`"${long}"`) as string).slice(0, length))
      expect(entries[0]?.raw).toContain(long)
    },
  )

  test('microseconds survive in the instant', () => {
    expect(splitAll(`[${entry('a')}]`).entries[0]?.at).toBe(Date.UTC(2026, 10, 20, 10) * 1000 + 1)
  })

  test('entries are found under a named key, whatever else the object has', () => {
    const body = `{"meta":{"events":[1,{"id":"no"}]},"x":[[${entry('no')}]],"\\u0065vents":[${entry('a')},${entry('b')}],"more":"events","z":[${entry('no')}]}`
    for (const cuts of [[], everyByte(body)]) {
      const { entries, quarantined, error } = splitAll(body, { arrayKey: 'events' }, cuts)
      expect(error).toBeUndefined()
      expect(quarantined).toEqual([])
      expect(entries.map((e) => e.id)).toEqual(['a', 'b'])
    }
  })

  test('an empty array has no entries', () => {
    expect(splitAll('[]')).toMatchObject({ entries: [], quarantined: [], error: undefined })
    expect(splitAll('{"events":[ ]}', { arrayKey: 'events' }).error).toBeUndefined()
  })

  test('of a repeated key the last one wins', () => {
    const { entries, quarantined } = splitAll(
      `[{"id":"a","id":"b",${time},"type":"x","type":"y"},{"id":"a",${time},"id":7},{"id":7,${time},"id":"c"}]`,
    )
    expect(entries.map((e) => [e.id, e.type])).toEqual([
      ['b', 'y'],
      ['c', ''],
    ])
    expect(quarantined.map((q) => q.reason)).toEqual(['no_id'])
  })

  test('only keys of the element itself count', () => {
    const { entries } = splitAll(`[{"data":{"id":"x","type":"x"},"id":"a","l":[{"id":"y"}],${time}}]`)
    expect(entries.map((e) => [e.id, e.type])).toEqual([['a', '']])
  })

  test('keys and values written with escapes read as JSON.parse reads them', () => {
    const body = `[{"\\u0069d":"\\u0061\\n\\"b\\"","timestam\\u0070":"2026-11-20\\u005410:00:00","typ\\u0065":"user\\u003alogin"},${entry('c')}]`
    for (const cuts of [[], everyByte(body)]) {
      const { entries } = splitAll(body, {}, cuts)
      expect(entries[0]).toMatchObject({ id: 'a\n"b"', time: '2026-11-20T10:00:00', type: 'user:login' })
      expect(entries[0]?.raw).toBe(body.slice(1, body.indexOf(`,${entry('c')}`)))
      expect(entries[1]?.id).toBe('c')
    }
  })

  test('a lone surrogate passes; as an id it stays as it is written, so that two of them differ', () => {
    const { entries, error } = splitAll(`[{"id":"\\ud800",${time},"x":"\\udfff"},{"id":"\\ud801",${time}}]`)
    expect(error).toBeUndefined()
    expect(entries.map((e) => e.id)).toEqual(['\\ud800', '\\ud801'])
  })

  test('a type that is missing or no string is empty, not malformed', () => {
    const { entries, quarantined } = splitAll(`[{"id":"a",${time}},{"id":"b",${time},"type":{"type":"x"}}]`)
    expect(entries.map((e) => e.type)).toEqual(['', ''])
    expect(quarantined).toEqual([])
  })

  test('each type of a group is named once', () => {
    const body = `[${Array.from({ length: 300 }, (_, i) => `{"id":"${i}",${time},"type":"t${i % 7}"}`).join()}]`
    const { groups, entries } = splitAll(body)
    expect(groups[0]?.entries.types).toEqual(['t0', 't1', 't2', 't3', 't4', 't5', 't6'])
    expect(entries.every((e, i) => e.type === `t${i % 7}`)).toBe(true)
  })

  test('line breaks between tokens are removed, other white space and the pushed bytes stay', () => {
    const raw = `{\r\n\t"id": "a",\n  ${time},\r"text": "x\\ny", "type":\n"t"\n}`
    const body = Buffer.from(`[\n${raw},\n${entry('b')}\n]`)
    const before = Buffer.from(body)
    const splitter = openSplitter(options)
    splitter.push(body)
    splitter.end()
    expect(body).toEqual(before)
    expect(drain(splitter)[0]?.entries.count).toBe(2)
    for (const cuts of [[], [20], everyByte(body)]) {
      const { entries } = splitAll(body, {}, cuts)
      expect(entries.map((e) => e.raw)).toEqual([raw.replace(/[\r\n]/g, ''), entry('b')])
      expect(entries[0]).toMatchObject({ id: 'a', type: 't', time: '2026-11-20T10:00:00' })
    }
  })
})

describe('malformed elements are quarantined whole, the rest continues', () => {
  test.each([
    ['not_an_object', '17'],
    ['not_an_object', 'null'],
    ['not_an_object', '"id"'],
    ['not_an_object', '-0.5e3'],
    ['not_an_object', '[{"id":"a"}]'],
    ['no_id', `{${time}}`],
    ['no_id', '{}'],
    ['no_id', `{"id":"",${time}}`],
    ['no_id', `{"id":5,${time}}`],
    ['no_time', '{"id":"a"}'],
    ['no_time', '{"id":"a","timestamp":1700000000}'],
    ['no_time', '{"id":"a","timestamp":"yesterday"}'],
    ['no_time', '{"id":"a",\n"timestamp":\n"2026-13-01T00:00:00"}'],
    ['too_deep', `{"id":"a",${time},"d":${'['.repeat(512)}${']'.repeat(512)}}`],
  ])('%s: %s', (reason, element) => {
    const body = `[${entry('before')},${element},${entry('after')}]`
    for (const cuts of [[], everyByte(body)]) {
      const { entries, quarantined, error } = splitAll(body, {}, cuts)
      expect(error).toBeUndefined()
      expect(entries.map((e) => e.id)).toEqual(['before', 'after'])
      expect(quarantined).toHaveLength(1)
      expect(quarantined[0]).toMatchObject({
        reason,
        totalBytes: element.length,
        sha256: sha256(element),
      })
      expect(Buffer.from(quarantined[0]?.bytes ?? []).toString()).toBe(element)
    }
  })

  test('nesting up to the limit is accepted', () => {
    const element = `{"id":"a",${time},"d":${'['.repeat(511)}${']'.repeat(511)}}`
    expect(splitAll(`[${element}]`).entries).toHaveLength(1)
    expect(splitAll(`{"events":[${element}]}`, { arrayKey: 'events' }).entries).toHaveLength(1)
  })

  test('a hundred thousand levels neither overflow the stack nor break the rest of the page', () => {
    const deep = '[{"a":'.repeat(50_000)
    const element = `{"id":"a",${time},"d":${deep}1${'}]'.repeat(50_000)}}`
    const { entries, quarantined, error } = splitAll(`[${element},${entry('b')}]`)
    expect(error).toBeUndefined()
    expect(quarantined.map((q) => q.reason)).toEqual(['too_deep'])
    expect(entries.map((e) => e.id)).toEqual(['b'])
  })

  test('millions of levels refuse the page', () => {
    const { error } = splitAll('['.repeat(5_000_000))
    expect(error).toMatchObject({ code: 'bad_reply' })
    expect(error?.message).toContain('levels deep')
  })

  test.each(['\xff', '\xc3', '\xed\xa0\x80', '\xc0\xaf', '\xf5\x80\x80\x80'])(
    'invalid UTF-8 anywhere in an element: %j',
    (bad) => {
      const element = Buffer.from(`{"id":"a",${time},"x":"${bad}"}`, 'latin1')
      const good = Buffer.from(entry('é', ',"x":"日本😀"'))
      for (const line of ['', '\n']) {
        const malformed = Buffer.concat([element.subarray(0, -1), Buffer.from(`${line}}`)])
        const body = Buffer.concat([
          Buffer.from('['),
          good,
          Buffer.from(','),
          malformed,
          Buffer.from(','),
          Buffer.from(entry('b')),
          Buffer.from(']'),
        ])
        const { entries, quarantined, error } = splitAll(body)
        expect(error).toBeUndefined()
        expect(entries.map((e) => e.id)).toEqual(['é', 'b'])
        expect(quarantined).toHaveLength(1)
        expect(quarantined[0]).toMatchObject({ reason: 'invalid_utf8', sha256: sha256(malformed) })
        expect(Buffer.from(quarantined[0]?.bytes ?? [])).toEqual(malformed)
      }
    },
  )

  test('one over the limit leaves its first MiB, its length and its hash, however it is cut', () => {
    const element = entry('big', `,"x":"${'0123456789'.repeat(300_000)}"`)
    const body = `[${entry('before')},${element},${entry('after')}]`
    const steps = Array.from({ length: 100 }, (_, i) => (i + 1) * 30_000).filter((cut) => cut < body.length)
    for (const cuts of [[], steps]) {
      const { entries, quarantined, error } = splitAll(body, { maxEntryBytes: 2_000_000 }, cuts)
      expect(error).toBeUndefined()
      expect(entries.map((e) => e.id)).toEqual(['before', 'after'])
      expect(quarantined).toHaveLength(1)
      expect(quarantined[0]).toMatchObject({
        reason: 'too_large',
        totalBytes: element.length,
        sha256: sha256(element),
      })
      expect(Buffer.from(quarantined[0]?.bytes ?? []).toString()).toBe(element.slice(0, 1024 * 1024))
    }
  })

  test('an entry of exactly the limit is kept', () => {
    const element = entry('a')
    expect(splitAll(`[${element}]`, { maxEntryBytes: element.length }).entries).toHaveLength(1)
    expect(splitAll(`[${element}]`, { maxEntryBytes: element.length - 1 }).quarantined).toHaveLength(1)
  })
})

describe('groups', () => {
  test('each group names its own types', () => {
    const typed = (id: string, type: string) => `{"id":"${id}",${time},"type":"${type}"}`
    const body = `[${[typed('1', 'x'), typed('2', 'y'), typed('3', 'y'), typed('4', 'x')].join()}]`
    const { groups, entries } = splitAll(body, { maxEntriesPerGroup: 2 })
    expect(groups.map((g) => g.entries.types)).toEqual([
      ['x', 'y'],
      ['y', 'x'],
    ])
    expect(entries.map((e) => e.type)).toEqual(['x', 'y', 'y', 'x'])
  })

  test('if invalid UTF-8 is removed, every other entry keeps its own time', () => {
    const timed = (id: string, second: number) => `{"id":"${id}","timestamp":"2026-11-20T10:00:0${second}"}`
    const body = Buffer.from(`[${timed('a', 1)},${timed('\u00ff', 2)},${timed('c', 3)}]`, 'latin1')
    expect(splitAll(body).entries.map((e) => e.at / 1e6)).toEqual(
      [1, 3].map((second) => Date.UTC(2026, 10, 20, 10, 0, second) / 1000),
    )
  })

  test('a group has at most its number of elements, malformed ones counted', () => {
    const body = `[${Array.from({ length: 2500 }, (_, i) => (i % 10 === 0 ? '0' : entry(String(i)))).join()}]`
    const { groups, entries, quarantined } = splitAll(body)
    expect(groups.map((g) => g.entries.count + g.quarantined.length)).toEqual([1000, 1000, 500])
    expect(entries).toHaveLength(2250)
    expect(quarantined).toHaveLength(250)
  })

  test('a group has at most its bytes, and one larger entry is a group of its own', () => {
    const small = (id: string) => entry(id, `,"x":"${'s'.repeat(300)}"`)
    const large = entry('large', `,"x":"${'l'.repeat(2000)}"`)
    const body = `[${[small('a'), small('b'), small('c'), large, small('d')].join(' , ')}]`
    for (const cuts of [[], everyByte(body)]) {
      const { groups, entries } = splitAll(body, { maxGroupBytes: 1000 }, cuts)
      expect(groups.map((g) => g.entries.count)).toEqual([2, 1, 1, 1])
      expect(entries.map((e) => e.id)).toEqual(['a', 'b', 'c', 'large', 'd'])
      expect(entries[3]?.raw).toBe(large)
    }
  })

  test('a returned group is not touched by later ones', () => {
    const body = Buffer.from(`[${Array.from({ length: 500 }, (_, i) => entry(`id-${i}`)).join(',\n')}]`)
    const cuts = Array.from({ length: Math.floor(body.length / 997) }, (_, i) => (i + 1) * 997)
    const { entries, groups } = splitAll(body, { maxEntriesPerGroup: 7 }, cuts)
    expect(groups).toHaveLength(72)
    expect(entries.map((e) => e.raw)).toEqual(Array.from({ length: 500 }, (_, i) => entry(`id-${i}`)))
  })
})

describe('memory stays bounded whatever comes', () => {
  /** The most that was held after any push of a body of `start`, `repeat` again and again, and `end`. */
  const most = (start: string, repeat: string, end: string, more: Partial<SplitterOptions> = {}) => {
    const splitter = openSplitter({ ...options, maxEntryBytes: 100_000, maxGroupBytes: 50_000, ...more })
    let mostBytes = 0
    for (const piece of [start, ...Array.from({ length: 300 }, () => repeat), end]) {
      splitter.push(Buffer.from(piece))
      mostBytes = Math.max(mostBytes, splitter.usedBytes)
    }
    splitter.end()
    return { mostBytes, groups: drain(splitter) }
  }
  const piece = 'x'.repeat(10_000)

  test.each([
    ['numbers', '1'],
    ['objects', '{}'],
    ['objects of two lines', '{\n}'],
  ])(
    'a held page of a million malformed elements takes little beside its bytes until they are taken: %s',
    (_, element) => {
      const count = 1_000_000
      const body = Buffer.from(`[${`${element},`.repeat(count - 1)}${element}]`)
      const splitter = openSplitter(options)
      const before = process.memoryUsage()
      splitter.push(body, true)
      splitter.end()
      const { heapUsed, external } = process.memoryUsage()
      expect(heapUsed + external - before.heapUsed - before.external).toBeLessThan(64 * 2 ** 20)
      let taken = 0
      for (let group = splitter.take(); group; group = splitter.take()) {
        taken += group.quarantined.length
        const [{ bytes, sha256: reported } = { bytes: '', sha256: '' }] = group.quarantined
        expect([Buffer.from(bytes).toString(), reported]).toEqual([element, sha256(element)])
      }
      expect(taken).toBe(count)
    },
  )

  test('an element over the limit is released as it passes', () => {
    const { mostBytes, groups } = most(`[${entry('a')},{"x":"`, piece, '"}]')
    expect(mostBytes).toBeLessThan(120_000)
    expect(groups.flatMap((g) => g.quarantined)).toMatchObject([
      { reason: 'too_large', totalBytes: 3_000_008 },
    ])
    expect(groups.flatMap((g) => g.entries.count)).toContain(1)
  })

  test('a key over the limit is released too', () => {
    expect(most('[{"', piece, '":1}]').mostBytes).toBeLessThan(120_000)
  })

  test('white space between elements is not held', () => {
    const { mostBytes, groups } = most(`[${entry('a')}`, ' '.repeat(10_000), `,${entry('b')}]`)
    expect(mostBytes).toBeLessThan(200)
    expect(groups.map((g) => g.entries.count)).toEqual([2])
  })

  test('white space inside the chunks counts towards the group', () => {
    const { mostBytes } = most('[', `${' '.repeat(10_000)}${entry('a')},`, `${entry('b')}]`)
    expect(mostBytes).toBeLessThan(51_000)
  })

  test('anything beside the entries is not held: values, keys', () => {
    const arrayKey = 'events'
    expect(most('{"x":"', piece, '","events":[]}', { arrayKey }).mostBytes).toBe(0)
    expect(most('{"', piece, '":1,"events":[]}', { arrayKey }).mostBytes).toBeLessThan(50)
    expect(most('{"x":[', '[1,2],', '3],"events":[]}', { arrayKey }).mostBytes).toBe(0)
  })

  test('entries are held up to a group', () => {
    expect(most('[', `${entry('a')},`.repeat(100), `${entry('b')}]`).mostBytes).toBeLessThan(60_000)
  })
})

describe('a body that is no JSON of the expected shape', () => {
  const push = (body: string) => {
    const splitter = openSplitter(options)
    splitter.push(Buffer.from(body))
  }

  test('push throws at the very byte, names it, and shows no content', () => {
    const body = `[${entry('s3cret')},{"id" "s3cret"}]`
    expect(() => push(body)).toThrow(`at byte ${body.indexOf(' "s3cret"') + 1} `)
    const { error } = splitAll(body)
    expect(error).toBeInstanceOf(ConnectorError)
    expect(error).toMatchObject({ code: 'bad_reply' })
    expect(error?.message).not.toContain('s3cret')
  })

  test('the byte is counted from the start of the body, whatever the cut', () => {
    const body = `[${entry('a')},   ${entry('b')},   ,${entry('c')}]`
    const at = body.indexOf(',   ,') + 4
    for (const cuts of [[], everyByte(body)])
      for (const maxEntriesPerGroup of [1, 1000])
        expect(splitAll(body, { maxEntriesPerGroup }, cuts).error?.message).toContain(`at byte ${at} `)
  })

  test('the complete elements before the error are still returned', () => {
    for (const body of [`[${entry('a')},${entry('b')},{"id`, `[${entry('a')},${entry('b')}}`])
      expect(splitAll(body).entries.map((e) => e.id)).toEqual(['a', 'b'])
  })

  test('after an error every push and the end throw it again', () => {
    const splitter = openSplitter(options)
    expect(() => splitter.push(Buffer.from('[}'))).toThrow(ConnectorError)
    expect(() => splitter.push(Buffer.from(']'))).toThrow(ConnectorError)
    expect(() => splitter.end()).toThrow(ConnectorError)
  })

  test.each([
    '',
    ' ',
    '[',
    '[1',
    '[1,',
    '[1,]',
    '[,1]',
    '[]]',
    '[] []',
    '[]x',
    '\ufeff[]',
    '[tru]',
    '[nul',
    '[True]',
    '[NaN]',
    '[01]',
    '[00]',
    '[-01]',
    '["\u001f"]',
    '[1.]',
    '[.5]',
    '[+1]',
    '[1e]',
    '[1e+]',
    '[-]',
    '[0x1]',
    '["a]',
    '["\\x"]',
    '["\\u12g4"]',
    '["\\u12',
    '["\t"]',
    '["\u0000"]',
    '[{"a"}]',
    '[{"a":}]',
    '[{"a":1,}]',
    '[{,}]',
    '[{a:1}]',
    '[{"a":1]',
    '[[}]',
    '[1 2]',
    "['a']",
    '[\u00a01]',
    '[\f]',
    '[1]\u0000',
    '[/**/]',
    '[1][',
    '[{"a" 1}]',
    '[{"a"::1}]',
    '{',
    '{}}',
  ])('%j', (body) => {
    for (const cuts of [[], everyByte(body)])
      expect(splitAll(body, {}, cuts).error).toMatchObject({ code: 'bad_reply' })
  })

  test.each([
    ['{}', undefined],
    ['"x"', undefined],
    ['null', undefined],
    ['{"log":[]}', undefined],
    ['[]', 'events'],
    ['{}', 'events'],
    ['{"events":null}', 'events'],
    ['{"events":{}}', 'events'],
    ['{"x":{"events":[]}}', 'events'],
    ['{"events ":[]}', 'events'],
    ['5', 'events'],
  ])('JSON of another shape: %s', (body, arrayKey) => {
    for (const cuts of [[], everyByte(body)])
      expect(splitAll(body, arrayKey === undefined ? {} : { arrayKey }, cuts).error).toMatchObject({
        code: 'bad_reply',
      })
  })
})
