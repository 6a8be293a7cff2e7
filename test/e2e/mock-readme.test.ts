// The mock's page says what to type: each line of it is typed here, against a mock that serves, and answers with success.
import { execFile, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { listenMock } from '../../src/mock/listen.ts'
import { openMock } from '../../src/mock/mock.ts'
import { systemClock } from '../../src/platform/clock.ts'

const run = promisify(execFile)
/** A day of the query history is more than the MiB that Node takes by default, if the office was busy. */
const MOST_BYTES = 64 * 1024 * 1024
const tools = ['bash', 'curl'].every((tool) => spawnSync(tool, ['--version']).status === 0)
const page = readFileSync('src/mock/README.md', 'utf8')
const [, block = ''] = /^```sh\n(API=.*?)^```$/ms.exec(page) ?? []
const [setting = '', ...lines] = block.split('\n').filter((line) => line !== '' && !line.startsWith('#'))

const [, vaultBlock = ''] = /^```sh\n(VAULT=.*?)^```$/ms.exec(page) ?? []

let folder = ''
let server: Awaited<ReturnType<typeof listenMock>>
const names = new Map<string, string>()

/** Like a person: an id out of one answer goes into the next line. */
function learn(line: string, body: string): void {
  const learnt = (name: string, pattern: RegExp) => {
    const [, id] = pattern.exec(body) ?? []
    if (id !== undefined) names.set(name, id)
  }
  if (line.includes('/logs/audit/earliest')) learnt('<id>', /"id": ?"([^"]+)"/)
  if (line.includes('/workspace/projects')) learnt('<project id>', /"id": ?"([^"]+)"/)
  if (line.includes('/upload_files')) learnt('<file id>', /"file_ids":\["([^"]+)"/)
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'mock-readme-'))
  writeFileSync(join(folder, 'lease.txt'), 'Clause 3: the lease ends.\n')
  server = await listenMock(openMock({ clock: systemClock, seed: 7, limits: { vault: 0 } }), {
    port: 0,
    host: '127.0.0.1',
  })
})
afterAll(async () => {
  await server.close()
  rmSync(folder, { recursive: true, force: true })
})

test('there is a line for each area', () => {
  for (const area of ['/logs/audit', '/history/usage', '/vault/', '/completion'])
    expect(block).toContain(area)
})

/** If a tool of the page is missing, its lines are skipped. */
const typed = test.skipIf(!tools)

typed.each(lines)('%s', async (line) => {
  const words = [...names].reduce((text, [name, id]) => text.replaceAll(name, id), line)
  expect(words.replace(/\s#.*$/, '')).not.toMatch(/<[a-z ]+>/)
  const at = setting.replace('http://127.0.0.1:8080', server.url)
  const { stdout } = await run('bash', ['-c', `${at}\n${words.replace(/^curl /, 'curl -fsS ')}`], {
    cwd: folder,
    maxBuffer: MOST_BYTES,
  })
  learn(line, stdout)
  expect(stdout.length).toBeGreaterThan(1)
})

typed('a day in the life of a file', async () => {
  const reported = `${setting}\nset -e\n${vaultBlock}`.replaceAll('http://127.0.0.1:8080', server.url)
  const script = reported.replaceAll(/^curl /gm, 'curl -fsS ')
  const { stdout } = await run('bash', ['-c', script], { cwd: folder })
  expect(stdout).toContain('api:vault_delete_project')
})
