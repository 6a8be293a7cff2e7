// The part of the configuration that puts the journal into PostgreSQL.
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { basePath } from '../../../src/config/journal.ts'
import { loadConfig } from '../../../src/config/load.ts'
import type { Config } from '../../../src/config/schema.ts'

const sink = '  - { name: siem, type: syslog, address: "tls://siem:6514" }\n'

const text = (journal: string, sinks = sink) => `journal: ${journal}
workspaces:
  - { name: acme, base_url: "https://api.example.com", api_key: k3y, audit: {} }
sinks:
${sinks}`

function load(given: string, env: Record<string, string> = {}): Config {
  return loadConfig('/etc/a.yaml', { env, readFile: (path) => (path === '/etc/a.yaml' ? given : 'none') })
}

const at = (url: string, more = '') => text(`{ postgres: { url: "${url}"${more} } }`)

describe('journal.postgres', () => {
  test('has defaults, and the path of a file stays the default one', () => {
    const { path, postgres } = load(at('postgres://ferry:s3cret@db.example.com/audit')).journal
    expect(path).toBe('/var/lib/auditferry/auditferry.db')
    const { url, ...rest } = postgres ?? expect.fail()
    expect(url.reveal()).toBe('postgres://ferry:s3cret@db.example.com/audit')
    expect(rest).toEqual({ schema: 'auditferry', shards: 8, lease: 10_000 })
  })

  test('takes its TLS files from the folder of the configuration', () => {
    const more = ', schema: s1, shards: 64, lease: 5m, tls: { ca_file: ca.pem }'
    expect(load(at('postgres://ferry:p@db/audit', more)).journal.postgres).toMatchObject({
      ...{ schema: 's1', shards: 64, lease: 300_000, tls: { ca_file: '/etc/ca.pem' } },
    })
  })

  test.each([
    ['schema: Ferry', 'journal.postgres.schema: expected a to z'],
    ['shards: 0', 'journal.postgres.shards: expected at least 1'],
    ['shards: 65', 'journal.postgres.shards: expected at most 64'],
    ['lease: 2s', 'journal.postgres.lease: expected 3s to 5m'],
    ['lease: 6m', 'journal.postgres.lease: expected 3s to 5m'],
    ['tls: { cert_file: a.pem }', 'journal.postgres.tls: expected both cert_file and key_file'],
    ['sslmode: require', 'journal.postgres.sslmode: unknown key'],
  ])('refuses %s', (more, fault) => {
    expect(() => load(at('postgres://ferry:p@db/audit', `, ${more}`))).toThrow(fault)
  })

  test.each([
    ['https://ferry:hidden@db/audit', 'is not a URL of PostgreSQL'],
    ['ferry:hidden@db/audit', 'is not a URL of PostgreSQL'],
    ['postgres://ferry:hidden@db', 'names no database'],
    ['postgres://ferry:hidden@db/audit/more', 'names no database'],
    ['postgres://db/audit', 'names no user'],
    ['postgres:///audit', 'names no user'],
    ['postgres://ferry:hidden@db:0/audit', 'names port 0'],
    ['postgres://ferry:hidden%zz@db/audit', 'has a % that begins no character'],
    ['postgres://ferry:hidden@db/audit?sslmode=require', 'has parameters'],
    ['postgres://ferry:hidden@db/audit?host=', 'names no host'],
    ['postgres://ferry:hidden@db/a%00b', 'has a NUL character'],
  ])('refuses the URL %s without a word of it', (url, fault) => {
    const refused = () => load(at(url))
    expect(refused).toThrow(`journal.postgres.url: ${fault}`)
    expect(refused).not.toThrow('hidden')
  })
})

describe('the names of the control socket and the spool begin', () => {
  const base = (given: string) => basePath(load(given))

  test('with the path of a journal that is a file', () => {
    expect(base(text('{ path: /state/a.db }'))).toBe('/state/a.db')
  })

  test('in the folder of temporary files with PostgreSQL, by database and schema', () => {
    const one = base(at('postgres://ferry:one@db/audit'))
    expect(one).toMatch(new RegExp(`^${join(tmpdir(), 'auditferry-')}[0-9a-f]{8}$`))
    expect(base(at('postgresql://other:two@db:5432/audit', ', shards: 2, lease: 1m'))).toBe(one)
    const others = [
      ...['postgres://ferry:one@db2/audit', 'postgres://ferry:one@db:5433/audit'],
      ...['postgres://ferry:one@db/audit2', 'postgres://ferry:one@db/audit?host=/run/postgresql'],
    ].map((url) => base(at(url)))
    const schema = base(at('postgres://ferry:one@db/audit', ', schema: other'))
    expect(new Set([one, schema, ...others]).size).toBe(6)
  })
})
