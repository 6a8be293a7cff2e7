// The printed configuration: what is in force, can be loaded again, and holds no secret.
import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { loadConfig } from '../../../src/config/load.ts'
import { configText } from '../../../src/config/render.ts'

const SECRET = 's3cr3t-v4lue'
const DATABASE = `postgres://ferry:${SECRET}@db/audit`

function load(text: string) {
  const readFile = (path: string) =>
    path === 'a.yaml' ? text : path.endsWith('/postgres') ? DATABASE : SECRET
  return loadConfig('a.yaml', { env: { AUDITFERRY_API_KEY: SECRET, SPLUNK_HEC_TOKEN: SECRET }, readFile })
}

const samples = readdirSync('config').filter((name) => name.endsWith('.yaml'))

describe('the printed configuration', () => {
  it.each(samples)('%s holds no secret, and loads to the same text again', (name) => {
    const text = configText(load(readFileSync(`config/${name}`, 'utf8')))
    expect(text).not.toContain(SECRET)
    expect(text).toContain('api_key: "***"')
    const filled = text.replace('url: "***"', `url: ${DATABASE}`).replaceAll('"***"', SECRET)
    expect(configText(load(filled))).toBe(text)
  })

  it('has defaults filled in and units restored', () => {
    const text = configText(
      load(`journal: { dedup_retention: 36h, max_bytes: 1536KiB }
workspaces:
  - { name: acme, base_url: "https://api.example.com", api_key: ${SECRET}, audit: { start: 30d, lookback: 0s } }
  - { name: late, base_url: "https://api.example.com", api_key: ${SECRET}, audit: { start: "2026-01-31T00:00:00Z" } }
sinks:
  - { name: siem, type: splunk_hec, url: "https://splunk.example.com:8088", token: ${SECRET} }
server: { listen: "[::1]:9464" }
`),
    )
    for (const line of [
      'dedup_retention: 36h',
      'max_bytes: 1536KiB',
      'start: 30d',
      'lookback: 0s',
      'start: 2026-01-31T00:00:00.000Z',
      'token: "***"',
      'ack_timeout: 5m',
      'max_entries: 1000',
      'listen: "[::1]:9464"',
    ])
      expect(text).toContain(line)
    expect(text).not.toContain(SECRET)
  })

  it('shows no value or part of a value from a file or a variable, unless its key is harmless', () => {
    const env = { URL: 'https://api.example.com', TYPE: 'auth:*', AGENT: 'from-env', LIMIT: '7' }
    const text = `journal: { path: "/run/\${env:AGENT}.db", max_bytes: "\${env:LIMIT}GiB" }
workspaces:
  - name: acme
    base_url: \${env:URL}
    api_key: \${file:/key}
    audit: { types: ["\${env:TYPE}"] }
    expected_user_agents: [plain/1, "\${env:AGENT}"]
sinks:
  - name: siem
    type: splunk_hec
    url: https://splunk.example.com:8088
    token: \${file:/token}
    index: \${file:/index}
    host: written
    source: "of-\${env:AGENT}"
    format: "\${env:FORMAT}"
    redact: [{ fields: ["\${env:AGENT}"], with: hash, key_file: "/run/\${env:AGENT}" }]
`
    const readFile = (path: string) => (path === 'a.yaml' ? text : SECRET)
    const shown = configText(loadConfig('a.yaml', { env: { ...env, FORMAT: 'envelope' }, readFile }))
    expect(shown).not.toContain(SECRET)
    for (const line of [
      ...['path: /run/from-env.db', 'max_bytes: 7GiB', 'base_url: https://api.example.com', '- auth:*'],
      ...['index: "***"', 'host: written', 'source: "***"', 'format: envelope', 'key_file: /run/from-env'],
      ...['- plain/1\n      - "***"', 'fields:\n          - "***"'],
    ])
      expect(shown).toContain(line)
    expect(shown.match(/from-env/g)).toHaveLength(2)
  })

  it('names the fields that a sink denies, and masks their values, which are matters and people', () => {
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
