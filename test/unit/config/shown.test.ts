// The configuration as it is shown: what is in force, readable again, and no secret in it.
import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { loadConfig } from '../../../src/config/load.ts'
import { configText } from '../../../src/config/shown.ts'

const SECRET = 's3cr3t-v4lue'

function load(text: string) {
  const readFile = (path: string) => (path === 'a.yaml' ? text : SECRET)
  return loadConfig('a.yaml', { env: { AUDITFERRY_API_KEY: SECRET, SPLUNK_HEC_TOKEN: SECRET }, readFile })
}

const samples = readdirSync('config').filter((name) => name.endsWith('.yaml'))

describe('the configuration as it is shown', () => {
  it.each(samples)('%s holds no secret, and is the same when it is read again', (name) => {
    const text = configText(load(readFileSync(`config/${name}`, 'utf8')))
    expect(text).not.toContain(SECRET)
    expect(text).toContain('api_key: "***"')
    expect(configText(load(text.replaceAll('"***"', SECRET)))).toBe(text)
  })

  it('has defaults filled in and units put back', () => {
    const text = configText(
      load(`journal: { keep_keys: 36h, max_bytes: 1536KiB }
workspaces:
  - { name: acme, base_url: "https://api.example.com", api_key: ${SECRET}, audit: { start: 30d, sweep: 0s } }
  - { name: late, base_url: "https://api.example.com", api_key: ${SECRET}, audit: { start: "2026-01-31T00:00:00Z" } }
sinks:
  - { name: siem, type: splunk_hec, url: "https://splunk.example.com:8088", token: ${SECRET} }
server: { listen: "[::1]:9464" }
`),
    )
    for (const line of [
      'keep_keys: 36h',
      'max_bytes: 1536KiB',
      'start: 30d',
      'sweep: 0s',
      'start: 2026-01-31T00:00:00.000Z',
      'token: "***"',
      'ack_timeout: 5m',
      'max_entries: 1000',
      'listen: "[::1]:9464"',
    ])
      expect(text).toContain(line)
    expect(text).not.toContain(SECRET)
  })

  it('names the fields that a sink denies and counts their values, which are matters and people', () => {
    const text = configText(
      load(`workspaces:
  - { name: acme, base_url: "https://api.example.com", api_key: ${SECRET}, audit: {} }
sinks:
  - { name: console, type: stdout, deny: { caseId: ["planted-1", "planted-2"], user: ["planted@x.example"] } }
`),
    )
    expect(text).toContain(
      'deny:\n      caseId:\n        - "***"\n        - "***"\n      user:\n        - "***"\n',
    )
    expect(text).not.toContain('planted')
  })
})
