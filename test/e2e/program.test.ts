// The program as it is built: what it loads, what it takes, how it starts, stops and ends.
import { execFile } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { buildProgram } from './built.ts'
import type { Built } from './built.ts'
import { startChild, until, untilStarted } from './child.ts'
import type { Child } from './child.ts'
import { fileLines, judge } from './judge.ts'
import { openStage } from './stage.ts'
import type { Stage, StageOptions } from './stage.ts'

const PATIENCE_MS = 60_000
const steady = (backlog: number) => ({ backlog, entriesPerHour: 3_600, rhythm: 'steady' }) as const

let built: Built
beforeAll(async () => {
  built = await buildProgram()
})
afterAll(() => built.remove())

async function stageOf(options: StageOptions): Promise<Stage> {
  const stage = await openStage(options)
  onTestFinished(() => stage.close())
  return stage
}

/** Not left behind, whatever the outcome of the test. */
function start(...args: string[]): Child {
  return startNode(built.main, ...args)
}

function startNode(...args: string[]): Child {
  const child = startChild(args)
  onTestFinished(async () => {
    child.kill('SIGKILL')
    await child.ended
  })
  return child
}

test('the built program imports no built-in as a whole: reading all that Node exports would load unused modules', () => {
  const dist = dirname(built.main)
  const files = readdirSync(dist).filter((name) => name.endsWith('.js'))
  const importing = files.filter((name) => /^import .*"node:/m.test(readFileSync(join(dist, name), 'utf8')))
  expect({ files: files.length > 5, importing }).toEqual({ files: true, importing: [] })
})

test('the built program never asks for the compiled driver of PostgreSQL, whatever a variable says', async () => {
  const dist = dirname(built.main)
  const texts = readdirSync(dist)
    .filter((name) => name.endsWith('.js'))
    .map((name) => readFileSync(join(dist, name), 'utf8'))
  expect(texts.some((text) => text.includes('SCRAM-SHA-256'))).toBe(true)
  expect(texts.some((text) => text.includes('pg-native'))).toBe(false)
  const env = { ...process.env, NODE_PG_FORCE_NATIVE: '1' }
  const { stdout } = await promisify(execFile)(process.execPath, [built.main, 'journal', '--help'], { env })
  expect(stdout).toContain('migrate')
})

const reports = `
import { registerHooks } from 'node:module'
const loaded = new Set()
registerHooks({
  load(url, context, next) {
    const name = /.*\\/node_modules\\/((?:@[^/]+\\/)?[^/]+)/.exec(url)?.[1]
    if (name !== undefined) loaded.add(name)
    return next(url, context)
  },
})
process.on('exit', () => process.stderr.write(JSON.stringify([...loaded])))
`

test('of packages outside the bundle, a start loads the journal’s driver alone', async () => {
  const preload = `--import=data:text/javascript,${encodeURIComponent(reports)}`
  const { stderr } = await promisify(execFile)(process.execPath, [preload, built.main, '--version'])
  expect(JSON.parse(stderr)).toEqual(['better-sqlite3'])
})

/** All that it wrote on standard error: JSON lines and nothing else. */
const jsonLines = (child: Child) =>
  child
    .stderr()
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as unknown)

function lineCount(stage: Stage): number {
  return fileLines(stage).length
}

test.each(['SIGTERM', 'SIGINT'] as const)(
  '%s in mid-drain ends it with 0 within 10 s, and the next run delivers the rest',
  async (signal) => {
    const stage = await stageOf({ traffic: steady(30_000), switches: { latency: 100 } })
    const daemon = start('run', '--config', stage.config)
    await until(
      () => lineCount(stage) > 2_000,
      PATIENCE_MS,
      () => daemon.stderr(),
    )
    const stoppedAt = Date.now()
    daemon.kill(signal)
    expect(await daemon.ended, daemon.stderr()).toEqual({ code: 0, signal: null })
    expect(Date.now() - stoppedAt).toBeLessThan(10_000)
    expect(lineCount(stage)).toBeLessThan(30_000)
    stage.mock.setSwitches({ latency: 0 })
    const once = start('run', '--once', '--config', stage.config)
    expect(await once.ended, once.stderr()).toEqual({ code: 0, signal: null })
    expect(lineCount(stage)).toBeGreaterThanOrEqual(30_000)
    // The request that the stop cut off may have arrived.
    expect(judge(stage, { mayRepeat: 1_000 })).toEqual([])
  },
)

