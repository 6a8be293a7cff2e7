// The elements of a JSON array as places in its bytes.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { eachElement } from '../../../src/core/json.ts'

function elementsOf(text: string): readonly string[] {
  const elements: string[] = []
  eachElement(Buffer.from(text), (element) => elements.push(Buffer.from(element).toString()))
  return elements
}

test('each element of an array is given once, in order, as it is written', () => {
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

test('of an empty array, or of what is no array, there are no elements', () => {
  for (const text of ['[]', '[ \n]', '{"a":[1]}', '"[1]"', '']) expect(elementsOf(text)).toEqual([])
})

test('an element that is cut off is not given', () => {
  for (const text of ['[1,2', '[1,"2', '[1,{"a":2']) expect(elementsOf(text)).toEqual(['1'])
})
