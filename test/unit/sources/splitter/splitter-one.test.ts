// One entry out of a small body, in every form that an answer may have.
import { describe, expect, test } from 'vitest'
import { splitOne } from '../../../../src/sources/splitter/splitter.ts'
import { entry, options, seen } from './splitter-fixtures.ts'

const split = (body: string) => splitOne(Buffer.from(body), { ...options, wrapper: 'log' })

describe('one entry', () => {
  test.each([
    ['bare', entry('a')],
    ['wrapped', `{"log":${entry('a')}}`],
    ['wrapped among others', ` { "x":{"log":1}, "lo\\u0067" : ${entry('a')} , "log2":null}\n`],
  ])('%s', (_, body) => {
    const { entries, quarantined } = split(body)
    expect(seen(entries).map((e) => [e.id, e.type, e.raw])).toEqual([['a', 'auth:login', entry('a')]])
    expect(quarantined).toEqual([])
  })

  test('a good entry is taken unchanged, although it has a key named as the wrapper', () => {
    const body = entry('a', `,"log":${entry('b')}`)
    expect(seen(split(body).entries).map((e) => e.raw)).toEqual([body])
  })

  test.each(['', ' \n', 'null', '{}', '[]', '{ \n}', '{"log":null}', '{"log":{}}', '{"log":[]}', ' null '])(
    'none: %j',
    (body) => {
      expect(split(body)).toMatchObject({ entries: { count: 0 }, quarantined: [] })
    },
  )

  test.each(['{"log":{"id":"a"}}', '{"id":"a"}'])('a malformed one is quarantined: %s', (body) => {
    const { entries, quarantined } = split(body)
    expect(entries.count).toBe(0)
    expect(quarantined.map((q) => [q.reason, Buffer.from(q.bytes).toString()])).toEqual([
      ['no_time', '{"id":"a"}'],
    ])
  })

  test.each([
    '5',
    '"x"',
    `[${entry('a')}]`,
    '{"log":7}',
    `{"log":[${entry('a')}]}`,
    'nul',
    '{"log":{}',
    `${entry('a')}x`,
  ])('another shape, or no JSON, is a bad reply: %s', (body) => {
    expect(() => split(body)).toThrow(expect.objectContaining({ code: 'bad_reply' }))
  })

  test.each([`${entry('a')},${entry('b')}`, `{"log":${entry('a')},${entry('b')}}`])(
    'two of them one behind the other are no JSON: %s',
    (body) => {
      expect(() => split(body)).toThrow(/not valid JSON/)
    },
  )

  test('the wrapper twice is a bad reply', () => {
    expect(() => split(`{"log":${entry('a')},"log":${entry('b')}}`)).toThrow(
      expect.objectContaining({ code: 'bad_reply' }),
    )
  })

  test('one over the limit is quarantined as such', () => {
    const { quarantined } = splitOne(Buffer.from(`{"log":${entry('a')}}`), {
      ...options,
      wrapper: 'log',
      maxEntryBytes: 20,
    })
    expect(quarantined.map((q) => q.reason)).toEqual(['too_large'])
  })
})
