// Each type of a group has one index and its own name, whatever was seen before under the same sketch.
import { expect, test } from 'vitest'
import { TypeNames } from '../../../../src/sources/splitter/type-names.ts'

/** So many that each slot is replaced over and over. */
const NAMES = Array.from({ length: 5_000 }, (_, i) => `area:${i}:${'ä'.repeat(i % 5)}${'x'.repeat(i % 60)}`)

function indicesOf(types: TypeNames, names: readonly string[]): number[] {
  return names.map((name) => {
    const bytes = Buffer.from(` ${name} `)
    return types.index(bytes, 1, bytes.length - 1)
  })
}

test('of five thousand types each keeps its name, group after group', () => {
  const types = new TypeNames(NAMES.length)
  for (const names of [NAMES, NAMES.toReversed(), NAMES.slice(7, 300)]) {
    expect(indicesOf(types, names)).toEqual(names.map((_, i) => i))
    expect(indicesOf(types, names)).toEqual(names.map((_, i) => i))
    expect(types.names).toEqual(names)
    types.clear()
    expect(types.names).toEqual([])
  }
})

test('bytes that are no text are replaced as a decoder replaces them', () => {
  const types = new TypeNames(4)
  for (let round = 0; round < 2; round++) {
    expect(types.index(Uint8Array.of(0x61, 0xff, 0x62), 0, 3)).toBe(0)
    expect(types.names).toEqual(['a\ufffdb'])
    types.clear()
  }
})

test('known types are copies: the bytes that they came in may change', () => {
  const bytes = Buffer.from('auth:login')
  const first = new TypeNames(4)
  first.index(bytes, 0, bytes.length)
  bytes.write('o')
  const second = new TypeNames(4)
  second.index(bytes, 0, bytes.length)
  expect([first.names, second.names]).toEqual([['auth:login'], ['outh:login']])
})
