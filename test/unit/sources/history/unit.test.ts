// The unit in which the history counts its times: what proves one, and what says nothing of either.
import { Readable } from 'node:stream'
import { expect, test } from 'vitest'
import { ConnectorError } from '../../../../src/core/errors.ts'
import { historyEvent } from '../../../fakes/history-server.ts'
import { DAY, HOUR, MINUTE, SECOND, START } from '../../app/audit-harness.ts'
import { eventsFrom, openHistoryHarness } from './harness.ts'
import type { HistoryHarness } from './harness.ts'

const latest = { start: { kind: 'latest' }, lookbackMs: 0 } as const

/** Requests in milliseconds are answered so; all others as the server does. Returns what was requested so. */
function inMilliseconds(harness: HistoryHarness, status: number, body: string): string[] {
  const asked: string[] = []
  harness.through((request, signal) => {
    if (!/start_time=\d{13}/.test(request.url)) return harness.server.transport(request, signal)
    asked.push(request.url)
    return Promise.resolve({ status, headers: {}, body: Readable.from([Buffer.from(body)]) })
  })
  return asked
}

const shown = (...ats: number[]) => `{"events":[${ats.map((at) => historyEvent(at).v2).join()}]}`

test.each([
  ['of long ago', shown(START - 50 * DAY)],
  ['of the future', shown(START + 50 * DAY)],
  ['of which none can be read', '{"events":[1]}'],
  ['of which only one is in the window', shown(START - MINUTE, START - 50 * DAY)],
])('events %s, with nothing in the assumed unit, prove no other unit', async (_, body) => {
  const harness = await openHistoryHarness({ source: latest })
  const asked = inMilliseconds(harness, 200, body)
  await harness.live(START + HOUR)
  expect(asked.length).toBeGreaterThan(0)
  expect(harness.state()).toMatchObject({ unit: 's', unitSure: false })
  expect(await harness.ids()).toEqual([])
})

test.each([
  ['fails', 500, '{}'],
  ['breaks off', 200, '{"events":['],
  ['is refused', 400, '{}'],
])(
  'a request in the other unit that %s does not stop reading in the assumed one',
  async (_, status, body) => {
    const harness = await openHistoryHarness({ source: latest })
    const asked = inMilliseconds(harness, status, body)
    expect(await harness.try()).toBeUndefined()
    expect(asked).toHaveLength(1)
    expect(harness.source.plan(harness.cursor).caughtUp).toBe(true)
    expect(harness.state()).toMatchObject({ unit: 's', unitSure: false })
  },
)

test.each([
  ['a minute before it', 'from', -MINUTE, true],
  ['longer before it', 'from', -MINUTE - SECOND, false],
  ['a minute behind it', 'to', MINUTE, true],
  ['longer behind it', 'to', MINUTE + SECOND, false],
] as const)('events %s are believed to be of the window: %#', async (_, edge, byMs, proves) => {
  const harness = await openHistoryHarness({ source: latest })
  harness.through((request, signal) => {
    const [, from, to] = /start_time=(\d{13})&end_time=(\d{13})/.exec(request.url) ?? []
    if (from === undefined) return harness.server.transport(request, signal)
    // The request has one second more on either side than the window.
    const at = edge === 'from' ? Number(from) + SECOND : Number(to) - SECOND
    const body = Readable.from([Buffer.from(shown(at + byMs))])
    return Promise.resolve({ status: 200, headers: {}, body })
  })
  await harness.try()
  expect(harness.state()).toMatchObject(
    proves ? { unit: 'ms', unitSure: true } : { unit: 's', unitSure: false },
  )
})

test('an API that is not reached with the request in the other unit is reported as that', async () => {
  const harness = await openHistoryHarness({ source: latest })
  harness.through((request, signal) => {
    if (!/start_time=\d{13}/.test(request.url)) return harness.server.transport(request, signal)
    throw new ConnectorError('unreachable', 'as scripted')
  })
  expect(await harness.try()).toMatchObject({ code: 'unreachable' })
})

