// What a walk over the past remembers of its pages: enough to send nothing twice, and no more than a bound (law 4).
import { expect, test } from 'vitest'
import { freshPage, freshPlace, notePage, within } from '../../../src/source/audit-range-place.ts'
import { entriesOf, spec, START_US } from '../../contract/journal-parts.ts'

const MOST = 1_600
const groupFrom = (first: number, count: number) =>
  entriesOf(Array.from({ length: count }, (_, i) => spec(first + i)))

test('of a page without end no more is remembered than a bound, and that is what the next page may repeat', () => {
  const place = freshPlace(START_US, START_US * 2, 0)
  const page = freshPage()
  for (let first = 0; first < 10_000; first += 1_000) {
    expect(within(groupFrom(first, 1_000), place, page).count).toBe(1_000)
    expect(page.keys.size).toBeLessThanOrEqual(MOST)
  }
  expect(within(groupFrom(9_000, 1_000), place, page).count).toBe(0)
  notePage(place, page)
  expect(place.tail).toHaveLength(MOST)
  expect(within(groupFrom(9_500, 1_000), place, freshPage()).count).toBe(500)
})
