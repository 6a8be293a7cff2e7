// Where the splitter's limits are, to the byte: neither earlier bytes in the same memory nor any cut moves them.
import { describe, expect, test } from 'vitest'
import { openSplitter, splitOne } from '../../../../src/sources/splitter/splitter.ts'
import { drain, entry, everyByte, options, splitAll } from './splitter-fixtures.ts'

const ahead = ' '.repeat(5_000)
const [a, b] = [entry('a'), entry('b')]

/** Pushes the pieces, and reports after each what came out and what is held. */
function follow(pieces: readonly string[], more: { maxGroupBytes?: number; maxEntryBytes?: number }) {
  const splitter = openSplitter({ ...options, ...more })
  return pieces.map((piece) => {
    splitter.push(Buffer.from(piece))
    return { out: drain(splitter).map(({ entries }) => entries.count), held: splitter.usedBytes }
  })
}

describe('limits', () => {
  test('an entry of exactly the limit is kept, however it is cut and whatever is before it', () => {
    const body = `[${ahead}${a},${b}]`
    for (const cuts of [[], [body.length - 10], everyByte(body)]) {
      const { entries, quarantined } = splitAll(body, { maxEntryBytes: a.length }, cuts)
      expect([entries.map(({ id }) => id), quarantined]).toEqual([['a', 'b'], []])
    }
  })

  test('entries of exactly a group’s bytes are one group, anywhere in the body', () => {
    const span = `${a},${b}`
    const counts = (maxGroupBytes: number) =>
      splitAll(`[${ahead}${span}]`, { maxGroupBytes }).groups.map(({ entries }) => entries.count)
    expect(counts(span.length)).toEqual([2])
    expect(counts(span.length - 1)).toEqual([1, 1])
  })

  test('without a limit of its own a group has 4 MiB', () => {
    const body = `[${Array.from({ length: 5 }, (_, i) => entry(String(i), `,"x":"${'x'.repeat(2 ** 20)}"`)).join()}]`
    expect(splitAll(body).groups.map(({ entries }) => entries.count)).toEqual([3, 2])
  })

  test('a full group is returned while the next entry still comes, and not before it is full', () => {
    const steps = follow([`[${ahead}${a},{"x":"`, 'x'.repeat(800), 'x'.repeat(800), 'x'.repeat(800)], {
      maxGroupBytes: 1_000,
    })
    expect(steps.map(({ out }) => out)).toEqual([[], [], [1], []])
    expect(steps.at(-1)?.held).toBe('{"x":"'.length + 2_400)
  })

  test('of an element that went over the limit nothing more is held, however little comes at a time', () => {
    const piece = 'x'.repeat(600)
    const steps = follow([`[${a},{"x":"`, piece, piece, piece, piece, piece], { maxEntryBytes: 1_000 })
    expect(steps.slice(2).map(({ held }) => held)).toEqual([0, 0, 0, 0])
  })

  test('white space behind a group is not held, wherever the group was in its piece', () => {
    const steps = follow([`[${ahead}${a}`, ahead, ahead], {})
    expect(steps.map(({ held }) => held)).toEqual([a.length, a.length, a.length])
  })
})

test('a body that was complete before it became invalid is invalid at its end too', () => {
  for (const rest of ['x', ' ]', '[]']) {
    const splitter = openSplitter(options)
    expect(() => splitter.push(Buffer.from(`[${a}]${rest}`))).toThrow('not valid JSON')
    expect(() => splitter.end()).toThrow('not valid JSON')
  }
})

test('a key behind the entries is read whole, wherever it is cut', () => {
  const body = `{"events":[${a}],"events":[${b}]}`
  for (const cuts of [[], ...everyByte(body).map((cut) => [cut])]) {
    const { entries, error } = splitAll(body, { arrayKey: 'events' }, cuts)
    expect(error).toBeUndefined()
    expect(entries.map(({ id }) => id)).toEqual(['a', 'b'])
  }
})

