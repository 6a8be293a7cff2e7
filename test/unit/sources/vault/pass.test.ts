// A single pass: when it is over, when it is too old to continue, and what its counts prove.
import { expect, test } from 'vitest'
import { pathOf } from '../../../../src/sources/vault/page.ts'
import type { Pass, VaultCursor } from '../../../../src/sources/vault/cursor.ts'
import { openVaultCursor } from '../../../../src/sources/vault/cursor.ts'
import type { VaultPage } from '../../../../src/sources/vault/page.ts'
import { beginPass, endPass, verdictOf, addPage, passUnderWay } from '../../../../src/sources/vault/pass.ts'
import { HOUR, START } from '../../app/audit-harness.ts'

const fresh = (): VaultCursor => openVaultCursor(undefined, START, 'acme')

const nameless = (totalPages?: number): VaultPage => ({
  projects: [],
  malformed: [{ id: undefined, quarantined: {} as never }],
  total: undefined,
  totalPages,
})

test.each([-HOUR, HOUR])(
  'a pass whose last page is an hour away from now restarts, on either side (%i)',
  (ms) => {
    const cursor = fresh()
    const pass = beginPass(cursor, START, 100)
    expect(passUnderWay(cursor, START + ms)).toBeUndefined()
    expect(passUnderWay(cursor, START + ms - Math.sign(ms))).toBe(pass)
  },
)

test('pages of nothing but elements without an id end no list that says it continues', () => {
  const pass = beginPass(fresh(), START, 100)
  for (let page = 1; page < 5; page++) expect(addPage(pass, nameless(5), 0, START)).toBe(false)
  expect(pass.nameless).toBe(4)
  // Without that they show nothing new: the second in a row is the end.
  const silent = beginPass(fresh(), START, 100)
  expect([1, 2].map(() => addPage(silent, nameless(), 0, START))).toEqual([false, true])
})

test.each([
  [0, 0, 'none'],
  [1, 0, 'unsteady'],
  [0, 1, 'unsteady'],
])(
  'an element without an id in either pass may be the project that is missing (%i, %i)',
  (before, now, unproven) => {
    const cursor = fresh()
    const known = { name: '', flag: null, content: 'x', marks: '', sharing: '', shares: [] }
    cursor.passes = 2
    cursor.last = { n: 2, startedUs: 0, seen: 1, repeats: 0, nameless: before, total: null }
    const pass = Object.assign(beginPass(cursor, START, 100), { seen: 1, nameless: now })
    cursor.projects.set('here', { ...known, id: 'here', seen: pass.n })
    cursor.projects.set('gone', { ...known, id: 'gone', seen: 1 })
    expect(verdictOf(cursor, pass)).toMatchObject({
      unproven,
      gone: unproven === 'none' ? [{ id: 'gone' }] : [],
    })
  },
)

test('a restarted pass keeps its direction: two that ended one after the other go opposite ways', () => {
  const cursor = fresh()
  const orderOf = (pass: Pass) => /sort_order=(\w+)/.exec(pathOf(pass))?.[1]
  const first = beginPass(cursor, START)
  expect(orderOf(beginPass(cursor, START, 50))).toBe(orderOf(first))
  endPass(cursor, cursor.pass ?? first, 0, START, 1)
  const orders = [beginPass(cursor, START), beginPass(cursor, START, 50), beginPass(cursor, START, 25)]
  expect(orders.map(orderOf)).toEqual(['desc', 'desc', 'desc'])
})
