// The texts of an entry under a few names: as JSON.parse returns them, without the rest of it in memory.
import { expect, test, vi } from 'vitest'
import { textsUnder } from '../../../src/core/json.ts'

const read = textsUnder(['user', 'ip'])
const textsOf = (json: string) => read(Buffer.from(json))

test('texts are decoded, however key and value are written', () => {
  expect(textsOf('{"user":"a\\u0062\\n", "\\u0069p" : "::1","x":{"user":"not at the top"}}')).toEqual({
    user: 'ab\n',
    ip: '::1',
  })
})

test('of several members of one name the last counts, also if it is no text', () => {
  expect(textsOf('{"user":"first","ip":"1","user":"last","ip":[]}')).toEqual({ user: 'last' })
})

test('a value that is no text, or longer than any name, counts as none', () => {
  expect(textsOf('{"user":5,"ip":null}')).toEqual({})
  expect(textsOf(JSON.stringify({ user: 'u'.repeat(100_000), ip: '::1' }))).toEqual({ ip: '::1' })
  expect(textsOf('{}')).toEqual({})
})

test('the rest of an entry is not parsed', () => {
  const parse = vi.spyOn(JSON, 'parse')
  expect(textsOf(`{"x":[${'{},'.repeat(100_000)}{}],"user":"\\u0061"}`)).toEqual({ user: 'a' })
  expect(parse.mock.calls).toEqual([['"\\u0061"']])
  parse.mockRestore()
})
