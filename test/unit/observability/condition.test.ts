// The state of one part and its error after a series of reports, in orders that a loop does not happen to produce.
import { expect, test } from 'vitest'
import { ConnectorError } from '../../../src/core/errors.ts'
import type { SourceState } from '../../../src/contracts/reporter.ts'
import { Condition } from '../../../src/observability/condition.ts'
import { messageOf } from '../../../src/observability/words.ts'
import { startAt } from './registry-setup.ts'

const refused = new ConnectorError('unreachable', 'refused')
const full = new ConnectorError('journal_full', 'full')
const since = (atMs: number) => new Date(startAt + atMs).toISOString()
const open = () => new Condition<SourceState>('starting', ['paused'])
const cut = (message: string) => messageOf(new ConnectorError('unreachable', message))

test('a part that failed returns to its earlier state after a success', () => {
  const condition = open()
  condition.become('failing', refused, startAt)
  condition.succeed()
  expect(condition).toMatchObject({ state: 'starting', error: null })
  condition.become('reading', undefined, startAt)
  condition.become('failing', refused, startAt)
  condition.succeed()
  expect(condition).toMatchObject({ state: 'reading', error: null })
})

test('a part that fails without an error has none, also while it retries', () => {
  const condition = open()
  condition.become('failing', undefined, startAt)
  expect(condition).toMatchObject({ state: 'failing', error: null })
  condition.become('reading', undefined, startAt)
  expect(condition).toMatchObject({ state: 'failing', error: null })
})

test('a part that is reported as failing again without an error keeps the one that it has', () => {
  const condition = open()
  condition.become('failing', refused, startAt)
  condition.become('blocked', undefined, startAt + 1)
  expect(condition).toMatchObject({ state: 'blocked', error: { message: 'refused', since: since(0) } })
})

test('a failure behind a pause for the journal starts then, not with the pause', () => {
  const condition = open()
  condition.become('paused', full, startAt)
  condition.become('failing', refused, startAt + 1)
  expect(condition.error).toMatchObject({ message: 'refused', since: since(1) })
})

test('a message of up to 500 characters is kept whole, a longer one has a mark at the 500th that it is cut', () => {
  expect(cut('x'.repeat(500))).toBe('x'.repeat(500))
  expect(cut('x'.repeat(501))).toBe(`${'x'.repeat(499)}…`)
})

test('a message is cut before a word that does not fit whole, except a word of more than 100 characters', () => {
  const begin = 'y'.repeat(398)
  expect(cut(`${begin} ${'x'.repeat(300)}`)).toBe(`${begin}…`)
  expect(cut(`${begin.slice(1)} ${'x'.repeat(300)}`)).toBe(`${begin.slice(1)} ${'x'.repeat(101)}…`)
})
