// `run --once` with something that cannot go on: it ends with what was wrong.
import { writeFileSync } from 'node:fs'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Environment } from '../../../../src/app/environment.ts'
import { realEnvironment } from '../../../../src/cli/shared/environment.ts'
import { deliveredText, progressLogger, runOnce } from '../../../../src/cli/run/once.ts'
import { loadConfig } from '../../../../src/config/load.ts'
import { readTextFile } from '../../../../src/config/files.ts'
import { ConnectorError } from '../../../../src/core/errors.ts'
import { MINUTE_MS } from '../../../../src/core/time.ts'
import { systemClock } from '../../../../src/platform/clock.ts'
import { logOf, part, spec } from '../../../contract/journal-parts.ts'
import { LogLines, StepClock } from '../../../fakes/sink-deps.ts'
import { withSink, withSource } from '../../observability/page/reports.ts'
import { fill, openSetup } from '../setup.ts'

let setup: ReturnType<typeof openSetup>
beforeEach(() => {
  setup = openSetup()
})
afterEach(() => setup.remove())

test('a closed standard output ends the run with 1 and the reason, and other sinks get their entries', async () => {
  const journal = await setup.openJournal(['console', 'archive'])
  await journal.append(part([spec(1), spec(2)]))
  await journal.close()
  const text = readTextFile(setup.config)
  const file = `name: siem, type: file, path: ${setup.folder}/a.out`
  writeFileSync(setup.config, text.replace(file, 'name: console, type: stdout'))
  const loaded = loadConfig(setup.config, { env: { NOT_SET_HERE: 'planted-key' }, readFile: readTextFile })
  // Nothing is left to read.
  const config = { ...loaded, workspaces: loaded.workspaces.map((one) => ({ ...one, audit: undefined })) }
  const gone = Object.assign(new Error('write EPIPE'), { code: 'EPIPE' })
  const environment: Environment = {
    ...realEnvironment(config, setup.context),
    log: logOf(),
    print: () => Promise.reject(gone),
  }
  const { code, why } = await runOnce(config, environment, setup.context, 15_000)
  expect(why).toContain('only blocked parts remain: console is blocked')
  expect(why).toContain('standard output: its reader is gone (EPIPE)')
  expect(code).toBe(1)
  expect(readTextFile(`${setup.folder}/b.out`).trim().split('\n')).toHaveLength(2)
})

test('a fatal error rejects the run, and leaves no timer that keeps the process alive', async () => {
  const journal = await setup.openJournal()
  await fill(journal)
  await journal.close()
  const env = { NOT_SET_HERE: 'planted-key' }
  const config = loadConfig(setup.config, { env, readFile: readTextFile })
  const broken = new ConnectorError('disk_failed', 'the disk is broken')
  let sleeping = 0
  const environment: Environment = {
    ...realEnvironment(config, setup.context),
    log: logOf(),
    clock: {
      ...systemClock,
      sleep: (ms, signal) => {
        sleeping++
        return systemClock.sleep(ms, signal).finally(() => sleeping--)
      },
    },
    disk: { ...realEnvironment(config, setup.context).disk, open: () => Promise.reject(broken) },
    network: () => ({
      send: () => Promise.reject(new ConnectorError('unreachable', 'nobody there')),
      close: () => Promise.resolve(),
    }),
  }
  await expect(runOnce(config, environment, setup.context, Infinity)).rejects.toBe(broken)
  expect(sleeping).toBe(0)
})

test('a long run logs its progress once a minute', () => {
  const [clock, log] = [new StepClock(), new LogLines()]
  const summary = 'acme audit is 3 days behind and still reading'
  const logWhenDue = progressLogger({ clock, log }, () => ({
    ...withSource({ new_entries: 120_000 }),
    ...{ summary, sinks: withSink({ pending_entries: 512 }).sinks },
  }))
  for (let looks = 0; looks < 1500; looks++) {
    clock.pass(100)
    logWhenDue()
  }
  const reported = JSON.stringify({ summary, entries_read: 120_000, entries_pending: 512 })
  expect(log.lines).toEqual(Array(2).fill(`The run continues ${reported}`))
})

test('a run whose receiver is away for minutes says so while it goes on', async () => {
  const journal = await setup.openJournal()
  await fill(journal)
  await journal.close()
  const env = { NOT_SET_HERE: 'planted-key' }
  const loaded = loadConfig(setup.config, { env, readFile: readTextFile })
  const config = { ...loaded, workspaces: loaded.workspaces.map((one) => ({ ...one, audit: undefined })) }
  const away = new ConnectorError('unreachable', 'the mount is away')
  const reported: string[] = []
  const environment: Environment = {
    ...realEnvironment(config, setup.context),
    log: logOf(reported),
    clock: { ...systemClock, elapsed: () => systemClock.elapsed() * 600 },
    disk: { ...realEnvironment(config, setup.context).disk, open: () => Promise.reject(away) },
  }
  const { why } = await runOnce(config, environment, setup.context, 20 * MINUTE_MS)
  expect(why).toContain('the timeout came first')
  expect(reported).toContain('The run continues')
})

test('the summary says how many entries were filtered, and by what', () => {
  const { workspaces } = withSource({ new_entries: 593 })
  const { sinks } = withSink({ accepted_entries: 0, filtered_entries: 593 })
  expect(deliveredText({ workspaces, sinks })).toBe(
    '593 new entries, 0 deliveries, 593 filtered by what the sinks take',
  )
  expect(deliveredText(withSource({ new_entries: 0, filtered_entries: 593 }))).toBe(
    '0 new entries, 593 filtered by audit.types, 4663 deliveries',
  )
  expect(deliveredText({ workspaces: [], sinks: withSink({ accepted_entries: 1 }).sinks })).toBe(
    '0 new entries, 1 delivery',
  )
  expect(deliveredText({ workspaces, sinks: withSink({}).sinks })).toBe('593 new entries, 4663 deliveries')
})
