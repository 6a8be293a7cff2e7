// The check of a large journal at start, with the daemon as a process: it ends on demand, and leaves no process behind.
import {
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest'
import { closeDatabase, openDatabase } from '../../src/journal/sqlite/database.ts'
import { buildProgram } from './built.ts'
import type { Built } from './built.ts'
import { startChild, until, untilStarted } from './child.ts'

const LARGE_BYTES = 70 * 2 ** 20
const PATIENCE_MS = 60_000
/** the promised limit of every stop */
const STOP_MS = 10_000

let built: Built
beforeAll(async () => {
  built = await buildProgram()
})
afterAll(() => built.remove())

let folder = ''
const at = (name: string) => join(folder, name)
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'start-check-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const db = openDatabase({ path: at('a.db'), maxFileBytes: 2 ** 30, fileSystemType: () => 0, nowAt: 0 })
  db.prepare(`INSERT INTO state VALUES ('test.filler', zeroblob(?))`).run(LARGE_BYTES)
  closeDatabase(db, (error) => error)
  writeFileSync(
    at('a.yaml'),
    `journal: { path: ${at('a.db')} }
workspaces: [{ name: acme, base_url: "http://127.0.0.1:9", api_key: planted-key, audit: {} }]
sinks: [{ name: archive, type: file, path: ${at('out.ndjson')} }]
server: { listen: 127.0.0.1:0 }
`,
  )
})

/** In the process that checks the file: reports which one, and, with `hangs`, has a disk that never answers. */
const preload = (reported: string, hangs: boolean) => `
const Sqlite = require(${JSON.stringify(resolve('node_modules/better-sqlite3'))})
const { pragma } = Sqlite.prototype
Sqlite.prototype.pragma = function (source, ...rest) {
  if (source.startsWith('quick_check')) {
    require('node:fs').appendFileSync(${JSON.stringify(reported)}, process.pid + '\\n')
    if (${hangs}) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
  }
  return pragma.call(this, source, ...rest)
}
`

function start(hangs: boolean, ...more: string[]) {
  writeFileSync(at('hook.cjs'), preload(at('reported'), hangs))
  const daemon = startChild([
    '--require',
    at('hook.cjs'),
    built.main,
    'run',
    '--config',
    at('a.yaml'),
    ...more,
  ])
  onTestFinished(async () => {
    daemon.kill('SIGKILL')
    await daemon.ended
  })
  return daemon
}

/** Which processes began a check. */
const checking = () =>
  existsSync(at('reported')) ? readFileSync(at('reported'), 'utf8').trim().split('\n').map(Number) : []

const untilChecked = () =>
  until(
    () => checking().length > 0,
    PATIENCE_MS,
    () => 'no check',
  )

function lives(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

test.each([
  ['SIGTERM', 'the daemon', 0, []],
  ['SIGINT', 'the daemon', 0, []],
  ['SIGTERM', 'a single run', 0, ['--once']],
  ['SIGKILL', 'the daemon', null, []],
] as const)(
  '%s while the journal is checked ends %s at once, and the check with it',
  async (signal, _, code, more) => {
    const daemon = start(true, ...more)
    await untilChecked()
    daemon.kill(signal)
    await until(() => daemon.ending() !== undefined, STOP_MS, daemon.stderr)
    expect(daemon.ending()?.code).toBe(code)
    await until(
      () => !checking().some(lives),
      PATIENCE_MS,
      () => 'who checks lives on',
    )
    if (more.length > 0) expect(daemon.stderr()).toMatch(/\n{.*"why":"stopped while [^\n]*\n$/)
    expect(existsSync(at('out.ndjson'))).toBe(false)
  },
)

test('while a large journal is checked it is in use: a second daemon is refused', async () => {
  start(true)
  await untilChecked()
  const second = start(true)
  expect((await second.ended).code).toBe(1)
  const who = process.platform === 'linux' ? String.raw` \(pid \d+\)` : ''
  expect(second.stderr()).toMatch(
    new RegExp(`a\\.db is in use by another process${who}\\. If that is the daemon`),
  )
})

test('a large journal is checked once, and the daemon starts on it', async () => {
  const daemon = start(false)
  await untilStarted(daemon, PATIENCE_MS)
  expect(checking()).toHaveLength(1)
  expect(checking()).not.toContain(daemon.pid)
})

test('a large journal that is damaged is reported like any other', async () => {
  const file = openSync(at('a.db'), 'r+')
  writeSync(file, Buffer.alloc(8192, 255), 0, 8192, LARGE_BYTES / 2)
  closeSync(file)
  const daemon = start(false)
  expect((await daemon.ended).code).toBe(1)
  expect(daemon.stderr()).toContain('a.db is damaged (its check at start failed)')
})
