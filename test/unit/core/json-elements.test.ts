// The elements of a JSON array as ranges of its bytes.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { eachElement } from '../../../src/core/json.ts'

function elementsOf(text: string): readonly string[] {
  const elements: string[] = []
  eachElement(Buffer.from(text), (element) => elements.push(Buffer.from(element).toString()))
  return elements
}

test('each element of an array is returned once, in order, as it is written', () => {
  expect(elementsOf('[ 1.50 , "a,]\\"" ,{"b":[1, 2]},[ ] ]')).toEqual([
    '1.50',
    '"a,]\\""',
    '{"b":[1, 2]}',
    '[ ]',
  ])
  fc.assert(
    fc.property(fc.array(fc.jsonValue()), fc.constantFrom(0, 1, 3), (values, indent) => {
      const elements = elementsOf(JSON.stringify(values, null, indent))
      expect(elements.map((text) => JSON.parse(text) as unknown)).toEqual(
        JSON.parse(JSON.stringify(values)) as unknown,
      )
    }),
  )
})

test('an empty array, or a value that is no array, has no elements', () => {
  for (const text of ['[]', '[ \n]', '{"a":[1]}', '"[1]"', '']) expect(elementsOf(text)).toEqual([])
})

test('a truncated element is not returned', () => {
  for (const text of ['[1,2', '[1,"2', '[1,{"a":2']) expect(elementsOf(text)).toEqual(['1'])
})
