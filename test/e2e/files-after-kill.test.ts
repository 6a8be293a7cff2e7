// Files of a killed daemon are never deleted or overwritten while they may have pending entries: the program as it is built.
import {
  copyFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { buildProgram } from './built.ts'
import type { Built } from './built.ts'
import { startChild, until, untilStarted } from './child.ts'
import type { Child } from './child.ts'
import { fileLines } from './judge.ts'
import { openStage } from './stage.ts'
import type { Stage } from './stage.ts'

const PATIENCE_MS = 60_000
const BACKLOG = 30

let built: Built
beforeAll(async () => {
  built = await buildProgram()
})
afterAll(() => built.remove())

/** Nothing can be delivered: at the sink's file path is a folder. */
async function openBlocked(): Promise<Stage> {
  const stage = await openStage({
    withoutHec: true,
    traffic: { backlog: BACKLOG, entriesPerHour: 0, rhythm: 'steady' },
  })
  onTestFinished(() => stage.close())
  mkdirSync(join(dirname(stage.file), 'aside'), { recursive: true })
  return stage
}

function start(...args: string[]): Child {
  const child = startChild([built.main, ...args])
  onTestFinished(async () => {
    child.kill('SIGKILL')
    await child.ended
  })
  return child
}

/** A journal whose entries are in its log alone, beside a sink that has none of them. */
async function killedStage() {
  const stage = await openBlocked()
  const config = JSON.parse(readFileSync(stage.config, 'utf8')) as { sinks: object[] }
  const away = { name: 'archive', type: 'splunk_hec', url: 'http://127.0.0.1:9', token: 'planted-token' }
  writeFileSync(stage.config, JSON.stringify({ ...config, sinks: [away] }))
  const daemon = start('run', '--config', stage.config)
  await untilStarted(daemon, PATIENCE_MS)
  const journal = join(stage.folder, 'state', 'auditferry.db')
  await until(
    () => readFileSync(`${journal}-wal`).includes('"id"') && stage.mock.requests.length > 3,
    PATIENCE_MS,
    daemon.stderr,
  )
  daemon.kill('SIGKILL')
  await daemon.ended
  writeFileSync(stage.config, JSON.stringify(config))
  return { stage, journal }
}

const filesIn = (folder: string) =>
  readdirSync(folder)
    .filter((name) => name.startsWith('auditferry.db') && !/\.(sock|ballast)$/.test(name))
    .map((name) => [name, readFileSync(join(folder, name)).toString('latin1')])

const run = (stage: Stage, ...args: string[]) => start(...args, '--config', stage.config)

test.each([
  ['is moved away', (journal: string) => rmSync(journal)],
  ['is empty', (journal: string) => writeFileSync(journal, '')],
])(
  'after a kill a journal that %s keeps its log: every start is refused, and put back it is delivered',
  async (_, spoil) => {
    const { stage, journal } = await killedStage()
    copyFileSync(journal, join(stage.folder, 'moved'))
    spoil(journal)
    const before = filesIn(dirname(journal))
    expect(before.length).toBeGreaterThan(0)
    for (const args of [['run'], ['run', '--once'], ['dead-letters', 'list'], ['validate']]) {
      const child = run(stage, ...args)
      expect((await child.ended).code, child.stderr()).toBe(args[0] === 'validate' ? 78 : 1)
      expect(child.stderr()).toContain(`The log ${journal}-wal has no database: ${journal} is`)
      expect(filesIn(dirname(journal))).toEqual(before)
    }
    renameSync(join(stage.folder, 'moved'), journal)
    const child = run(stage, 'run', '--once')
    expect((await child.ended).code, child.stderr()).toBe(0)
    expect(fileLines(stage).length).toBeGreaterThanOrEqual(BACKLOG)
  },
)

test('another journal in place of a killed one is not mixed with the log that is left there', async () => {
  const [{ stage, journal }, other] = [await killedStage(), await killedStage()]
  const closed = run(other.stage, 'run', '--once')
  expect((await closed.ended).code, closed.stderr()).toBe(0)
  copyFileSync(other.journal, journal)
  const before = filesIn(dirname(journal))
  for (const args of [['run'], ['validate']]) {
    const child = run(stage, ...args)
    expect((await child.ended).code, child.stderr()).toBe(args[0] === 'validate' ? 78 : 1)
    expect(child.stderr()).toContain(`The log ${journal}-wal belongs to another journal than ${journal}`)
    expect(filesIn(dirname(journal))).toEqual(before)
  }
})

test('a damaged journal and its log stay unchanged', async () => {
  const { stage, journal } = await killedStage()
  const log = readFileSync(`${journal}-wal`)
  const once = run(stage, 'run', '--once')
  expect((await once.ended).code, once.stderr()).toBe(0)
  // The earlier log beside a file that has changed since: a database from a copy, put back alone.
  const damaged = readFileSync(journal)
  damaged.fill(255, 8192 * 3)
  writeFileSync(journal, damaged)
  writeFileSync(`${journal}-wal`, log.subarray(0, 32 + 4 * (8192 + 24)))
  const before = filesIn(dirname(journal))
  const child = run(stage, 'run')
  expect((await child.ended).code, child.stderr()).toBe(1)
  expect(child.stderr()).toContain('is damaged')
  expect(filesIn(dirname(journal)).filter(([name]) => name !== 'auditferry.db-shm')).toEqual(before)
})
