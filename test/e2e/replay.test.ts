// The built program replays from the API what its journal dropped: over kills, once, marked, and to one sink alone.
import { execFile } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { roundsOf } from '../rounds.ts'
import { buildProgram } from './built.ts'
import type { Built } from './built.ts'
import { startChild, until } from './child.ts'
import { fileLines } from './judge.ts'
import { killAt, startDaemon } from './lives.ts'
import { openStage } from './stage.ts'
import type { Stage } from './stage.ts'
import type { CrashStep } from './steps.ts'

const DAY_MS = 86_400_000
const PATIENCE_MS = 60_000
const BATCH = 200
/** Each of them takes a sixth of the request limit for a minute; a replay has six tenths of it. */
const deaths: readonly (readonly (readonly [CrashStep, number])[])[] = [
  [
    ['page read again, kept', 2],
    ['file half written', 1],
  ],
  [
    ['page read again, not kept', 3],
    ['file synced, not settled', 2],
  ],
]

let built: Built
beforeAll(async () => {
  built = await buildProgram()
})
afterAll(() => built.remove())

interface Line {
  readonly id: string
  readonly replay?: true
  readonly entry: unknown
}

const linesOf = (stage: Stage) => fileLines(stage).map((line) => JSON.parse(line.toString()) as Line)
const replayed = (stage: Stage) => stage.written().toString('latin1').split('"replay":true').length - 1

async function said(stage: Stage, ...args: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, [
    ...[built.main, 'replay', ...args, '--config', stage.config],
  ])
  return stdout
}

/** Asks again and again until the answer is like this. */
async function untilSaid(stage: Stage, wanted: RegExp, ...args: string[]): Promise<void> {
  let last = ''
  const end = Date.now() + PATIENCE_MS
  while (Date.now() < end) {
    last = await said(stage, ...args).catch((error: unknown) => String(error))
    if (wanted.test(last)) return
    await sleep(200)
  }
  throw new Error(`never said ${wanted.source}: ${last}`)
}

test.concurrent.for(
  roundsOf(
    deaths.map((each) => [each]),
    1,
  ),
)(
  'a replay of dropped entries is read from the API, arrives once, marked, at its sink alone, over kills: %j',
  async ([steps = []]) => {
    const today = Math.floor(Date.now() / DAY_MS) * DAY_MS
    const fromMs = today - 2 * DAY_MS
    const stage = await openStage({
      traffic: {
        backlog: 6_000,
        since: today - 3 * DAY_MS,
        entriesPerHour: 3_600,
        rhythm: 'steady',
        exotic: 0.2,
      },
      switches: { latency: 30, page_cap: 100, retry_after: 'none' },
      journal: { keep_delivered: '0B' },
      batchEntries: BATCH,
      archive: { format: 'envelope' },
    })
    try {
      await runOnce(stage)
      const days = ['--from', new Date(fromMs).toISOString(), '--to', new Date(today).toISOString()]
      await replayOver(stage, ['--sink', 'archive', ...days], steps)
      await runOnce(stage)
      judge(stage, fromMs * 1000, today * 1000, steps.length + 1)
    } finally {
      await stage.close()
    }
  },
)

async function runOnce(stage: Stage): Promise<void> {
  const once = startChild([built.main, 'run', '--once', '--config', stage.config])
  expect(await once.ended, once.stderr()).toEqual({ code: 0, signal: null })
}

/** The first daemon dies soon after the replay's first lines, the next ones at their steps, the last one ends it. */
async function replayOver(
  stage: Stage,
  asked: readonly string[],
  steps: (typeof deaths)[number],
): Promise<void> {
  const first = await startDaemon(built, stage)
  // The journal is pruned at the start.
  await untilSaid(
    stage,
    /^The journal has nothing .*[^]*is read from the API: about \d+ requests/,
    ...asked,
    '--dry-run',
  )
  expect(replayed(stage)).toBe(0)
  const command = startChild([built.main, 'replay', ...asked, '--config', stage.config])
  await until(
    () => replayed(stage) > 0,
    PATIENCE_MS,
    () => first.stderr() + command.stderr(),
  )
  first.kill('SIGKILL')
  await first.ended
  command.kill('SIGINT')
  // A process that is at its end already has released its signals.
  expect([
    { code: 0, signal: null },
    { code: null, signal: 'SIGINT' },
  ]).toContainEqual(await command.ended)
  for (const [step, nth] of steps) {
    const { child, reported } = await killAt(built, stage, step, nth)
    expect(await child.ended, reported).toEqual({ code: null, signal: 'SIGKILL' })
  }
  const last = await startDaemon(built, stage)
  await untilSaid(stage, /from the API: done: .* 0 filtered, 0 malformed\n$/, '--status')
  last.kill('SIGTERM')
  expect(await last.ended, last.stderr()).toEqual({ code: 0, signal: null })
}

function judge(stage: Stage, fromUs: number, toUs: number, kills: number): void {
  const lines = linesOf(stage)
  const again = lines.filter(({ replay }) => replay === true)
  const wanted = stage.mock.entries().filter(({ atUs }) => atUs >= fromUs && atUs < toUs)
  expect(wanted.length).toBeGreaterThan(2_000)
  expect(again.map(({ id }) => id).sort()).toEqual(wanted.map(({ id }) => id).sort())
  const raws = new Map(wanted.map(({ id, raw }) => [id, JSON.parse(Buffer.from(raw).toString()) as unknown]))
  for (const { id, entry } of again) expect(entry).toEqual(raws.get(id))
  const usual = lines.filter(({ replay }) => replay !== true).map(({ id }) => id)
  expect(new Set(usual).size).toBe(usual.length)
  // The other sink: nothing is missing, and nothing of the replay came to it.
  const others = stage.hec.indexed.map(({ event }) => (JSON.parse(event.toString()) as { id: string }).id)
  const ids = new Set(others)
  expect(wanted.filter(({ id }) => !ids.has(id))).toEqual([])
  expect(others.length).toBeLessThanOrEqual(usual.length + BATCH * kills)
}