test.each([30 * SECOND, 5 * MINUTE])(
  'a day that began %i ms ago is requested in no unit to an end before its start',
  async (ms) => {
    const startAt = Math.ceil(START / DAY) * DAY + ms
    const harness = await openHistoryHarness({
      startAt,
      otherUnit: 'empty',
      source: { start: { kind: 'span', ms: DAY } },
    })
    for (let steps = 0; steps < 10; steps++) {
      expect(await harness.try()).toBeUndefined()
      while (harness.clock.advance(harness.clock.now() + MINUTE));
    }
  },
)

test('a proven unit is not doubted: a refused window is requested in no other', async () => {
  const harness = await openHistoryHarness({
    source: { ...latest, start: { kind: 'span', ms: 20 * DAY } },
    fault: ({ from }) => (from < START - 5 * DAY ? { status: 400 } : undefined),
  })
  harness.server.events = [historyEvent(START - HOUR)]
  const asked = inMilliseconds(harness, 200, shown())
  for (let steps = 0; steps < 40 && harness.reporter.gaps === 0; steps++) {
    await harness.try()
    harness.clock.advance(harness.clock.now() + 1_000)
  }
  expect(harness.reporter.gaps).toBe(1)
  expect(harness.state()).toMatchObject({ unit: 's', unitSure: true })
  expect(asked).toEqual([])
})

test('a failure of the request in the other unit is reported unchanged', async () => {
  const harness = await openHistoryHarness({ source: latest, fault: () => ({ status: 400 }) })
  inMilliseconds(harness, 401, '{}')
  expect(await harness.try()).toMatchObject({ code: 'unauthorized' })
  expect(harness.cursor === undefined || harness.state().unit === 's').toBe(true)
})

test('rows without a time prove the unit, though they are shown for each day of a long past', async () => {
  const harness = await openHistoryHarness({
    ...({ unit: 'ms', otherUnit: 'empty' } as const),
    source: { version: 'v1', start: { kind: 'span', ms: 10 * DAY } },
  })
  const timeless = (at: number) => historyEvent(at, { timeless: true })
  harness.server.events = eventsFrom(timeless, START - 9 * DAY, 9 * 24, HOUR)
  await harness.live(START + MINUTE)
  expect(harness.state()).toMatchObject({ unit: 'ms', unitSure: true, timeless: true })
  expect(await harness.ids()).toHaveLength(9 * 24)
  expect(harness.log.lines.filter((line) => line.includes('windows of a UTC day'))).toHaveLength(1)
})

test('a past that is refused in either unit leaves the assumed unit', async () => {
  const harness = await openHistoryHarness({
    source: { ...latest, start: { kind: 'span', ms: 20 * DAY } },
    fault: ({ from }) => (from < START - 5 * DAY ? { status: 400 } : undefined),
  })
  for (let steps = 0; steps < 40 && harness.reporter.gaps === 0; steps++) {
    await harness.try()
    expect(harness.state().unit).toBe('s')
    harness.clock.advance(harness.clock.now() + 1_000)
  }
  expect(harness.reporter.gaps).toBe(1)
})

test('the error of a window refused in both units says so', async () => {
  const harness = await openHistoryHarness({ source: latest, fault: () => ({ status: 400 }) })
  const message = expect.stringContaining('with times in seconds as well as in milliseconds') as string
  expect(await harness.try()).toMatchObject({ code: 'bad_request', message })
})

test('seconds that were refused once are tried again as long as milliseconds show nothing, and are reported as the unit', async () => {
  const harness = await openHistoryHarness({ source: latest, otherUnit: 'empty' })
  let refuses = true
  harness.through((request, signal) =>
    refuses && /start_time=\d{10}&/.test(request.url)
      ? Promise.resolve({ status: 400, headers: {}, body: Readable.from([Buffer.from('{}')]) })
      : harness.server.transport(request, signal),
  )
  await harness.live(START + MINUTE)
  expect(harness.state()).toMatchObject({ unit: 'ms', unitSure: false })
  refuses = false
  harness.server.events = [historyEvent(START + 2 * MINUTE)]
  await harness.live(START + 3 * HOUR)
  expect(harness.state()).toMatchObject({ unit: 's', unitSure: true })
  expect(await harness.ids()).toHaveLength(1)
  expect(harness.log.lines.filter((line) => line.includes('another unit'))).toHaveLength(1)
})
