// The setup of range reads: the real reader, client and
// rate limiter against the mock, and the result in numbers.
import { expect } from 'vitest'
import type { HttpReply, Transport } from '../../../../src/contracts/platform.ts'
import { MemoryBudget } from '../../../../src/core/memory-budget.ts'
import { Secret } from '../../../../src/core/secret.ts'
import { AuditRange } from '../../../../src/sources/audit/range.ts'
import { RateLimiter } from '../../../../src/sources/http/rate-limiter.ts'
import { Client } from '../../../../src/sources/http/client.ts'
import type { FaultName, FaultPlan, Switches } from '../../../../src/mock/switches.ts'
import { openMock } from '../../../../src/mock/mock.ts'
import { LogLines } from '../../../fakes/sink-deps.ts'
import { SourceNotes } from '../../../fakes/reporters.ts'
import { VirtualClock } from '../../../simulation/virtual-clock.ts'
import { AGENT, DAY, driven, HOUR, INSTANCE, stream, SECOND, START } from '../../app/audit-harness.ts'

const nothing = { added: 0, late: 0, known: 0, filtered: 0, quarantined: 0, findings: 0, latestBehindUs: 0 }

export interface RangeSetup {
  readonly switches?: Partial<Switches>
  readonly faults?: Partial<Record<FaultName, number | FaultPlan>>
  readonly wrap?: (send: Transport) => Transport
  readonly from?: number
  readonly to?: number
  /** how far our clock is ahead of the server's, ms */
  readonly ahead?: number
}

export function openRangeSetup({
  ahead = 0,
  switches,
  faults,
  wrap = (send) => send,
  from = START - DAY,
  to = START,
}: RangeSetup = {}) {
  const clock = new VirtualClock(START)
  const mock = openMock({
    ...{ clock, traffic: { entriesPerHour: 0 }, limits: { audit: 0 } },
    switches: { self_audit: 'off', ...switches },
    ...(faults && { faults }),
  })
  const reporter = new SourceNotes()
  const store = { load: async () => undefined, save: async () => undefined }
  const rateLimiter = new RateLimiter({ limit: () => 10_000, clock, random: () => 0.5, store })
  const client = new Client({
    ...{ baseUrl: 'https://api.test', apiKey: new Secret('acme-key'), transport: wrap(mock.transport) },
    ...{ clock, rateLimiter, memory: new MemoryBudget(32 * 2 ** 20), reporter, userAgent: AGENT },
  })
  const ours = { elapsed: () => clock.elapsed(), sleep: clock.sleep.bind(clock) }
  const range = new AuditRange({
    ...{
      stream,
      client,
      clock: { ...ours, now: () => clock.now() + ahead },
      reporter,
      log: new LogLines(),
      instance: INSTANCE,
    },
    ...{ expectedUserAgent: () => false, sentTimes: { sent: [] }, maxEntryBytes: 2 ** 24, maxDepth: 512 },
    ...{ fromUs: from * 1000, toUs: to * 1000 },
  })
  const read = { ids: [] as string[], gaps: 0, malformed: 0, steps: 0 }
  let cursor: string | undefined
  const step = async () => {
    const parts = range.read(cursor, new AbortController().signal)
    for (let next = await parts.next(); !next.done; next = await parts.next(nothing)) {
      const { entries, quarantined, gaps, cursor: nextCursor } = next.value
      for (let i = 0; i < entries.count; i++) read.ids.push(entries.id(i))
      read.malformed += quarantined.length
      read.gaps += gaps
      cursor = nextCursor ?? cursor
    }
  }
  const readAll = async (most = 200) => {
    for (; !range.plan(cursor).caughtUp; read.steps++) {
      if (read.steps >= most) throw new Error(`no end after ${most} steps: ${cursor ?? ''}`)
      await driven(
        clock,
        step().catch(() => clock.sleep(SECOND)),
      )
    }
    return read
  }
  const expected = () =>
    mock
      .entries()
      .filter(({ atUs }) => atUs >= from * 1000 && atUs < to * 1000)
      .map(({ id }) => id)
  return { clock, mock, reporter, range, readAll, step, read, expected, cursorOf: () => cursor }
}

export const spread = (setup: ReturnType<typeof openRangeSetup>, count: number, span = 2 * DAY) => {
  for (let i = 0; i < count; i++)
    setup.mock.add({ at: START - span + Math.floor((i * (span + HOUR)) / count), visibleAt: 0 })
}

/** As numbers, since thousands of ids are unreadable. */
export function compared(ids: readonly string[], expected: readonly string[]) {
  const met = new Set(ids)
  const wanted = new Set(expected)
  expect(wanted.size).toBeGreaterThan(0)
  return {
    missing: expected.filter((id) => !met.has(id)).length,
    strange: ids.filter((id) => !wanted.has(id)).length,
    twice: ids.length - met.size,
  }
}

export const jsonReply = (text: string, status = 200): HttpReply => ({
  ...{ status, headers: { 'content-type': 'application/json' } },
  body: (async function* () {
    yield Buffer.from(text)
  })(),
})
