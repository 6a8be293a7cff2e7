// The unit in which the history counts its times: what proves one, and what says nothing of either.
import { Readable } from 'node:stream'
import { expect, test } from 'vitest'
import { ConnectorError } from '../../../../src/core/errors.ts'
import { historyEvent } from '../../../fakes/history-server.ts'
import { DAY, HOUR, MINUTE, SECOND, START } from '../../app/desk.ts'
import { eventsFrom, openHistoryDesk } from './desk.ts'
import type { HistoryDesk } from './desk.ts'

const latest = { start: { kind: 'latest' }, lookbackMs: 0 } as const

/** Requests in milliseconds are answered so; all others as the server does. Returns what was requested so. */
function inMilliseconds(desk: HistoryDesk, status: number, body: string): string[] {
  const asked: string[] = []
  desk.through((request, signal) => {
    if (!/start_time=\d{13}/.test(request.url)) return desk.server.transport(request, signal)
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
  const desk = await openHistoryDesk({ source: latest })
  const asked = inMilliseconds(desk, 200, body)
  await desk.live(START + HOUR)
  expect(asked.length).toBeGreaterThan(0)
  expect(desk.state()).toMatchObject({ unit: 's', unitSure: false })
  expect(await desk.ids()).toEqual([])
})

test.each([
  ['fails', 500, '{}'],
  ['breaks off', 200, '{"events":['],
  ['is refused', 400, '{}'],
])(
  'a request in the other unit that %s does not stop reading in the assumed one',
  async (_, status, body) => {
    const desk = await openHistoryDesk({ source: latest })
    const asked = inMilliseconds(desk, status, body)
    expect(await desk.try()).toBeUndefined()
    expect(asked).toHaveLength(1)
    expect(desk.source.plan(desk.cursor).caughtUp).toBe(true)
    expect(desk.state()).toMatchObject({ unit: 's', unitSure: false })
  },
)

test.each([
  ['a minute before it', 'from', -MINUTE, true],
  ['longer before it', 'from', -MINUTE - SECOND, false],
  ['a minute behind it', 'to', MINUTE, true],
  ['longer behind it', 'to', MINUTE + SECOND, false],
] as const)('events %s are believed to be of the window: %#', async (_, edge, byMs, proves) => {
  const desk = await openHistoryDesk({ source: latest })
  desk.through((request, signal) => {
    const [, from, to] = /start_time=(\d{13})&end_time=(\d{13})/.exec(request.url) ?? []
    if (from === undefined) return desk.server.transport(request, signal)
    // The request has one second more on either side than the window.
    const at = edge === 'from' ? Number(from) + SECOND : Number(to) - SECOND
    const body = Readable.from([Buffer.from(shown(at + byMs))])
    return Promise.resolve({ status: 200, headers: {}, body })
  })
  await desk.try()
  expect(desk.state()).toMatchObject(proves ? { unit: 'ms', unitSure: true } : { unit: 's', unitSure: false })
})

test('an API that is not reached with the request in the other unit is reported as that', async () => {
  const desk = await openHistoryDesk({ source: latest })
  desk.through((request, signal) => {
    if (!/start_time=\d{13}/.test(request.url)) return desk.server.transport(request, signal)
    throw new ConnectorError('unreachable', 'as scripted')
  })
  expect(await desk.try()).toMatchObject({ code: 'unreachable' })
})

test.each([30 * SECOND, 5 * MINUTE])(
  'a day that began %i ms ago is requested in no unit to an end before its start',
  async (ms) => {
    const startAt = Math.ceil(START / DAY) * DAY + ms
    const desk = await openHistoryDesk({
      startAt,
      otherUnit: 'empty',
      source: { start: { kind: 'span', ms: DAY } },
    })
    for (let steps = 0; steps < 10; steps++) {
      expect(await desk.try()).toBeUndefined()
      while (desk.clock.advance(desk.clock.now() + MINUTE));
    }
  },
)

test('a proven unit is not doubted: a refused window is requested in no other', async () => {
  const desk = await openHistoryDesk({
    source: { ...latest, start: { kind: 'span', ms: 20 * DAY } },
    fault: ({ from }) => (from < START - 5 * DAY ? { status: 400 } : undefined),
  })
  desk.server.events = [historyEvent(START - HOUR)]
  const asked = inMilliseconds(desk, 200, shown())
  for (let steps = 0; steps < 40 && desk.reporter.gaps === 0; steps++) {
    await desk.try()
    desk.clock.advance(desk.clock.now() + 1_000)
  }
  expect(desk.reporter.gaps).toBe(1)
  expect(desk.state()).toMatchObject({ unit: 's', unitSure: true })
  expect(asked).toEqual([])
})

test('a failure of the request in the other unit is reported unchanged', async () => {
  const desk = await openHistoryDesk({ source: latest, fault: () => ({ status: 400 }) })
  inMilliseconds(desk, 401, '{}')
  expect(await desk.try()).toMatchObject({ code: 'unauthorized' })
  expect(desk.cursor === undefined || desk.state().unit === 's').toBe(true)
})

test('rows without a time prove the unit, though they are shown for each day of a long past', async () => {
  const desk = await openHistoryDesk({
    ...({ unit: 'ms', otherUnit: 'empty' } as const),
    source: { version: 'v1', start: { kind: 'span', ms: 10 * DAY } },
  })
  const timeless = (at: number) => historyEvent(at, { timeless: true })
  desk.server.events = eventsFrom(timeless, START - 9 * DAY, 9 * 24, HOUR)
  await desk.live(START + MINUTE)
  expect(desk.state()).toMatchObject({ unit: 'ms', unitSure: true, timeless: true })
  expect(await desk.ids()).toHaveLength(9 * 24)
  expect(desk.log.lines.filter((line) => line.includes('windows of a UTC day'))).toHaveLength(1)
})

test('a past that is refused in either unit leaves the assumed unit', async () => {
  const desk = await openHistoryDesk({
    source: { ...latest, start: { kind: 'span', ms: 20 * DAY } },
    fault: ({ from }) => (from < START - 5 * DAY ? { status: 400 } : undefined),
  })
  for (let steps = 0; steps < 40 && desk.reporter.gaps === 0; steps++) {
    await desk.try()
    expect(desk.state().unit).toBe('s')
    desk.clock.advance(desk.clock.now() + 1_000)
  }
  expect(desk.reporter.gaps).toBe(1)
})

test('the error of a window refused in both units says so', async () => {
  const desk = await openHistoryDesk({ source: latest, fault: () => ({ status: 400 }) })
  const message = expect.stringContaining('with times in seconds as well as in milliseconds') as string
  expect(await desk.try()).toMatchObject({ code: 'bad_request', message })
})

test('seconds that were refused once are tried again as long as milliseconds show nothing, and are reported as the unit', async () => {
  const desk = await openHistoryDesk({ source: latest, otherUnit: 'empty' })
  let refuses = true
  desk.through((request, signal) =>
    refuses && /start_time=\d{10}&/.test(request.url)
      ? Promise.resolve({ status: 400, headers: {}, body: Readable.from([Buffer.from('{}')]) })
      : desk.server.transport(request, signal),
  )
  await desk.live(START + MINUTE)
  expect(desk.state()).toMatchObject({ unit: 'ms', unitSure: false })
  refuses = false
  desk.server.events = [historyEvent(START + 2 * MINUTE)]
  await desk.live(START + 3 * HOUR)
  expect(desk.state()).toMatchObject({ unit: 's', unitSure: true })
  expect(await desk.ids()).toHaveLength(1)
  expect(desk.log.lines.filter((line) => line.includes('another unit'))).toHaveLength(1)
})
