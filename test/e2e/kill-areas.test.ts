// The built program with history and vault on, killed at any moment: each entry of each source arrives.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { roundsOf } from '../rounds.ts'
import { historyTruth, judgeHistory } from '../simulation/judge-history.ts'
import { judgeInventory, judgeRecords } from '../simulation/judge-vault.ts'
import { lineOf } from '../simulation/lines.ts'
import type { Line } from '../simulation/lines.ts'
import { dice } from '../simulation/random.ts'
import type { Dice } from '../simulation/random.ts'
import { buildProgram } from './built.ts'
import type { Built } from './built.ts'
import { fileLines, judge } from './judge.ts'
import { calm, die, expectNoSecret, killAt, killAtRandom } from './lives.ts'
import type { Death } from './lives.ts'
import { openStage } from './stage.ts'
import type { Stage } from './stage.ts'
import { areaSteps } from './steps.ts'
import type { CrashStep } from './steps.ts'

const DAY_MS = 86_400_000
/** Sixteen in all, four a journal. */
const KILLS = 4
/** A day has more questions than one transaction. */
const BACKLOG = 15_000
const BATCH = 500
const version = { v2: { version: 'v2' }, v1: { version: 'v1' } } as const

let built: Built
beforeAll(async () => {
  built = await buildProgram()
})
afterAll(() => built.remove())

type Version = keyof typeof version
const [halfRead, part, page] = areaSteps

async function openRound(seed: number, api: Version): Promise<Stage> {
  return openStage({
    seed,
    batchEntries: BATCH,
    traffic: {
      ...{ backlog: BACKLOG, since: Date.now() - DAY_MS, entriesPerHour: 3_600 },
      ...{ rhythm: 'steady', exotic: 0.2 },
    },
    switches: { latency: 10, retry_after: 'none', per_page_cap: 20, deletion_takes: 100 },
    faults: { error_500: 0.01, reset: 0.01, cut: 0.02, truncated: 0.02, shifting_list: 0.02 },
    areas: {
      history: { ...version[api], query: true, interval: '5s', start: '3d', lookback: '1d' },
      vault: { projects: true, interval: '1s' },
    },
    archive: { sources: ['audit', 'history.usage', 'history.query', 'vault.projects'] },
  })
}

/** Errors at the sinks with all but the audit log. `since`: epoch ms of the first life without faults. */
function judgeAreas({ mock, hec }: Stage, api: Version, since: number, lines: readonly Line[]) {
  const truth = historyTruth({
    // Every day that is read at all is read to its end by now.
    scenario: {
      version: api,
      v1UntilMs: undefined,
      query: true,
      startSpanMs: 3 * DAY_MS,
      rereadMs: 30 * DAY_MS,
    },
    ...{ mock, startAt: since, now: Date.now(), timeless: false, doubles: false },
    ...{ askedFromMs: Infinity, dueBefore: since, everyContent: false },
  })
  const events = hec.indexed.map(({ event }) => lineOf(event.toString('latin1')))
  const usual = ['audit', 'history.usage', 'vault.projects']
  const archive = judgeHistory(truth, 'archive', [...usual, 'history.query'], lines)
  const splunk = [judgeHistory(truth, 'splunk', usual, events), judgeRecords('splunk', events, lines)]
  const passes = mock.requests.filter(({ area, target }) => area === 'vault' && /[?&]page=1&/.test(target))
  const vault = { mock, passAt: passes.at(-1)?.at ?? 0, goneBefore: 0, clocksMs: 2_000 }
  const kinds = new Set(lines.map(({ source }) => source))
  return {
    faults: [
      ...archive.faults,
      ...(archive.repeats > 0 ? [`archive: ${archive.repeats} lines stand twice`] : []),
      ...judgeInventory(vault, lines),
      ...splunk.flatMap(({ faults }) => faults),
      ...(kinds.size === 4 ? [] : [`archive: only ${[...kinds].join(', ')}`]),
    ],
    repeats: splunk.reduce((sum, { repeats }) => sum + repeats, 0),
  }
}

async function round(
  seed: number,
  api: Version,
  kill: (stage: Stage, roll: Dice) => Promise<Death>,
): Promise<void> {
  const roll = dice(seed)
  const stage = await openRound(seed, api)
  try {
    const { reported, logs } = await die(KILLS, () => kill(stage, roll))
    const since = Date.now()
    expectNoSecret(logs + (await calm(built, stage)))
    const mayRepeat = BATCH * (KILLS + 1)
    const lines = fileLines(stage).map((line) => lineOf(line.toString('latin1')))
    const areas = judgeAreas(stage, api, since, lines)
    const audit = judge(stage, {
      mayRepeat: mayRepeat - areas.repeats,
      only: (line) => lineOf(Buffer.from(line).toString('latin1')).source === 'audit',
    })
    expect([...audit, ...areas.faults], `seed ${seed}, killed: ${reported}`).toEqual([])
  } finally {
    await stage.close()
  }
}

describe.concurrent(
  'the built program, killed while it reads history and vault, loses nothing and reports nothing twice',
  () => {
    const random = [
      [1, 'v2'],
      [2, 'v1'],
    ] as const
    test.for(roundsOf(random, 1))('at random moments, seed %i, %s', async ([seed, api]) => {
      await round(3_000 + seed, api, (stage, roll) => killAtRandom(built, stage, roll))
    })

    // An answer in chunks comes before any whole one: the rest of a day is too little for a chunk at some hours.
    const atSteps = [
      [3, 'v2', [halfRead, part, page, halfRead]],
      [4, 'v1', [part, page, halfRead, page]],
    ] as const
    test.for(roundsOf(atSteps, 1))(
      'in mid-answer and between two pages, seed %i, %s',
      async ([seed, api, steps]) => {
        const left: CrashStep[] = [...steps]
        await round(3_000 + seed, api, (stage, roll) =>
          killAt(built, stage, left.shift() as CrashStep, 1 + roll.below(2)),
        )
      },
    )
  },
)
