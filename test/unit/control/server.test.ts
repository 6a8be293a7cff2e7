// The control socket: real sockets in a temporary folder, both ends.
import { stateIn } from '../../fakes/state.ts'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { ConnectorError } from '../../../src/core/errors.ts'
import type { DeadLetterQuery } from '../../../src/contracts/records.ts'
import type { Log, LogFields } from '../../../src/core/log.ts'
import { connectControl } from '../../../src/control/client.ts'
import { controlPath } from '../../../src/journal/sqlite/files.ts'
import { openControl } from '../../../src/control/server.ts'
import type { Control } from '../../../src/control/server.ts'
import type { ControlOptions } from '../../../src/control/questions.ts'
import { unasked } from '../../fakes/unasked.ts'
import { openRegistrySetup, ack } from '../observability/registry-setup.ts'

let folder = ''
const opened: Control[] = []
const warnings: string[] = []
const reported: (LogFields | undefined)[] = []
const say = (sentence: string, fields?: LogFields) => {
  warnings.push(sentence)
  reported.push(fields)
}
const log: Log = { debug: say, info: say, warn: say, error: say, with: () => log }

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'control-'))
  warnings.length = 0
  reported.length = 0
})
afterEach(async () => {
  for (const control of opened.splice(0)) await control.close()
  rmSync(folder, { recursive: true, force: true })
})

const asked: DeadLetterQuery[] = []
const journal: ControlOptions['journal'] = {
  state: stateIn(new Map([['instance', 'abc123']])),
  deadLetters: async (query) => (asked.push(query), []),
  deadLetterRaw: async (id) => (id === 7 ? Buffer.from([123, 0, 255, 125]) : undefined),
  dropDeadLetters: async () => {
    throw new ConnectorError('disk_full', 'the disk is full')
  },
  replay: async () => {
    throw new ConnectorError('journal_full', 'the journal is full')
  },
  quarantined: async () => [],
  dropQuarantined: async () => 2,
  counts: async () => ({ kept: [], delivered: [] }),
  pending: async () => ({ rows: [], through: 0, more: false }),
  storedDays: async () => ({ rows: [], through: 0, more: false }),
  quarantinedRaw: async () => {
    throw new TypeError('inner words', { cause: new ConnectorError('disk_failed', 'the disk fails') })
  },
}

const retry = async () => ({ count: 3, left: [{ sink: 'siem', why: 'types' as const, count: 1 }] })

async function open(journalPath = join(folder, 'a.db')) {
  const setup = openRegistrySetup()
  ack(setup)
  opened.push(await openControl({ ...unasked, ...setup, journalPath, journal, retry, log }))
  return journalPath
}

async function ask(socketPath: string, method: string, path: string, body = '') {
  const sent = request({ socketPath, method, path, agent: false })
  sent.end(body)
  const [reply] = (await once(sent, 'response')) as [IncomingMessage]
  let text = ''
  for await (const piece of reply) text += String(piece)
  return { status: reply.statusCode, text }
}

test('a command asks through it as if the journal were open here', async () => {
  const client = (await connectControl(await open())) ?? expect.fail()
  expect(await client.status()).toMatchObject({ version: '1.2.3', ok: true })
  expect(await client.instance()).toBe('abc123')
  await client.deadLetters({ sink: 'siem', ids: [1, 2], limit: 5, after: 4 })
  expect(asked.at(-1)).toEqual({ sink: 'siem', ids: [1, 2], limit: 5, after: 4 })
  expect([...((await client.deadLetterRaw(7)) ?? [])]).toEqual([123, 0, 255, 125])
  expect(await client.deadLetterRaw(8)).toBeUndefined()
  expect(await client.retry({})).toEqual(await retry())
  await expect(client.dropDeadLetters({})).rejects.toMatchObject({ code: 'disk_full' })
})

test('it is its owner’s alone, and removed after the end', async () => {
  const path = controlPath(await open()) ?? ''
  expect(statSync(path).mode & 0o777).toBe(0o600)
  await opened.pop()?.close()
  expect(existsSync(path)).toBe(false)
})

test('without a daemon there is no client', async () => {
  expect(await connectControl(join(folder, 'a.db'))).toBeUndefined()
})

test('the socket of a killed daemon counts as none, and is replaced', async () => {
  const journalPath = join(folder, 'a.db')
  const code = `require('net').createServer().listen(${JSON.stringify(`${journalPath}.sock`)}, () => console.log('up'))`
  const child = spawn(process.execPath, ['-e', code])
  await once(child.stdout, 'data')
  child.kill('SIGKILL')
  await once(child, 'exit')
  expect(existsSync(`${journalPath}.sock`)).toBe(true)
  expect(await connectControl(journalPath)).toBeUndefined()
  await open(journalPath)
  expect(await (await connectControl(journalPath))?.instance()).toBe('abc123')
  expect(warnings).toEqual([])
})

test('a file that is no socket is left alone and reported, and the daemon runs without a socket', async () => {
  const journalPath = join(folder, 'a.db')
  writeFileSync(`${journalPath}.sock`, 'precious')
  await open(journalPath)
  expect(execFileSync('cat', [`${journalPath}.sock`]).toString()).toBe('precious')
  expect(warnings).toEqual(['There is no control socket: it cannot be created beside the journal'])
})

test('a long path gets a short name in the same folder, with a warning; a longer one none', async () => {
  const long = join(folder, `${'n'.repeat(100)}.db`)
  const path = controlPath(long) ?? expect.fail()
  expect(dirname(path)).toBe(folder)
  expect(Buffer.byteLength(path)).toBeLessThanOrEqual(100)
  await open(long)
  expect(warnings).toHaveLength(1)
  expect(await (await connectControl(long))?.instance()).toBe('abc123')
  const deep = join(folder, 'd'.repeat(100))
  mkdirSync(deep)
  await open(join(deep, 'a.db'))
  expect(controlPath(join(deep, 'a.db'))).toBeUndefined()
  expect(warnings).toHaveLength(2)
})

test('unknown or unreadable questions are refused without internal messages', async () => {
  const socket = `${await open()}.sock`
  expect((await ask(socket, 'GET', '/dead-letters')).status).toBe(404)
  expect((await ask(socket, 'POST', '/constructor')).status).toBe(404)
  expect((await ask(socket, 'POST', '/dead-letters', '{')).status).toBe(400)
  const unbound = await ask(socket, 'POST', '/dead-letters', '{"limit":100000}')
  expect(unbound).toEqual({ status: 400, text: '{"message":"the request is malformed"}\n' })
  expect((await ask(socket, 'POST', '/dead-letters', `"${'x'.repeat(70_000)}"`)).status).toBe(400)
  const failed = await ask(socket, 'POST', '/quarantine/raw', '{"id":1}')
  expect(failed.status).toBe(500)
  expect(failed.text).not.toContain('inner')
  const named = { question: 'POST /quarantine/raw', error: 'TypeError' }
  expect(reported).toEqual([{ ...named, code: 'disk_failed', cause: 'the disk fails' }])
})