/** Sends it to itself in the first moments: the program subscribes to signals first of all. */
const hangingUp = `--import=data:text/javascript,${encodeURIComponent(`
let isSent = false
process.on('newListener', (name) => {
  if (name === 'SIGUSR2' && !isSent) queueMicrotask(() => process.kill(process.pid, 'SIGHUP'))
  isSent ||= name === 'SIGUSR2'
})
`)}`

test('SIGHUP in the first moments of a start does not end it: the configuration is read once more', async () => {
  const stage = await stageOf({ traffic: steady(0) })
  const daemon = startNode(hangingUp, built.main, 'run', '--config', stage.config)
  await until(
    () => daemon.stderr().includes('is the one that runs: nothing changes'),
    PATIENCE_MS,
    () => daemon.stderr(),
  )
  daemon.kill('SIGTERM')
  expect(await daemon.ended, daemon.stderr()).toEqual({ code: 0, signal: null })
})

test('SIGHUP ends run --once, also in its first moments: the terminal is gone', async () => {
  const stage = await stageOf({ traffic: steady(0) })
  const once = startNode(hangingUp, built.main, 'run', '--once', '--config', stage.config)
  expect(await once.ended, once.stderr()).toEqual({ code: null, signal: 'SIGHUP' })
})

test('a stop while the API is silent still ends within 10 s', async () => {
  const stage = await stageOf({ traffic: steady(1_000), faults: { stalled: 1 } })
  const daemon = start('run', '--config', stage.config)
  await until(
    () => stage.mock.requests.length > 0,
    PATIENCE_MS,
    () => daemon.stderr(),
  )
  const stoppedAt = Date.now()
  daemon.kill('SIGTERM')
  expect(await daemon.ended, daemon.stderr()).toEqual({ code: 0, signal: null })
  expect(Date.now() - stoppedAt).toBeLessThan(10_000)
})

test('a second process on a journal in use exits 1 with a message, and the first continues', async () => {
  const stage = await stageOf({ traffic: steady(5_000) })
  const first = start('run', '--config', stage.config)
  await untilStarted(first, PATIENCE_MS)
  const second = start('run', '--config', stage.config)
  await until(
    () => second.ending() !== undefined,
    PATIENCE_MS,
    () => `it runs beside the first: ${second.stderr()}`,
  )
  expect(await second.ended).toEqual({ code: 1, signal: null })
  expect(second.stderr()).toMatch(/auditferry\.db.*(in use|another process)/)
  expect(jsonLines(second)).toHaveLength(1)
  await until(
    () => lineCount(stage) >= 5_000,
    PATIENCE_MS,
    () => first.stderr(),
  )
  expect(first.ending()).toBeUndefined()
})

test('a missing configuration exits 78 and is named', async () => {
  const stage = await stageOf({ traffic: steady(0) })
  const path = join(stage.folder, 'nowhere.yaml')
  const child = start('run', '--config', path)
  expect(await child.ended).toEqual({ code: 78, signal: null })
  expect(child.stderr()).toContain(path)
})

test('run --once exits 0 when all that exists is delivered', async () => {
  const stage = await stageOf({ traffic: steady(5_000) })
  const child = start('run', '--once', '--timeout', '60s', '--config', stage.config)
  expect(await child.ended, child.stderr()).toEqual({ code: 0, signal: null })
  expect(jsonLines(child).at(-1)).toMatchObject({
    ...{ level: 'info', msg: 'Everything visible at start was read and delivered' },
    ...{ pending: 0, dead_letters: 0, quarantined: 0, gaps: 0 },
    'delivered.archive': lineCount(stage),
  })
  expect(lineCount(stage)).toBeGreaterThanOrEqual(5_000)
  expect(judge(stage, { mayRepeat: 0 })).toEqual([])
})

/** Plain text from Node and libraries, and uncaught errors. */
const noisy = (how: string) =>
  `--import=data:text/javascript,${encodeURIComponent(`
process.on('newListener', (name) => {
  if (name === 'SIGTERM') setTimeout(() => { ${how} }, 500)
})
`)}`

const words = `'plan' + 'ted'`

