// Real receivers, if one is running: without its address a test is skipped, and reports that loudly.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { listenMock } from '../../src/mock/listen.ts'
import { openMock } from '../../src/mock/mock.ts'
import { systemClock } from '../../src/platform/clock.ts'

const { AUDITFERRY_HEC_URL: url = '', AUDITFERRY_HEC_TOKEN: token = '' } = process.env
const entries = 5_000

if (url === '')
  process.stderr.write(
    '\nSKIPPED: Splunk HEC. No receiver is started by this suite; set AUDITFERRY_HEC_URL and AUDITFERRY_HEC_TOKEN to use a running one.\n\n',
  )

test.skipIf(url === '')('a running Splunk takes a whole backlog, and confirms each batch', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'auditferry-integration-'))
  const mock = openMock({
    clock: systemClock,
    seed: 1,
    workspaces: [{ name: 'acme', keys: [{ key: 'k' }] }],
    traffic: { backlog: entries },
  })
  const api = await listenMock(mock, { port: 0, host: '127.0.0.1' })
  try {
    const config = {
      journal: { path: join(folder, 'journal.db') },
      workspaces: [{ name: 'acme', base_url: api.url, api_key: 'k', audit: {} }],
      sinks: [{ name: 'splunk', type: 'splunk_hec', url, token: '${env:TOKEN}', allow_insecure: true }],
    }
    // JSON is YAML.
    writeFileSync(join(folder, 'config.yaml'), JSON.stringify(config))
    const args = ['src/main.ts', 'run', '--once', '--timeout', '2m', '--config', join(folder, 'config.yaml')]
    const child = spawn(process.execPath, args, {
      env: { TOKEN: token },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    let reported = ''
    child.stderr.setEncoding('utf8').on('data', (text: string) => (reported += text))
    const [code] = (await once(child, 'close')) as [number | null]
    expect(reported).toMatch(/"msg":"Everything visible at start was read and delivered".*"dead_letters":0,/)
    expect(code).toBe(0)
  } finally {
    await api.close()
    rmSync(folder, { recursive: true, force: true })
  }
})
