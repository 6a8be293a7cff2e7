// The built program reads the history's past: a backfill over a kill, each event in the file once, and a reconciliation without a difference.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { roundsOf } from '../rounds.ts'
import { buildProgram } from './built.ts'
import type { Built } from './built.ts'
import { startChild, until } from './child.ts'
import { fileLines } from './judge.ts'
import { startDaemon } from './lives.ts'
import { openStage } from './stage.ts'
import type { Stage } from './stage.ts'

const DAY_MS = 86_400_000
const PATIENCE_MS = 30_000
const sources = ['history.usage', 'history.query'] as const

let built: Built
beforeAll(async () => {
  built = await buildProgram()
})
afterAll(() => built.remove())

interface Kept {
  readonly source: string
  readonly id: string
  readonly time: string
}

const keptOf = (stage: Stage, from: number, to: number) =>
  fileLines(stage)
    .map((line) => JSON.parse(line.toString()) as Kept)
    .filter(({ source, time }) => {
      const at = Date.parse(time.endsWith('Z') ? time : `${time.replace(' ', 'T')}Z`)
      return source.startsWith('history.') && at >= from && at < to
    })

test.for(roundsOf(['v2', 'v1'] as const, 1))(
  'a backfill that is killed in mid-answer continues, repeats nothing, and can be proven: %s',
  async (version) => {
    const today = Math.floor(Date.now() / DAY_MS) * DAY_MS
    // Feedback comes within four days: later nothing changes between the backfill and the reconcile.
    const [from, to] = [today - 8 * DAY_MS, today - 4 * DAY_MS]
    const stage = await openStage({
      withoutHec: true,
      traffic: { backlog: 12_000, since: from - DAY_MS, entriesPerHour: 0, rhythm: 'steady' },
      switches: { latency: 100, history_end: 'inclusive' },
      areas: { history: { version, query: true, interval: '1h', start: 'latest', lookback: '0s' } },
      archive: { sources: ['audit', ...sources], format: 'envelope' },
    })
    try {
      const command = (...args: string[]) => startChild([built.main, ...args, '--config', stage.config])
      const span = ['--from', new Date(from).toISOString(), '--to', new Date(to).toISOString()]
      const first = await startDaemon(built, stage)
      const asked = () =>
        stage.mock.requests.filter(({ area, target }) => area === 'history' && isPast(target, today))
      const backfill = command('backfill', ...span)
      await until(
        () => asked().length >= 2,
        PATIENCE_MS,
        () => `${backfill.stderr()}\n${first.stderr()}`,
      )
      first.kill('SIGKILL')
      await first.ended
      const second = await startDaemon(built, stage)
      expect(await backfill.ended, backfill.stderr()).toEqual({ code: 0, signal: null })
      // Once more: all of it is known.
      const again = command('backfill', ...span)
      expect(await again.ended, again.stderr()).toEqual({ code: 0, signal: null })
      const wanted = stage.mock.history().filter(({ atUs }) => atUs >= from * 1000 && atUs < to * 1000)
      expect(wanted.length).toBeGreaterThan(500)
      await until(
        () => keptOf(stage, from, to).length >= wanted.length,
        PATIENCE_MS,
        () => `${keptOf(stage, from, to).length} of ${wanted.length}\n${second.stderr()}`,
      )
      const live = command('reconcile', ...span)
      expect(await live.ended, live.stderr()).toEqual({ code: 0, signal: null })
      second.kill('SIGTERM')
      expect(await second.ended, second.stderr()).toEqual({ code: 0, signal: null })
      const kept = keptOf(stage, from, to)
      const names = new Set(kept.map(({ source, id }) => `${source} ${id}`))
      expect(kept.length).toBe(wanted.length)
      expect(names.size).toBe(kept.length)
      if (version === 'v2')
        expect(names).toEqual(new Set(wanted.map(({ kind, id }) => `history.${kind} ${id}`)))
      const alone = command('reconcile', ...span)
      expect(await alone.ended, alone.stderr()).toEqual({ code: 0, signal: null })
    } finally {
      await stage.close()
    }
  },
)

function isPast(target: string, today: number): boolean {
  const start = Number(new URL(target, 'http://api.test').searchParams.get('start_time'))
  return start * 1000 < today - 2_000
}