describe('nesting', () => {
  const nested = (levels: number) =>
    entry('deep', `,"d":${'{"x":'.repeat(levels - 1)}1${'}'.repeat(levels - 1)}`)

  test.each([2, 512, 1_022, 1_023, 1_024, 1_025, 2_000, 5_000])(
    'an entry of exactly %i levels is kept under that limit, each deeper one is not',
    (maxDepth) => {
      const [good, bad] = [nested(maxDepth), nested(maxDepth + 1)]
      const { entries, quarantined, error } = splitAll(`[${bad},${good},${bad},${good}]`, { maxDepth })
      expect(error).toBeUndefined()
      expect(entries.map(({ raw }) => raw)).toEqual([good, good])
      expect(quarantined.map(({ reason }) => reason)).toEqual(['too_deep', 'too_deep'])
    },
  )
})

describe('a body under a key', () => {
  const key = Array.from('events')
    .map((letter) => `\\u00${letter.charCodeAt(0).toString(16)}`)
    .join('')

  test('is found if each letter of the key is escaped, wherever it is cut', () => {
    const body = `{"${key}":[${a}]}`
    for (const cuts of [[], everyByte(body), ...everyByte(body).map((cut) => [cut])])
      expect(splitAll(body, { arrayKey: 'events' }, cuts).entries).toHaveLength(1)
  })

  test.each([`[{"events":[${a}]}]`, '"events"', '5 '])(
    'is refused before its end if it is no object: %s',
    (body) => {
      const splitter = openSplitter({ ...options, arrayKey: 'events' })
      expect(() => splitter.push(Buffer.from(body))).toThrow('expected an object')
    },
  )

  test.each([',{"x":1}', ',7', ',', ' {}'])('is no JSON if more comes behind it: %s', (more) => {
    const { entries, error } = splitAll(`{"events":[${a}]}${more}`, { arrayKey: 'events' })
    expect(error?.message).toContain('nothing more was expected')
    expect(entries).toHaveLength(1)
  })
})

describe('a body that breaks off', () => {
  test('has no element at its end if that was not over, not even a number', () => {
    const { entries, quarantined, error } = splitAll(`[${a},12`)
    expect([entries.length, quarantined, error?.message]).toEqual([
      1,
      [],
      expect.stringContaining('ends too early'),
    ])
  })

  test('has its bytes counted from the start, whatever the cut', () => {
    const body = `[${a}, ${b} ,`
    for (const cuts of [[], everyByte(body)])
      for (const maxEntriesPerGroup of [1, 1_000])
        expect(splitAll(body, { maxEntriesPerGroup }, cuts).error?.message).toBe(
          `the reply ends too early: after ${body.length} bytes a value was expected`,
        )
  })
})

test('is reported with the byte that does not fit and what was expected there', () => {
  for (const [body, reported] of [
    ['[{"a":1]', 'at byte 7 a comma or the end of its container was expected'],
    ['[}', 'at byte 1 a value or ] was expected'],
    ['[\f', 'at byte 1 a value or ] was expected'],
    ['[{"a"\f', 'at byte 5 a colon was expected'],
  ] as const)
    expect(splitAll(body).error?.message).toContain(reported)
})

describe('one entry', () => {
  const split = (body: string) => splitOne(Buffer.from(body), { ...options, wrapper: 'log' })

  test.each(['\t', '\r\n', '\n\n'])('white space alone is none: %j', (body) => {
    expect(split(body)).toMatchObject({ entries: { count: 0 }, quarantined: [] })
  })

  test.each(['-', '1.', '1e', '-1e+'])('a number that is not over is no JSON: %s', (body) => {
    expect(() => split(body)).toThrow('ends too early')
  })

  test('the wrapper twice is a bad reply, also if one of both is malformed, or both are large', () => {
    const large = entry('large', `,"x":"${'x'.repeat(3 * 2 ** 20)}"`)
    for (const [first, second] of [
      [a, '7'],
      ['7', a],
      [large, large],
    ])
      expect(() => split(`{"log":${first},"log":${second}}`)).toThrow('more than one entry')
  })
})

test('a body nests as many levels as its error message says, and no more', () => {
  const levels = 2 ** 22
  const nested = (count: number) => Buffer.from('['.repeat(count) + ']'.repeat(count))
  expect(splitAll(nested(levels)).error).toBeUndefined()
  expect(splitAll(nested(levels + 1)).error?.message).toBe(`the reply nests more than ${levels} levels deep`)
})
