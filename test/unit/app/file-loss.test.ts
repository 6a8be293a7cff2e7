// The warnings of a removed and of a truncated file across a restart: shown for a day, however often the daemon restarts.
import { stateIn } from '../../fakes/state.ts'
import { rmSync, statSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { sinkWarningsOf } from '../../../src/app/delivery.ts'
import { openRegistrySetup, startAt } from '../observability/registry-setup.ts'
import { openDaemonRig, until } from './daemon-rig.ts'

const HOUR = 3_600_000

function openLives() {
  const notes = new Map<string, string>()
  const state = stateIn(notes)
  /** A process, so long after the first. */
  const live = async (afterMs: number, sink = 'archive') => {
    const { registry, clock, metrics } = openRegistrySetup()
    clock.pass(afterMs)
    const kept = sinkWarningsOf(sink, registry, { state, clock })
    await kept.recall()
    return { kept, clock, metrics, reported: () => registry.status().warnings }
  }
  return { notes, live }
}

test('a restart within the day keeps the warning with its original time until the day is over', async () => {
  const { live } = openLives()
  const first = await live(0)
  expect(first.reported()).toEqual([])
  first.kept.warn('file_removed', 'archive: it went')
  const next = await live(20 * HOUR)
  const warning = { code: 'file_removed', about: 'archive', message: 'archive: it went' }
  expect(next.reported()).toEqual([{ ...warning, since: new Date(startAt).toISOString() }])
  expect(await next.metrics.render()).toContain('{code="file_removed"} 1')
  next.clock.pass(5 * HOUR)
  expect(next.reported()).toEqual([])
  expect(await next.metrics.render()).toContain('{code="file_removed"} 0')
  expect((await live(25 * HOUR)).reported()).toEqual([])
})

test('another removal starts its own day', async () => {
  const { live } = openLives()
  const first = await live(0)
  first.kept.warn('file_removed', 'archive: it went')
  const next = await live(20 * HOUR)
  next.kept.warn('file_removed', 'archive: it went again')
  next.clock.pass(5 * HOUR)
  expect(next.reported()).toMatchObject([{ message: 'archive: it went again' }])
})

test('a clock that was set back meanwhile ends no warning: it restarts for a day', async () => {
  const { live } = openLives()
  const first = await live(0)
  first.kept.warn('file_removed', 'archive: it went')
  const next = await live(-5_000)
  expect(next.reported()).toMatchObject([
    { message: 'archive: it went', since: new Date(startAt - 5_000).toISOString() },
  ])
  next.clock.pass(25 * HOUR)
  expect(next.reported()).toEqual([])
})

test('of two sinks each remembers its own file', async () => {
  const { live } = openLives()
  const first = await live(0)
  first.kept.warn('file_removed', 'archive: it went')
  expect((await live(HOUR, 'other')).reported()).toEqual([])
  expect((await live(HOUR)).reported()).toHaveLength(1)
})

test('an unreadable state entry is not shown by a later process', async () => {
  const { notes, live } = openLives()
  const { kept } = await live(0)
  kept.warn('file_removed', 'archive: it went')
  for (const name of notes.keys()) notes.set(name, '{"message":3')
  expect((await live(HOUR)).reported()).toEqual([])
})

test('through the whole daemon: the file is removed, a batch notices, and the next process shows it too', async () => {
  const daemonRig = openDaemonRig({ entries: 3 })
  onTestFinished(daemonRig.remove)
  const first = await daemonRig.open(false)
  first.run().catch(() => undefined)
  const status = () => first.registry.status()
  await until(() => status().sinks.every(({ accepted_entries: all }) => all === 3), 'the first lines')
  rmSync(join(daemonRig.folder, 'out.ndjson'))
  daemonRig.mock.add({ at: daemonRig.environment.clock.now() })
  await until(() => status().warnings.length === 1, 'the removal found')
  await first.stop()
  const next = await daemonRig.open(false)
  onTestFinished(() => next.stop())
  await until(() => next.registry.status().warnings.length === 1, 'it told again')
  const [{ message } = { message: '' }] = status().warnings
  expect(next.registry.status().warnings).toMatchObject([{ code: 'file_removed', about: 'archive', message }])
})

test('through the whole daemon: the file is truncated while none runs, and the next process reports with its first batch how much is gone', async () => {
  const daemonRig = openDaemonRig({ entries: 3 })
  onTestFinished(daemonRig.remove)
  const path = join(daemonRig.folder, 'out.ndjson')
  const first = await daemonRig.open(false)
  first.run().catch(() => undefined)
  await until(
    () => first.registry.status().sinks.every(({ accepted_entries: all }) => all === 3),
    'the lines',
  )
  await first.stop()
  truncateSync(path, statSync(path).size - 10)
  daemonRig.mock.add({ at: daemonRig.environment.clock.now() })
  const next = await daemonRig.open(false)
  onTestFinished(() => next.stop())
  next.run().catch(() => undefined)
  await until(() => next.registry.status().warnings.length === 1, 'the cut found')
  const [warning] = next.registry.status().warnings
  expect(warning).toMatchObject({ code: 'file_cut', about: 'archive' })
  expect(warning?.message).toContain('10 bytes')
})
