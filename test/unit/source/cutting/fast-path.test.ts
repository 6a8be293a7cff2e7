// What the fast path takes, what it leaves to the scanner, and that both mark the same.
import { describe, expect, test, vi } from 'vitest'
import { ID, NONE, TIME, TYPE } from '../../../../src/source/cutting/element-marks.ts'
import { entryOptions } from '../../../../src/source/audit/step.ts'
import { layout } from '../../../../src/source/cutting/fast-path/layout.ts'
import { eventOptions } from '../../../../src/source/history/window.ts'
import { FastPath } from '../../../../src/source/cutting/fast-path/fast-path.ts'
import { entry, everyByte, splitAll } from './splitter-fixtures.ts'

const AT = 1000
const keys = ['id', 'timestamp', 'type'] as const

/** The text that was taken and the values of id, time and type in it; undefined: left to the scanner. */
function taken(text: string, maxDepth = 512, names: readonly [string | undefined, string, string] = keys) {
  const bytes = Buffer.from(text)
  const marks = new Int32Array(8).fill(7)
  const path = new FastPath({ keys: names, maxDepth, many: true })
  path.nextPiece(bytes, AT)
  if (path.recognise(AT + text.indexOf('{')) === 0) return undefined
  const end = path.setMarks(0, marks)
  const valueOf = (mark: number) => {
    const [from, to] = [marks[mark] as number, marks[mark + 1] as number]
    return from === NONE && to === NONE ? undefined : bytes.subarray(from - AT, to - AT).toString()
  }
  const whole = bytes.subarray(text.indexOf('{'), end - AT).toString()
  return { whole, id: valueOf(ID), time: valueOf(TIME), type: valueOf(TYPE) }
}

const time = '2026-11-20T10:00:00.000001'
const type = 'auth:login'

/** The fast path never sees what comes byte by byte. */
function expectAsAlone(body: Buffer, what: string): void {
  const { entries, quarantined, error } = splitAll(body)
  const alone = splitAll(body, {}, everyByte(body))
  const isSame =
    error?.message === alone.error?.message &&
    JSON.stringify([entries, quarantined]) === JSON.stringify([alone.entries, alone.quarantined])
  if (!isSame) expect.fail(what)
}

describe('the fast path takes an object', () => {
  test.each([
    ['as the API writes it', entry('a')],
    ['with spaces and tabs between tokens', entry('a', ' ,\t"n" : [ 1 , { } , [ ] ] , "z" : { "y" : 0 } ')],
    ['with every escape in a value', entry('a', ',"x":"\\"\\\\\\/\\b\\f\\n\\r\\t\\u00eF\\ud800"')],
    ['with escapes in a key of what it holds', entry('a', ',"x":{"\\u0069d":"b"}')],
    ['with every kind of number', entry('a', ',"n":[0,-0,10,-1.5,0.50,1e3,1E+3,12.5e-007]')],
    ['with every literal', entry('a', ',"l":[true,false,null]')],
    ['whose texts are in other alphabets', entry('a', ',"x":"\u007fäß\u2028日本\u{1f600}"')],
  ])('%s', (_, text) => {
    expect(taken(text)).toEqual({ whole: text, id: 'a', time, type })
    expect(taken(`[${text},{`)).toEqual({ whole: text, id: 'a', time, type })
  })

  test('wherever in sixteen bytes a text ends', () => {
    for (let size = 0; size < 70; size++) {
      const id = 'x'.repeat(size)
      const text = entry(id, `,"${'k'.repeat(size)}":"${'v'.repeat(size)}\\n${'w'.repeat(size)}"`)
      expect(taken(text)).toEqual({ whole: text, id, time, type })
    }
  })

  test('and the last one of several values under a key counts, also where that is no string', () => {
    expect(taken(entry('a', ',"id":"b"'))?.id).toBe('b')
    expect(taken(entry('a', ',"id":{"id":"b"}'))?.id).toBeUndefined()
    expect(taken(entry('a', ',"id":1'))?.id).toBeUndefined()
    expect(taken(entry('a', ',"id":1,"id":"c"'))?.id).toBe('c')
  })

  test('and looks for its keys among its own members alone', () => {
    expect(taken('{"data":{"id":"b","type":"c"},"list":[{"timestamp":"d"}]}')).toMatchObject({
      ...{ id: undefined, time: undefined, type: undefined },
    })
    for (const key of ['i', 'idd', 'ID', 'timestamq', 'timestamp\u0000', 'typ', 'tipe'])
      expect(taken(`{"${key}":"x","n":0}`)).not.toMatchObject({ id: 'x' })
  })

  test('also where entries have no id, and under keys of up to 32 bytes, each of which counts', () => {
    for (const size of [1, 15, 16, 17, 31, 32]) {
      const key = 'k'.repeat(size)
      for (let at = 0; at < size; at++) {
        const other = `${key.slice(0, at)}l${key.slice(at + 1)}`
        const text = `{"${key}":"t","id":"a","${other}":"u"}`
        expect(taken(text, 512, [undefined, key, 'type'])).toMatchObject({ id: undefined, time: 't' })
      }
    }
    const names = [undefined, 'time', 'type'] as const
    expect(taken('{"":"a","type":"u"}', 512, names)).toMatchObject({ id: undefined, type: 'u' })
  })

  test('of so many levels as it may have, 64 at most', () => {
    const nested = (levels: number) =>
      `${'{"a":['.repeat(levels >> 1)}${levels % 2 ? '{"b":0}' : ''}${']}'.repeat(levels >> 1)}`
    for (const [levels, maxDepth] of [
      [4, 4],
      [5, 5],
      [63, 512],
      [64, 512],
    ] as const)
      expect(taken(nested(levels), maxDepth)?.whole).toBe(nested(levels))
    for (const [levels, maxDepth] of [
      [5, 4],
      [6, 5],
      [65, 512],
      [66, 512],
    ] as const)
      expect(taken(nested(levels), maxDepth)).toBeUndefined()
  })
})

