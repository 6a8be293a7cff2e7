// The part of the configuration that puts the journal into PostgreSQL.
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { checkEnvironment } from '../../../src/config/environment-checks.ts'
import { realFiles } from '../../../src/config/files.ts'
import { basePath } from '../../../src/config/journal.ts'
import { examineConfig, loadConfig } from '../../../src/config/load.ts'
import { configText } from '../../../src/config/render.ts'
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

/** Faults and warnings of what it refers to on this machine. */
function checked(given: string): string[] {
  const { loaded } = examineConfig('/etc/a.yaml', { env: {}, readFile: () => given })
  const { faults, warnings } = checkEnvironment(loaded ?? expect.fail(), realFiles, 0)
  return [...faults, ...warnings]
    .filter(({ path }) => path[0] === 'journal')
    .map(({ path, message }) => `${path.join('.')}: ${message}`)
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

describe('with journal.postgres', () => {
  const database = '{ postgres: { url: "postgres://f:p@localhost/audit" } }'

  test('a path is refused, which would keep the journal in a file', () => {
    const both = database.replace('{ postgres', '{ path: /var/lib/auditferry/auditferry.db, postgres')
    expect(() => load(text(both))).toThrow('journal.path: cannot be set together with journal.postgres')
  })

  test('a sink on the disk or standard output of a replica is refused, unless its file names the replica', () => {
    const sinks = (path: string) =>
      `  - { name: console, type: stdout }\n  - { name: archive, type: file, path: "${path}" }\n${sink}`
    const refused = () => load(text(database, sinks('/out/entries.ndjson')))
    expect(refused).toThrow('sinks[0].type: cannot be used with journal.postgres')
    expect(refused).toThrow('sinks[1].path: cannot be used with journal.postgres')
    const env = { HOSTNAME: 'ferry-0' }
    const own = () => load(text(database, sinks('/out/${env:HOSTNAME}.ndjson')), env)
    expect(own).toThrow('sinks[0].type')
    expect(own).not.toThrow('sinks[1]')
  })

  test('nothing about a journal in a file is checked, and its TLS files are', () => {
    const missing = '{ postgres: { url: "postgres://f:p@db/audit", tls: { ca_file: /no/ca.pem } } }'
    expect(checked(text(missing))).toEqual([
      'journal.postgres.tls.ca_file: the file cannot be used: there is no such file (run starts anyway, reads nothing, and checks for the file again automatically)',
    ])
  })

  test.each([
    ['postgres://f:p@db.example.com/audit', true],
    ['postgres://f:p@10.0.0.1/audit', true],
    ['postgres://f:p@[fd00::1]/audit', true],
    ['postgres://f:p@localhost/audit', false],
    ['postgres://f:p@127.0.0.1/audit', false],
    ['postgres://f:p@[::1]/audit', false],
    ['postgres://f:p@localhost/audit?host=/run/postgresql', false],
  ])('%s without TLS is a warning if it is another machine', (url, isWarned) => {
    const why = 'journal.postgres: entries cross the network to another machine unencrypted'
    expect(checked(at(url)).filter((one) => one.startsWith(why))).toHaveLength(isWarned ? 1 : 0)
    expect(checked(at(url, ', tls: {}'))).toEqual([])
  })

  test('config print shows no path and no password, and can be read again', () => {
    const printed = configText(load(at('postgres://ferry:hidden@db/audit')))
    expect(printed).toContain('url: "***"')
    expect(printed).not.toMatch(/hidden|path:/)
    const filled = printed.replaceAll('***', 'postgres://f:p@db/audit')
    expect(load(filled).journal.postgres).toMatchObject({ schema: 'auditferry', lease: 10_000 })
  })
})

describe('the names of the control socket and the spool begin', () => {
  const base = (given: string) => basePath(load(given))

  test('with the path of a journal that is a file', () => {
    expect(base(text('{ path: /state/a.db }'))).toBe('/state/a.db')
  })

  test('in the folder of temporary files with PostgreSQL, by database and schema', () => {
    const one = base(at('postgres://ferry:one@db/audit'))
    expect(one).toMatch(new RegExp(`^${join(tmpdir(), 'auditferry-')}[0-9a-f]{8}/replica$`))
    expect(base(at('postgresql://other:two@db:5432/audit', ', shards: 2, lease: 1m'))).toBe(one)
    const others = [
      ...['postgres://ferry:one@db2/audit', 'postgres://ferry:one@db:5433/audit'],
      ...['postgres://ferry:one@db/audit2', 'postgres://ferry:one@db/audit?host=/run/postgresql'],
    ].map((url) => base(at(url)))
    const schema = base(at('postgres://ferry:one@db/audit', ', schema: other'))
    expect(new Set([one, schema, ...others]).size).toBe(6)
  })
})
