// What a range read remembers of its pages: enough to
// send nothing twice, within a limit (invariant 4).
import { expect, test } from 'vitest'
import {
  freshPage,
  freshRangeCursor,
  openRangeCursor,
  recordPage,
  within,
} from '../../../../src/sources/audit/range.ts'
import { walkFrom } from '../../../../src/sources/audit/walk.ts'
import { entriesOf, spec, START_US } from '../../../contract/journal-parts.ts'

const MOST = 1_600
const groupFrom = (first: number, count: number) =>
  entriesOf(Array.from({ length: count }, (_, i) => spec(first + i)))

test('of an endless page the last entries are remembered up to a limit, to recognise them on the next page', () => {
  const range = freshRangeCursor(START_US, START_US * 2, 0)
  const page = freshPage()
  for (let first = 0; first < 10_000; first += 1_000) {
    expect(within(groupFrom(first, 1_000), range, page).count).toBe(1_000)
    expect(page.keys.size).toBeLessThanOrEqual(MOST)
  }
  expect(within(groupFrom(9_000, 1_000), range, page).count).toBe(0)
  recordPage(range, page)
  expect(range.tail).toHaveLength(MOST)
  expect(within(groupFrom(9_500, 1_000), range, freshPage()).count).toBe(500)
})

test('after going back, entries older than those already sent are left out until the page is past them', () => {
  const range = { ...freshRangeCursor(START_US, START_US * 2, 0), sentUs: START_US + 5_000_000 }
  const ids = (...numbers: number[]) => {
    const kept = within(entriesOf(numbers.map((n) => spec(n))), range, page)
    return Array.from({ length: kept.count }, (_, i) => kept.id(i))
  }
  const page = freshPage()
  expect(ids(3, 5, 4)).toEqual([spec(5).id])
  // Unordered: an entry after a newer one was not read before.
  expect(ids(6, 2)).toEqual([spec(6).id, spec(2).id])
})

test('a job of 0.1.0 continues on its page, at its check of the end, or at its search by time', () => {
  const { walk: begin, untilByServer, ...fresh } = freshRangeCursor(START_US, START_US * 2, 0)
  const { state, ...walk } = walkFrom({ id: 'a', at: START_US + 5 })
  const probe = { atUs: 2_000_000, lowUs: 1_000_000, highUs: null, steps: 0 }
  const old = { ...fresh, untilTold: true, anchorUs: START_US, probe: null, checking: false, doubted: false }
  const open = (more: object) => openRangeCursor(JSON.stringify({ ...old, walk: null, ...more }))
  expect([state, begin.state, untilByServer]).toEqual(['page', 'find', false])
  expect(open({})).toEqual({ ...fresh, walk: begin, untilByServer: true })
  expect(open({ dead: 'd' })?.walk).toEqual({ ...begin, from: { id: 'd', at: START_US } })
  expect(open({ probe })?.walk).toMatchObject({ probe, from: { at: START_US } })
  expect(open({ walk })?.walk).toEqual({ ...walk, state })
  expect(open({ walk, checking: true })?.walk).toEqual({ ...walk, state: 'check_end' })
  expect(open({ walk, doubted: true })?.walk).toEqual({ ...walk, state: 'page_again' })
})