test('the fast path knows the keys of each source', () => {
  const limits = { maxDepth: 512, maxEntryBytes: 2 ** 20 }
  for (const options of [
    entryOptions(limits),
    eventOptions('v1', limits, undefined),
    eventOptions('v2', limits, undefined),
  ]) {
    const names = [options.idKey, options.timeKey, options.typeKey] as const
    expect(taken(`{"${names[1]}":"t","${names[2]}":"u","x":0}`, 512, names)).toMatchObject({
      ...{ time: 't', type: 'u' },
    })
  }
})

describe('the fast path leaves to the scanner', () => {
  test.each([
    ['an object without members', '{}'],
    ['one that does not end in its piece', entry('a').slice(0, -1)],
    ['one with a line break between its tokens', entry('a', ',\n"x":1')],
    ['an escape in a key of its own', entry('a', ',"\\u0069d":"b"')],
    ['an escape in the value of a wanted key', entry('\\u0061')],
    ['what is no JSON', entry('a', ',"x":[1,]')],
  ])('%s', (_, text) => {
    expect(taken(text)).toBeUndefined()
  })

  test('all of a piece of more than four megabytes', () => {
    for (const [size, count] of [
      [4 * 1024 * 1024, 1],
      [4 * 1024 * 1024 + 1, 0],
    ] as const) {
      const path = new FastPath({ keys, maxDepth: 512, many: true })
      path.nextPiece(Buffer.from(entry('a').padEnd(size)), 0)
      expect(path.recognise(0)).toBe(count)
    }
  })

  test('all, where a wanted key is longer than it compares at once', () => {
    expect(taken(entry('a'), 512, ['id', 'k'.repeat(33), 'type'])).toBeUndefined()
  })
})

test('the fast path stops at its piece, whatever an earlier one left in the memory behind it', () => {
  const text = entry('a', ',"x":"yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy","n":[1234567890,true]')
  const path = new FastPath({ keys, maxDepth: 512, many: true })
  for (let size = 1; size < text.length; size++) {
    path.nextPiece(Buffer.from(text), 0)
    expect(path.recognise(0)).toBe(1)
    path.nextPiece(Buffer.from(text.slice(0, size)), 0)
    expect(path.recognise(0), text.slice(0, size)).toBe(0)
  }
})

test('a body of four megabytes and a longer one are cut as in pieces', () => {
  for (const bytes of [4 * 1024 * 1024, 5 * 1024 * 1024]) {
    const body = `[${Array.from({ length: bytes >> 10 }, (_, i) => entry(`id-${i}`, `,"x":"${'x'.repeat(930)}"`)).join(',')}]`
    const { entries, error } = splitAll(body)
    expect(error).toBeUndefined()
    expect(entries).toEqual(splitAll(body, {}, [100_000, 2_000_000]).entries)
  }
})

test('what stands between two entries, and how the second begins, is read as the scanner alone reads it', () => {
  const first = entry('a')
  const bytes = Buffer.from(`[${first} , ${entry('b')}]`)
  for (let at = first.length; at < first.length + 6; at++)
    for (let byte = 0; byte < 256; byte++) {
      const damaged = Buffer.from(bytes)
      damaged[at] = byte
      expectAsAlone(damaged, `byte ${at} replaced by ${byte}`)
    }
})

test('at any depth the wrong bracket is seen, whichever it is', () => {
  for (let levels = 60; levels <= 68; levels++) {
    const opening = '{"a":'.repeat(levels)
    for (let wrong = 0; wrong < levels; wrong++) {
      const closing = `${'}'.repeat(wrong)}]${'}'.repeat(levels - wrong - 1)}`
      expect(splitAll(`[${opening}0${closing}]`).error, `${levels} levels, bracket ${wrong}`).toBeDefined()
    }
  }
})

test('a piece may end wherever the memory does: what is looked at behind it is there', async () => {
  const whole = layout.PAGES * layout.PAGE - layout.BODY
  for (let size = whole - 40; size <= whole + 2; size++) {
    vi.resetModules()
    const fresh = await import('../../../../src/source/cutting/fast-path/fast-path.ts')
    const path = new fresh.FastPath({ keys, maxDepth: 512, many: true })
    const pad = size - '{"x":"","id"'.length
    path.nextPiece(Buffer.from(`{"x":"${'x'.repeat(pad)}","id"`), 0)
    expect(path.recognise(0)).toBe(0)
  }
})

test('every single byte of an entry, replaced by any byte, is cut as the grammar alone cuts it', () => {
  const text = `[${entry('a', ',"n":[-1.5e3,0,true,false,{"x":"\\u00e9\\\\"}], "id":"b","z":null')},1]`
  const bytes = Buffer.from(text)
  for (let i = 0; i < bytes.length; i++)
    for (let byte = 0; byte < 256; byte++) {
      const damaged = Buffer.from(bytes)
      damaged[i] = byte
      expectAsAlone(damaged, `byte ${i} replaced by ${byte}`)
    }
})
