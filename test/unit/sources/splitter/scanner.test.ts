// How an entry's keys and values are read, in every spelling.
import { describe, expect, test } from 'vitest'
import { entry, splitAll } from './splitter-fixtures.ts'

const only = (text: string, more: Parameters<typeof splitAll>[1] = {}) => {
  const { entries, quarantined, error } = splitAll(`[${text}]`, more)
  expect([error, quarantined]).toEqual([undefined, []])
  return entries[0] ?? expect.fail('no entry')
}

describe('an entry keeps its bytes, id, time and type', () => {
  test.each([
    ['as the API writes it', entry('a')],
    ['with spaces and tabs between tokens', entry('a', ' ,\t"n" : [ 1 , { } , [ ] ] , "z" : { "y" : 0 } ')],
    ['with every escape in a value', entry('a', ',"x":"\\"\\\\\\/\\b\\f\\n\\r\\t\\u00eF\\ud800"')],
    ['with escapes in an inner key', entry('a', ',"x":{"\\u0069d":"b"}')],
    ['with every kind of number', entry('a', ',"n":[0,-0,10,-1.5,0.50,1e3,1E+3,12.5e-007]')],
    ['with every literal', entry('a', ',"l":[true,false,null]')],
    ['in other alphabets', entry('a', ',"x":"\u007fäß\u2028日本\u{1f600}"')],
  ])('%s', (_, text) => {
    expect(only(text)).toMatchObject({
      ...{ id: 'a', type: 'auth:login', time: '2026-11-20T10:00:00.000001', raw: text },
    })
  })

  test('a text may end anywhere in a word', () => {
    for (let size = 1; size < 40; size++) {
      const id = 'x'.repeat(size)
      const text = entry(id, `,"${'k'.repeat(size)}":"${'v'.repeat(size)}\\n${'w'.repeat(size)}"`)
      expect(only(text)).toMatchObject({ id, raw: text })
    }
  })

  test('keys may have any length, and each byte of them counts', () => {
    for (const size of [1, 3, 4, 5, 16, 33]) {
      const idKey = 'k'.repeat(size)
      for (let at = 0; at < size; at++) {
        const other = `${idKey.slice(0, at)}l${idKey.slice(at + 1)}`
        expect(only(entry('a', `,"${idKey}":"t","${other}":"u"`), { idKey }).id).toBe('t')
      }
    }
  })
})

test('the last of several values under a key counts, and only the entry’s own members do', () => {
  expect(only(entry('a', ',"id":"b"')).id).toBe('b')
  expect(only(entry('a', ',"id":1,"id":"c"')).id).toBe('c')
  expect(only(entry('a', ',"data":{"id":"b"},"list":[{"id":"d"}]')).id).toBe('a')
  for (const text of [entry('a', ',"id":{"id":"b"}'), entry('a', ',"id":1')])
    expect(splitAll(`[${text}]`).quarantined).toHaveLength(1)
})

test('the wrong bracket is found at any depth', () => {
  for (const levels of [1, 2, 31, 32, 33, 63, 64, 65]) {
    const opening = '{"a":'.repeat(levels)
    for (let wrong = 0; wrong < levels; wrong++) {
      const closing = `${'}'.repeat(wrong)}]${'}'.repeat(levels - wrong - 1)}`
      expect(splitAll(`[${opening}0${closing}]`).error, `${levels} levels, bracket ${wrong}`).toBeDefined()
    }
  }
})

test('a body of five megabytes is cut the same way as in pieces', () => {
  const body = `[${Array.from({ length: 5 * 1024 }, (_, i) => entry(`id-${i}`, `,"x":"${'x'.repeat(930)}"`)).join(',')}]`
  const { entries, error } = splitAll(body)
  expect(error).toBeUndefined()
  expect(entries).toEqual(splitAll(body, {}, [100_000, 2_000_000]).entries)
})
