// The demo's folder: what it continues, what it removes, and what it leaves alone.
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs' // prettier-ignore
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { openHome, writeConfig } from '../../../src/cli/demo.ts'
import { HOUR_MS } from '../../../src/core/time.ts'

const NOW = Date.UTC(2026, 10, 23)
const BACKLOG_MS = 20 * 60_000
let data: string
beforeEach(() => (data = mkdtempSync(join(tmpdir(), 'auditferry-home-'))))
afterEach(() => rmSync(data, { recursive: true, force: true }))

const inDemo = (name: string) => join(data, 'demo', name)
const open = (now: number) => openHome(data, now, BACKLOG_MS)

test('a demo continues one that started within the last hours, with the same entries', async () => {
  const first = await open(NOW)
  expect(first.before).toBe('nothing')
  writeFileSync(inDemo('entries.ndjson'), 'delivered')
  const again = await open(NOW + 6 * HOUR_MS - 1)
  expect(again).toEqual({ ...first, before: 'resumed' })
  expect(readFileSync(again.entries, 'utf8')).toBe('delivered')
})

test('files of an old demo are removed by name, and other files stay', async () => {
  await writeConfig(await open(NOW), 'http://127.0.0.1:1', '127.0.0.1:0')
  for (const name of ['entries.ndjson', 'auditferry.db', 'auditferry.db-wal', 'auditferry.db.ballast'])
    writeFileSync(inDemo(name), 'of the demo')
  mkdirSync(inDemo('case'))
  writeFileSync(join(inDemo('case'), 'notes.txt'), 'mine')
  writeFileSync(inDemo('README'), 'mine')
  const later = NOW + 6 * HOUR_MS
  expect((await open(later)).before).toBe('removed')
  expect(readdirSync(join(data, 'demo')).toSorted()).toEqual(['README', 'case', 'mock.json'])
  expect(readFileSync(join(inDemo('case'), 'notes.txt'), 'utf8')).toBe('mine')
  expect((await open(later)).before).toBe('resumed')
})

test('a folder that is not from a demo is refused and left alone', async () => {
  mkdirSync(join(data, 'demo'))
  writeFileSync(inDemo('auditferry.db'), 'mine')
  await expect(open(NOW)).rejects.toMatchObject({
    code: 'misconfigured',
    message: expect.stringContaining(
      `${join(data, 'demo')} contains files that are not from a demo`,
    ) as unknown,
  })
  expect(readFileSync(inDemo('auditferry.db'), 'utf8')).toBe('mine')
  expect(existsSync(inDemo('mock.json'))).toBe(false)
})

test('a folder that cannot be made or written is reported with its path and what to do', async () => {
  writeFileSync(join(data, 'file'), '')
  await expect(openHome(join(data, 'file'), NOW, BACKLOG_MS)).rejects.toMatchObject({
    code: 'misconfigured',
    message: expect.stringContaining(`${join(data, 'file', 'demo')} (ENOTDIR)`) as unknown,
  })
  if (process.getuid?.() === 0) return
  chmodSync(data, 0o500)
  await expect(open(NOW)).rejects.toMatchObject({ code: 'misconfigured' })
})
