// What a job over the past reports under its source's name, and what it keeps to itself.
import { stateIn } from '../../fakes/state.ts'
import { expect, test } from 'vitest'
import { openReadTimes } from '../../../src/ingest/read-times.ts'
import { ConnectorError } from '../../../src/core/errors.ts'
import { nothingAppended } from '../../../src/contracts/source.ts'
import { silentReporter } from '../../../src/contracts/reporter.ts'
import { notBegun, waitOf, reporting } from '../../../src/jobs/range.ts'
import { openRegistrySetup, ack } from '../observability/registry-setup.ts'

const HOUR = 3_600_000

const rateWait = () => ({ isLimited: false, reason: 'other requests' })

test("live reading that silently died is shown as failing while a backfill of its source reads on, and the backfill's requests are counted", async () => {
  const setup = openRegistrySetup()
  ack(setup)
  const kept = openReadTimes({ workspace: 'acme', source: 'audit' }, setup.source, {
    state: stateIn(new Map()),
    clock: setup.clock,
  })
  const progress = { ...notBegun }
  const range = { reporter: kept.reporter, rateWait }
  const reporter = reporting(range, progress, 'keep')
  const sourceOf = () => setup.registry.status().workspaces[0]?.sources[0]
  expect(sourceOf()).toMatchObject({ state: 'idle', error: null })
  for (let i = 0; i < 60; i++) {
    setup.clock.pass(HOUR / 60)
    reporter.state('reading')
    reporter.request('200', 5)
    reporter.waited(5)
    reporter.readsAnswer().came()
    reporter.appended({ ...nothingAppended, added: 1 })
    reporter.gap(1)
    reporter.success()
  }
  expect(sourceOf()).toMatchObject({ state: 'failing', error: { code: 'timeout' } })
  const text = await setup.metrics.render()
  expect(text).toMatch(/requests_total\{[^}]*code="200"[^}]*\} 60/)
  expect(text).toMatch(/entries_total\{[^}]*source="audit"[^}]*outcome="new"[^}]*\} 60/)
  expect(text).toMatch(/gaps_total\{[^}]*\} 60/)
})

test('a job waits for memory until the answer has it', () => {
  const progress = { ...notBegun }
  const over = reporting({ reporter: silentReporter, rateWait }, progress, 'keep').waitsForMemory()
  expect(progress.waitsFor).toBe('memory')
  over()
  expect(progress).toEqual(notBegun)
})

test('waiting for room is no error, and keeps an earlier error', () => {
  const progress = { ...notBegun }
  const reporter = reporting({ reporter: silentReporter, rateWait }, progress, 'send')
  const full = new ConnectorError('journal_full', 'half of it is in use')
  reporter.state('paused', full)
  expect(progress).toEqual({ ...notBegun, waitsFor: 'room' })
  const late = new ConnectorError('timeout', 'no answer')
  reporter.state('failing', late)
  reporter.state('paused', full)
  expect(progress).toEqual({ ...notBegun, error: late, waitsFor: 'room' })
  reporter.success()
  expect(progress.error).toBeUndefined()
})

test('a 429 is a wait for the end of the rate limit, and no failure', () => {
  const progress = { ...notBegun }
  const limited = { ...rateWait(), isLimited: true }
  const reporter = reporting({ reporter: silentReporter, rateWait: () => limited }, progress, 'keep')
  reporter.state('failing', new ConnectorError('server_error', 'it failed to answer'))
  reporter.state('failing', new ConnectorError('rate_limited', 'the API answered 429'))
  reporter.state('waiting')
  expect(progress).toMatchObject({ error: undefined, waitsFor: 'limit' })
})

test.each([
  ['paused', 'room', 'room'],
  ['waiting', 'limit', 'rate_limit'],
  ['idle', undefined, undefined],
  ['reading', undefined, undefined],
  ['failing', undefined, undefined],
] as const)('a %s job waits for %s during a 429, otherwise for %s', (state, limited, free) => {
  const reason = state === 'waiting' ? 'other requests' : undefined
  const blocked = () => ({ ...rateWait(), isLimited: true })
  expect(waitOf(state, { rateWait: blocked })).toEqual({ waitsFor: limited, waitReason: reason })
  expect(waitOf(state, { rateWait })).toEqual({ waitsFor: free, waitReason: reason })
})

test('an error is shown until a read succeeds, across all waits for the next try', () => {
  const progress = { ...notBegun }
  const reporter = reporting({ reporter: silentReporter, rateWait }, progress, 'keep')
  const refused = new ConnectorError('unauthorized', 'refused')
  reporter.state('blocked', refused)
  reporter.state('idle')
  expect(progress.error).toBe(refused)
  reporter.success()
  expect(progress.error).toBeUndefined()
})
