// What the state of one part and its fault say after what it was told, in the orders that a loop does not happen to come by.
import { expect, test } from 'vitest'
import { ConnectorError } from '../../../src/core/errors.ts'
import type { SourceState } from '../../../src/contracts/reporter.ts'
import { Condition } from '../../../src/observability/condition.ts'
import { messageOf } from '../../../src/observability/words.ts'
import { startAt } from './board-stand.ts'

const refused = new ConnectorError('unreachable', 'refused')
const full = new ConnectorError('journal_full', 'full')
const since = (atMs: number) => new Date(startAt + atMs).toISOString()
const open = () => new Condition<SourceState>('starting', ['paused'])
const cut = (message: string) => messageOf(new ConnectorError('unreachable', message))

test('a part that failed is, once it has succeeded, what it was before', () => {
  const condition = open()
  condition.become('failing', refused, startAt)
  condition.succeed()
  expect(condition).toMatchObject({ state: 'starting', error: null })
  condition.become('reading', undefined, startAt)
  condition.become('failing', refused, startAt)
  condition.succeed()
  expect(condition).toMatchObject({ state: 'reading', error: null })
})

test('a part that fails without an error has none, while it tries again too', () => {
  const condition = open()
  condition.become('failing', undefined, startAt)
  expect(condition).toMatchObject({ state: 'failing', error: null })
  condition.become('reading', undefined, startAt)
  expect(condition).toMatchObject({ state: 'failing', error: null })
})

test('a part that is told to fail once more without an error keeps the one that it has', () => {
  const condition = open()
  condition.become('failing', refused, startAt)
  condition.become('blocked', undefined, startAt + 1)
  expect(condition).toMatchObject({ state: 'blocked', error: { message: 'refused', since: since(0) } })
})

test('what fails behind a pause for the journal fails since then, not since the pause', () => {
  const condition = open()
  condition.become('paused', full, startAt)
  condition.become('failing', refused, startAt + 1)
  expect(condition.error).toMatchObject({ message: 'refused', since: since(1) })
})

test('a message of up to 500 characters is told whole, a longer one with a sign at the 500th that it is cut', () => {
  expect(cut('x'.repeat(500))).toBe('x'.repeat(500))
  expect(cut('x'.repeat(501))).toBe(`${'x'.repeat(499)}…`)
})

test('a message is cut before a word that does not fit whole, but for no word of more than 100 characters', () => {
  const begin = 'y'.repeat(398)
  expect(cut(`${begin} ${'x'.repeat(300)}`)).toBe(`${begin}…`)
  expect(cut(`${begin.slice(1)} ${'x'.repeat(300)}`)).toBe(`${begin.slice(1)} ${'x'.repeat(101)}…`)
})
