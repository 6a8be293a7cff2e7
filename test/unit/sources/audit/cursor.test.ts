// The audit cursor: survives as JSON, and its size is limited.
import { expect, it } from 'vitest'
import { ConnectorError } from '../../../../src/core/errors.ts'
import {
  closeAuditCursor,
  freshAuditCursor,
  recordOverlap,
  recordLateness,
  openAuditCursor,
  overlapStart,
} from '../../../../src/sources/audit/cursor.ts'
import { walkFrom } from '../../../../src/sources/audit/walk.ts'
import { DAY, HOUR, MINUTE, SECOND, START } from '../../app/audit-harness.ts'

const us = (ms: number) => ms * 1000
const entryAt = (ms: number) => ({ id: `at-${ms}`, at: us(ms) })

it('a cursor is the same after it was written and read', () => {
  const cursor = freshAuditCursor(START)
  expect(openAuditCursor(closeAuditCursor(cursor), START + 1, 'acme')).toEqual(cursor)
})

it.each([
  ['{"v":2,"head":{"id":"secret-id","at":1}}', 'is of version 2, and only version 1 can be read here'],
  ['{"v":"1"}', 'is damaged'],
  ['{"v":1}', 'is damaged'],
  ['{}', 'is damaged'],
  ['null', 'is damaged'],
  ['{"v":1,"head":{"id":"secret-id"', 'is damaged'],
])('a damaged cursor, or one of another version, is refused and never guessed: %s', (text, state) => {
  const opening = () => openAuditCursor(text, START, 'acme')
  expect(opening).toThrow(ConnectorError)
  expect(opening).toThrow(expect.objectContaining({ code: 'journal_corrupt', action: 'exit' }))
  expect(opening).toThrow('cursor for audit of workspace acme')
  expect(opening).toThrow(state)
  expect(opening).toThrow('start the version of Auditferry that wrote it')
  expect(opening).not.toThrow('secret-id')
})

it('a cursor of 0.1.0 keeps its state, its lookback and its overlap', () => {
  const { overlap, lookback, ...fresh } = freshAuditCursor(START)
  expect(overlap).toEqual([])
  const from = entryAt(START)
  const { state, ...walk } = walkFrom(from)
  const old = (doubt: string) =>
    JSON.stringify({
      ...{ ...fresh, anchorTries: 0, trail: [from], ahead: { ...walk, entries: 3 } },
      drain: { ...walk, doubt, untilUs: 7, entries: 0, pages: 0 },
      sweep: { ...lookback, walk, fullSweptAt: 5 },
    })
  const open = (doubt: string) => openAuditCursor(old(doubt), START, 'acme')
  expect(state).toBe('page')
  const states = ['none', 'ask_latest', 'read_again', 'cursor_gone'].map((doubt) => open(doubt).drain?.state)
  expect(states).toEqual(['page', 'check_end', 'page_again', 'find'])
  const opened = open('none')
  expect(opened).toMatchObject({ ahead: { state, entries: 3 }, drain: { from, untilUs: 7 }, overlap: [from] })
  expect(opened.lookback).toEqual({ ...lookback, walk: walkFrom(from), fullDoneAt: 5 })
  expect(openAuditCursor(closeAuditCursor(opened), START, 'acme')).toEqual(opened)
})

it('a step does not change the cursor text that it started from', () => {
  const text = closeAuditCursor(freshAuditCursor(START))
  openAuditCursor(text, START, 'acme').headUs = 5
  expect(openAuditCursor(text, START, 'acme').headUs).toBe(0)
})

it('the overlap is limited in count and age', () => {
  const cursor = freshAuditCursor(START)
  for (let i = 0; i < 1_000; i++) {
    cursor.headUs = us(START + i * MINUTE)
    recordOverlap(cursor, [entryAt(START + i * MINUTE)])
  }
  expect(cursor.overlap.length).toBeLessThanOrEqual(24)
  expect(cursor.overlap[0]?.at).toBe(cursor.headUs - us(15 * MINUTE))
})

it('a poll starts at least two minutes before the head if the overlap reaches, otherwise at the head', () => {
  const cursor = freshAuditCursor(START)
  const head = entryAt(START)
  cursor.headUs = head.at
  expect(overlapStart(cursor, head)).toBe(head)
  recordOverlap(cursor, [entryAt(START - 110 * SECOND), entryAt(START - 10 * SECOND)])
  expect(overlapStart(cursor, head)).toEqual(entryAt(START - 110 * SECOND))
  cursor.overlap = []
  recordOverlap(cursor, [entryAt(START - HOUR), entryAt(START - 10 * MINUTE), entryAt(START - 110 * SECOND)])
  expect(overlapStart(cursor, head)).toEqual(entryAt(START - 10 * MINUTE))
})

it.each([
  ['20 entries every 5 s', 20, 5 * SECOND],
  ['125 entries a second', 125, SECOND],
  ['30 entries every quarter of a second', 30, 250],
  ['1,000 entries every two hours', 1_000, 2 * HOUR],
])('the overlap covers two minutes and little more, whatever the page size: %s', (_, count, everyMs) => {
  const cursor = freshAuditCursor(START)
  for (let page = 0; page < 1_000; page++) {
    const entries = Array.from({ length: count }, (_, i) =>
      entryAt(START + page * everyMs + (i * everyMs) / count),
    )
    cursor.headUs = entries.at(-1)?.at ?? 0
    recordOverlap(
      cursor,
      entries.filter((_one, i) => [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512].includes(count - 1 - i)),
    )
  }
  const behindMs = (cursor.headUs - overlapStart(cursor, entryAt(0)).at) / 1000
  expect(behindMs).toBeGreaterThanOrEqual(120 * SECOND)
  expect(behindMs).toBeLessThanOrEqual(5 * MINUTE)
})

it('the overlap grows with the lateness seen, up to a limit', () => {
  const cursor = freshAuditCursor(START)
  const head = entryAt(START)
  cursor.headUs = head.at
  recordOverlap(
    cursor,
    [20, 16, 9, 7, 1].map((minutes) => entryAt(START - minutes * MINUTE)),
  )
  recordLateness(cursor, us(4 * MINUTE), START)
  expect(overlapStart(cursor, head)).toEqual(entryAt(START - 9 * MINUTE))
  recordLateness(cursor, us(60 * MINUTE), START)
  expect(overlapStart(cursor, head)).toEqual(entryAt(START - 16 * MINUTE))
})

it('lateness halves each day without a late entry, and is forgotten below a second', () => {
  const cursor = freshAuditCursor(START)
  recordLateness(cursor, us(64 * SECOND), START)
  recordLateness(cursor, 0, START + MINUTE)
  expect(cursor.lateUs).toBe(us(64 * SECOND))
  for (let day = 1; day <= 3; day++) recordLateness(cursor, 0, START + day * DAY)
  expect(cursor.lateUs).toBe(us(8 * SECOND))
  for (let day = 4; day <= 10; day++) recordLateness(cursor, 0, START + day * DAY)
  expect(cursor.lateUs).toBe(0)
})
