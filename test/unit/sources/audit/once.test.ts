// `run --once` every hour finds what the daemon finds, and its end means that everything was read.
import { expect, it } from 'vitest'
import type { HttpReply } from '../../../../src/contracts/platform.ts'
import { AuditSource } from '../../../../src/sources/audit/audit.ts'
import { DAY, HOUR, MINUTE, SECOND, START, openHarness } from '../../app/audit-harness.ts'
import type { Harness } from '../../app/audit-harness.ts'

/** Runs like a new process until the source says that everything is read. */
async function run(harness: Harness, most = 100): Promise<boolean> {
  const source = new AuditSource(harness.options)
  for (let i = 0; i < most; i++) {
    const { caughtUp, dueAt } = source.plan(harness.cursor)
    if (caughtUp) return true
    while (harness.clock.now() < dueAt && harness.clock.advance(dueAt));
    await harness.try(source)
  }
  return false
}

async function wait(harness: Harness, ms: number): Promise<void> {
  while (harness.clock.advance(harness.clock.now() + ms));
}

it.each(['earliest', 'latest'] as const)(
  'ten entries that came to an empty workspace are all read by the next run (start: %s)',
  async (kind) => {
    const harness = await openHarness({ source: { once: true, lookbackMs: DAY, start: { kind } } })
    expect(await run(harness)).toBe(true)
    await wait(harness, HOUR)
    const ids = harness.add(10)
    expect(await run(harness)).toBe(true)
    expect(await harness.ids()).toEqual(ids)
  },
)

it('a log whose first entry is malformed is not done before the following entries are read', async () => {
  const harness = await openHarness({ source: { once: true } })
  expect(await run(harness)).toBe(true)
  await wait(harness, HOUR)
  harness.mock.add({ at: START + 30 * MINUTE, visibleAt: 0, defect: 'no_id' })
  const ids = harness.add(10)
  expect(await run(harness)).toBe(true)
  expect(await harness.ids()).toEqual(ids)
})

it.each([3 * MINUTE, 40 * MINUTE, 5 * HOUR, 17 * HOUR])(
  'an entry that becomes visible %d ms late is found by hourly runs, as by the daemon',
  async (lateMs) => {
    const harness = await openHarness({ source: { once: true, lookbackMs: DAY } })
    const ids = harness.add(50, START - SECOND)
    const late = harness.mock.add({ at: START + 90 * MINUTE, visibleAt: START + 90 * MINUTE + lateMs }).id
    for (let hour = 0; hour < 25; hour++) {
      expect(await run(harness)).toBe(true)
      await wait(harness, START + (hour + 1) * HOUR - harness.clock.now())
      ids.push(...harness.add(1))
    }
    expect(await harness.ids()).toContain(late)
  },
)

it('lateness seen on the last page of a run is known to the next run', async () => {
  const harness = await openHarness({ source: { once: true, lookbackMs: DAY } })
  harness.add(50, START - SECOND)
  harness.mock.add({ at: START - 3 * HOUR, visibleAt: START + HOUR })
  await run(harness)
  await wait(harness, 7 * HOUR)
  await run(harness)
  expect(harness.state().lateUs).toBeGreaterThan(2.9 * HOUR * 1000)
})

it('a run does no lookback that is not due yet', async () => {
  const harness = await openHarness({ source: { once: true, lookbackMs: DAY } })
  harness.add(50, START - SECOND)
  await run(harness)
  await wait(harness, HOUR)
  harness.asked()
  await run(harness)
  expect(harness.asked().map(({ endpoint }) => endpoint)).not.toContain('search')
})

it('a run is not done while a due lookback fails, and the next run repeats it', async () => {
  const is = { out: false }
  const wrong = (): HttpReply => ({
    ...{ status: 200, headers: { 'content-type': 'application/json' } },
    body: (async function* () {
      yield Buffer.from('{"error":"no"}')
    })(),
  })
  const harness = await openHarness({
    source: { once: true, lookbackMs: DAY },
    wrap: (send) => (request, signal) =>
      is.out && request.url.includes('/search')
        ? harness.clock.sleep(SECOND).then(wrong)
        : send(request, signal),
  })
  harness.add(50, START - SECOND)
  expect(await run(harness)).toBe(true)
  const late = harness.mock.add({ at: START - 10 * MINUTE, visibleAt: START + 7 * HOUR }).id
  await wait(harness, 7 * HOUR)
  is.out = true
  expect(await run(harness)).toBe(false)
  is.out = false
  expect(await run(harness)).toBe(true)
  expect(await harness.ids()).toContain(late)
})

const paces = [10, 100, SECOND, 30 * SECOND, 10 * MINUTE, 5 * HOUR]

it.each(
  paces.flatMap((apartMs) =>
    [900, 2_500].flatMap((count) => [true, false].map((once) => ({ apartMs, count, once }))),
  ),
)(
  'right after the first drain the overlap covers two minutes: $count entries, one per $apartMs ms (once: $once)',
  async ({ apartMs, count, once }) => {
    const harness = await openHarness({ source: { once } })
    for (let i = 1; i <= count; i++) harness.mock.add({ at: START - i * apartMs, visibleAt: 0 })
    const last = START - apartMs
    const spanMs = Math.min(2 * MINUTE, (count - 1) * apartMs)
    // Just before the end of the drain, and as far back as the overlap or the log reaches.
    const late = [1, spanMs / 2, spanMs - 1].map(
      (beforeMs) => harness.mock.add({ at: Math.floor(last - beforeMs), visibleAt: START + MINUTE }).id,
    )
    await (once ? run(harness) : harness.drain())
    await wait(harness, 10 * MINUTE)
    await (once ? run(harness) : harness.drain())
    expect(await harness.ids()).toEqual(expect.arrayContaining(late))
  },
)