test.each([
  [
    'a warning of Node',
    `process.emitWarning(${words})`,
    '"reason":"planted","msg":"Node.js printed a warning"',
  ],
  ['a library that prints', `console.warn(${words})`, '"msg":"A library wrote to standard error'],
  [
    'an error that nothing catches',
    `throw new TypeError(${words})`,
    '"msg":"The daemon cannot continue and stops"',
  ],
  ['a rejection that nothing catches', `void Promise.reject(new TypeError(${words}))`, '"code":"bug"'],
])('standard error carries JSON lines only, also for %s', async (what, how, reported) => {
  const stage = await stageOf({ traffic: steady(0), switches: { latency: 1_000 } })
  const args = ['run', '--once', '--timeout', '2s', '--config', stage.config]
  const child = startNode(noisy(how), built.main, ...args)
  await child.ended
  expect(jsonLines(child).length, child.stderr()).toBeGreaterThan(0)
  expect(child.stderr()).toContain(reported)
  if (what !== 'a warning of Node') expect(child.stderr()).not.toContain('planted')
})

test('a journal that cannot be opened ends run with 1 or 78 and JSON lines only', async () => {
  const stage = await stageOf({ traffic: steady(0) })
  const path = join(stage.folder, 'state', 'auditferry.db')
  mkdirSync(dirname(path))
  for (const [before, code] of [
    [() => writeFileSync(`${path}-wal`, 'pending'), 1],
    [
      () => {
        rmSync(`${path}-wal`)
        symlinkSync('elsewhere', `${path}.ballast`)
      },
      78,
    ],
  ] as const) {
    before()
    const child = start('run', '--config', stage.config)
    expect((await child.ended).code, child.stderr()).toBe(code)
    expect(jsonLines(child).at(-1)).toMatchObject({
      level: 'error',
      msg: 'The daemon cannot continue and stops',
    })
  }
})

test('a low log level keeps the summary of run --once', async () => {
  const stage = await stageOf({ traffic: steady(500) })
  const config = JSON.parse(readFileSync(stage.config, 'utf8')) as object
  writeFileSync(stage.config, JSON.stringify({ ...config, log: { level: 'error' } }))
  const child = start('run', '--once', '--timeout', '60s', '--config', stage.config)
  expect(await child.ended, child.stderr()).toEqual({ code: 0, signal: null })
  expect(jsonLines(child)).toMatchObject([{ msg: 'Everything visible at start was read and delivered' }])
})

test('run --once exits 1 long before its timeout when only a blocked sink is left, and the others have everything', async () => {
  const stage = await stageOf({ traffic: steady(5_000), hecToken: 'another-token' })
  const startedAt = Date.now()
  const child = start('run', '--once', '--timeout', '10m', '--config', stage.config)
  expect(await child.ended, child.stderr()).toEqual({ code: 1, signal: null })
  expect(Date.now() - startedAt).toBeLessThan(60_000)
  expect(child.stderr()).toContain('only blocked parts remain')
  expect(lineCount(stage)).toBeGreaterThanOrEqual(5_000)
})

test('run --once exits 1 at its timeout, and the next run continues', async () => {
  const stage = await stageOf({ traffic: steady(20_000), switches: { latency: 500 } })
  const child = start('run', '--once', '--timeout', '3s', '--config', stage.config)
  expect(await child.ended, child.stderr()).toEqual({ code: 1, signal: null })
  expect(child.stderr()).toContain('the timeout came first')
  expect(lineCount(stage)).toBeLessThan(20_000)
  stage.mock.setSwitches({ latency: 0 })
  const next = start('run', '--once', '--timeout', '60s', '--config', stage.config)
  expect(await next.ended, next.stderr()).toEqual({ code: 0, signal: null })
  expect(judge(stage, { mayRepeat: 1_000 })).toEqual([])
})

test.runIf(process.platform === 'linux')(
  'draining 200,000 entries takes less than 256 MB of memory',
  async () => {
    const stage = await stageOf({ traffic: steady(200_000) })
    const daemon = start('run', '--config', stage.config)
    await until(
      () => stage.hec.indexed.length >= 200_000 || daemon.ending() !== undefined,
      4 * PATIENCE_MS,
      () => `${stage.hec.indexed.length} arrived\n${daemon.stderr()}`,
    )
    const status = readFileSync(`/proc/${daemon.pid}/status`, 'utf8')
    const peakBytes = Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1]) * 1024
    process.stdout.write(`peak memory of a drain of 200,000 entries: ${(peakBytes / 1e6).toFixed(0)} MB\n`)
    expect(peakBytes).toBeLessThan(256e6)
    daemon.kill('SIGTERM')
    expect(await daemon.ended, daemon.stderr()).toEqual({ code: 0, signal: null })
  },
)
