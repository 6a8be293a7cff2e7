// At the start a receiver is probed, beside its deliveries, until one of them shows whether it answers.
import { describe, expect, it } from 'vitest'
import { ConnectorError } from '../../../src/core/errors.ts'
import { probe } from '../../../src/delivery/loop.ts'
import { SinkNotes } from '../../fakes/reporters.ts'
import { logOf } from '../../contract/journal-parts.ts'

function setup(answers: readonly (ConnectorError | 'ready' | 'hangs')[]) {
  const left = [...answers]
  const reporter = new SinkNotes()
  const lines: string[] = []
  const stop = new AbortController()
  const clock = {
    at: 0,
    now: () => clock.at,
    elapsed: () => clock.at,
    sleep: async (ms: number) => void (clock.at += ms),
  }
  const asked: number[] = []
  const sink = {
    name: 'archive',
    probe: async () => {
      asked.push(clock.at)
      const answer = left.shift() ?? 'ready'
      if (answer === 'hangs') return new Promise<void>(() => undefined)
      if (answer !== 'ready') throw answer
    },
  }
  const options = { sink, reporter, clock, log: logOf(lines), random: () => 0.5 }
  const run = () => probe(options as unknown as Parameters<typeof probe>[0], stop.signal)
  return { run, reporter, lines, asked, stop, sink }
}

const missing = new ConnectorError('not_found', 'bucket logs is not there')
const down = new ConnectorError('unreachable', 'siem is down')

describe('a starting sink', () => {
  it('is probed once if its receiver answers', async () => {
    const { run, reporter, asked, lines } = setup([])
    await run()
    expect([reporter.probes, asked.length, lines]).toEqual([['ready'], 1, []])
  })

  it('reports a failing probe at once, probes again with growing pauses, and is healthy at the first good answer', async () => {
    const { run, reporter, asked, lines } = setup([missing, missing, down])
    await run()
    expect(reporter.probes).toEqual(['not_found', 'not_found', 'unreachable', 'ready'])
    expect(asked[0]).toBe(0)
    expect(reporter.probesInMs).toHaveLength(3)
    const failed = lines.filter((line) => /is not ready|is blocked/.test(line))
    expect(failed).toHaveLength(3)
    expect(failed[0]).toContain(
      'Delivery is blocked until this is fixed: entries stay in the journal, and it is retried automatically',
    )
    expect(failed[2]).toContain('is not ready')
    expect(lines.at(-1)).toContain('The receiver is ready')
    // A probe is no delivery: nothing is counted as one.
    expect([reporter.states, reporter.retries, reporter.requests]).toEqual([[], [], 0])
  })

  it('is not probed any more after a delivery: its outcome decides', async () => {
    const { run, reporter, asked } = setup([missing, missing, missing])
    reporter.delivering()()
    await run()
    expect([reporter.probes, asked]).toEqual([[], []])
  })

  it('ends with the process while a probe hangs, even one that ignores the abort', async () => {
    const { run, stop, reporter } = setup(['hangs'])
    const over = run()
    await new Promise((resolve) => setImmediate(resolve))
    stop.abort()
    await over
    expect(reporter.probes).toEqual([])
  })

  it('ends the process on a bug or a fatal error in the probe', async () => {
    const [failed, lost] = [
      new ConnectorError('disk_failed', 'gone'),
      new ConnectorError('lease_lost', 'taken'),
    ]
    for (const error of [new TypeError('a bug'), failed, lost]) {
      const { run } = setup([error as ConnectorError])
      await expect(run()).rejects.toBe(error)
    }
  })

  it('is not probed if its kind has no probe', async () => {
    const { run, sink, reporter } = setup([])
    Object.assign(sink, { probe: undefined })
    await run()
    expect(reporter.probes).toEqual([])
  })
})
