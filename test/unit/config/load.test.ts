// What a valid configuration becomes: defaults, units, start positions, references.
import { readdirSync, readFileSync } from 'node:fs'
import { basename, resolve } from 'node:path'
import { inspect } from 'node:util'
import { describe, expect, test } from 'vitest'
import { journalSettings, journalWorkspaces } from '../../../src/config/journal.ts'
import { loadConfig } from '../../../src/config/load.ts'
import { sinkKinds } from '../../../src/sinks/index.ts'
import type { Config } from '../../../src/config/schema.ts'
import { SecretLook } from '../../../src/core/secret.ts'

interface Given {
  readonly text: string
  readonly env?: Record<string, string>
  readonly files?: Record<string, string>
}

function load({ text, env = {}, files = {} }: Given): Config {
  const readFile = (path: string): string => {
    if (path === 'a.yaml') return text
    const content = files[path]
    if (content === undefined) throw Object.assign(new Error('none'), { code: 'ENOENT' })
    return content
  }
  return loadConfig('a.yaml', { env, readFile })
}

const small = (audit = '{}', key = 'k3y') => `workspaces:
  - name: acme
    base_url: https://api.example.com/
    api_key: ${key}
    audit: ${audit}
sinks:
  - name: console
    type: stdout
`

test('the settings of the journal reach it, including the largest entry', () => {
  const text = `journal: { path: /a.db, limits: { max_entry_bytes: 64MiB } }\n${small()}`
  expect(journalSettings(load({ text }))).toEqual({
    path: '/a.db',
    maxBytes: 2 ** 31,
    keepKeysMs: 35 * 86_400_000,
    keepDeliveredBytes: 2 ** 28,
    maxEntryBytes: 2 ** 26,
  })
})

test('the start of a workspace reaches the journal as written in the file', () => {
  const startsIn = (text: string) => journalWorkspaces(load({ text }))[0]?.starts
  expect(startsIn(small('{ start: 36h }'))).toEqual({ auditStart: '36h' })
  expect(startsIn(small('{ start: 2026-11-01T00:00:00Z }'))).toEqual({
    auditStart: '2026-11-01T00:00:00.000Z',
  })
})

test('missing keys take their defaults, in bytes and milliseconds', () => {
  const config = load({ text: small() })
  const { api_key: key, ...workspace } = config.workspaces[0] ?? expect.fail()
  expect(key.reveal()).toBe('k3y')
  expect({ ...config, workspaces: [workspace] }).toEqual({
    journal: {
      path: '/var/lib/auditferry/auditferry.db',
      max_bytes: 2 * 2 ** 30,
      dedup_retention: 35 * 86_400_000,
      keep_delivered: 256 * 2 ** 20,
      limits: { max_entry_bytes: 16 * 2 ** 20, max_depth: 512 },
    },
    workspaces: [
      {
        name: 'acme',
        base_url: 'https://api.example.com',
        audit: { activity: 'medium', start: { kind: 'earliest' }, types: ['*'], lookback: 86_400_000 },
        rate_limits: { audit: 60, history: 60, vault: 10, assistant: 20 },
        expected_user_agents: [],
        allow_insecure: false,
      },
    ],
    sinks: [
      {
        name: 'console',
        type: 'stdout',
        sources: ['audit', 'history.usage', 'vault.projects'],
        types: ['*'],
        format: 'raw',
        batch: { max_entries: 1000, max_bytes: 2 ** 20, linger: 1000 },
        allow_insecure: false,
        tap: false,
      },
    ],
    server: { listen: { host: '127.0.0.1', port: 9464 }, allowed_hosts: [] },
    log: { level: 'info' },
  })
})

test.each([
  ['earliest', { kind: 'earliest' }],
  ['latest', { kind: 'latest' }],
  ['30d', { kind: 'span', ms: 30 * 86_400_000 }],
  ['2026-01-31T00:00:00Z', { kind: 'time', atUs: Date.UTC(2026, 0, 31) * 1000 }],
  ['2026-01-31T00:00:00.000001', { kind: 'time', atUs: Date.UTC(2026, 0, 31) * 1000 + 1 }],
  ['2026-01-31', { kind: 'time', atUs: Date.UTC(2026, 0, 31) * 1000 }],
])('start: %s is parsed', (start, wanted) => {
  expect(load({ text: small(`{ start: "${start}" }`) }).workspaces[0]?.audit?.start).toEqual(wanted)
})

test('the dedup retention may be shorter than the default lookback, which it then limits', () => {
  expect(load({ text: `journal: { dedup_retention: 1h }\n${small()}` }).journal.dedup_retention).toBe(
    3_600_000,
  )
})

test('in a container the environment sets the listener, unless the configuration does', () => {
  const env = { AUDITFERRY_LISTEN: '0.0.0.0:9464' }
  expect(load({ text: small(), env }).server.listen).toEqual({ host: '0.0.0.0', port: 9464 })
  expect(load({ text: `${small()}server: {}\n`, env }).server.listen.host).toBe('0.0.0.0')
  const own = `${small()}server: { listen: "127.0.0.1:1" }\n`
  expect(load({ text: own, env }).server.listen).toEqual({ host: '127.0.0.1', port: 1 })
  expect(load({ text: small(), env: { AUDITFERRY_LISTEN: '' } }).server.listen.host).toBe('127.0.0.1')
  expect(() => load({ text: small(), env: { AUDITFERRY_LISTEN: 'nowhere' } })).toThrow('server.listen')
})

test("host names from a container's environment are added to the configured ones", () => {
  const env = { AUDITFERRY_ALLOWED_HOSTS: 'ferry.space, ferry.space.svc,' }
  expect(load({ text: small() }).server.allowed_hosts).toEqual([])
  expect(load({ text: small(), env }).server.allowed_hosts).toEqual(['ferry.space', 'ferry.space.svc'])
  const own = `${small()}server: { allowed_hosts: [ferry.example.com] }\n`
  expect(load({ text: own, env }).server).toEqual({
    listen: { host: '127.0.0.1', port: 9464 },
    allowed_hosts: ['ferry.example.com', 'ferry.space', 'ferry.space.svc'],
  })
  expect(() => load({ text: small(), env: { AUDITFERRY_ALLOWED_HOSTS: 'a:1' } })).toThrow(
    'server.allowed_hosts[0]: expected a host name without a port',
  )
  expect(() => load({ text: `${small()}server: { allowed_hosts: "*" }\n`, env })).toThrow('expected a list')
})

describe('relative paths', () => {
  const text = `journal: { path: ./state/a.db }\n${small('{}', '${file:keys/api}')}`
  const asked: string[] = []
  const from = (file: string) => {
    asked.length = 0
    const readFile = (path: string) => (path === file ? text : (asked.push(path), 'k3y'))
    return loadConfig(file, { env: {}, readFile })
  }

  test('start at the folder of the configuration, also in references', () => {
    expect(from('/etc/ferry/a.yaml').journal.path).toBe('/etc/ferry/state/a.db')
    expect(asked).toEqual(['/etc/ferry/keys/api'])
  })

  test('lead to the same files, however the configuration is named', () => {
    const here = from('conf/a.yaml').journal.path
    expect(here).toBe(resolve('conf/state/a.db'))
    expect(from(resolve('conf/a.yaml')).journal.path).toBe(here)
    expect(from('./docs/../conf/a.yaml').journal.path).toBe(here)
  })

  test('of a configuration from a pipe start at the working directory', () => {
    expect(from('/dev/stdin').journal.path).toBe(resolve('state/a.db'))
    expect(from('/proc/self/fd/63').journal.path).toBe(resolve('state/a.db'))
    expect(asked).toEqual([resolve('keys/api')])
  })

  test('also apply when a secret is read again', () => {
    const [workspace] = from('/etc/ferry/a.yaml').workspaces
    workspace?.api_key.fresh()
    expect(workspace?.api_key.file).toBe('/etc/ferry/keys/api')
    expect(asked).toEqual(['/etc/ferry/keys/api', '/etc/ferry/keys/api'])
  })

  test('are shown in full if the file does not exist', () => {
    const none = Object.assign(new Error('none'), { code: 'ENOENT' })
    const readFile = (path: string) => {
      if (path === '/etc/ferry/a.yaml') return text
      throw none
    }
    expect(() => loadConfig('/etc/ferry/a.yaml', { env: {}, readFile })).toThrow(
      '${file:keys/api} cannot be resolved: there is no such file (it is looked for at /etc/ferry/keys/api)',
    )
  })
})

test('a listener may be an IPv6 address', () => {
  const { listen } = load({ text: `${small()}server: { listen: "[::1]:0" }\n` }).server
  expect(listen).toEqual({ host: '::1', port: 0 })
})

test('plain http is allowed on loopback, and elsewhere only with allow_insecure', () => {
  for (const host of ['localhost:1', '127.0.0.1', '127.9.9.9:80', '[::1]:8080'])
    expect(load({ text: small().replace('https://api.example.com/', `http://${host}`) })).toBeDefined()
  const said = small().replace('https:', 'http:').replace('audit:', 'allow_insecure: true\n    audit:')
  expect(load({ text: said }).workspaces[0]?.base_url).toBe('http://api.example.com')
  for (const host of ['127.0.0.1.example.com', '128.0.0.1', 'localhost.example.com', '10.0.0.1'])
    expect(() => load({ text: small().replace('https://api.example.com/', `http://${host}`) })).toThrow(
      'plain http',
    )
})

test('sources may be listed as switched off', () => {
  const off = `${small().replace('sinks:', '    vault: { projects: false }\nsinks:')}    redact: []\n    deny: {}\n`
  expect(load({ text: off }).workspaces[0]?.vault?.projects).toBe(false)
})

describe('references', () => {
  const keyFrom = (key: string, given: Omit<Given, 'text'>) =>
    load({ text: small('{}', key), ...given }).workspaces[0]?.api_key ?? expect.fail()

  test.each([
    ['${file:/run/key}', 'from-file'],
    ['${env:KEY}', 'from-env'],
    ['pre-${env:KEY}-${file:/run/key}.post', 'pre-from-env-from-file.post'],
    ['a$$b', 'a$b'],
    ['$${env:KEY}', '${env:KEY}'],
    ['$$${env:KEY}', '$from-env'],
    ['a$b', 'a$b'],
    ['$', '$'],
    ['${env:DOLLARS}', '$$-${env:KEY}'],
  ])('%s becomes %s', (written, wanted) => {
    const env = { KEY: 'from-env', DOLLARS: '$$-${env:KEY}' }
    expect(keyFrom(written, { env, files: { '/run/key': 'from-file\n' } }).reveal()).toBe(wanted)
  })

  test('the value of a reference is never parsed as structure', () => {
    const text = `${small()}journal: { path: "\${env:PATHLIKE}" }\n`
    const path = 'x }\nsinks: [] # *a &b !c'
    expect(load({ text, env: { PATHLIKE: path } }).journal.path).toBe(resolve(path))
  })

  test('a number or a boolean may come from a variable', () => {
    const text = `${small()}    batch: { max_entries: "\${env:N}" }\n    allow_insecure: "\${env:YES}"\n`
    const sink = load({ text, env: { N: '25', YES: 'true' } }).sinks[0]
    expect(sink?.batch.max_entries).toBe(25)
    expect(sink?.allow_insecure).toBe(true)
    expect(() => load({ text, env: { N: 'many', YES: '1' } })).toThrow(
      /expected a number, got a text\n.*expected true or false, got a text/,
    )
  })

  test('a secret can be read again from its file', () => {
    const files = { '/run/key': 'old\n' }
    const key = keyFrom('${file:/run/key}', { files })
    const look = new SecretLook([key], { elapsed: () => 0 })
    expect(look.refresh()).toBe(false)
    files['/run/key'] = 'new\r\n'
    expect(look.refresh()).toBe(true)
    expect(key.reveal()).toBe('new')
  })

  test('an inherited property of the environment object is no variable', () => {
    expect(() => keyFrom('${env:toString}', {})).toThrow('${env:toString} cannot be resolved: it is not set')
  })

  test('a loaded configuration prints no secret', () => {
    const config = load({ text: small() })
    expect(JSON.stringify(config) + inspect(config, { depth: 9 })).not.toContain('k3y')
  })
})

describe('samples', () => {
  const standIns: Readonly<Record<string, string>> = { postgres: 'postgres://stand-in:s3cret@db/stand-in' }
  const samples = readdirSync('config').filter((name) => name.endsWith('.yaml'))
  const parsed = samples.map((name) => {
    const readFile = (path: string): string =>
      path.endsWith('.yaml') ? readFileSync(path, 'utf8') : (standIns[basename(path)] ?? 'stand-in')
    const named = readFileSync(`config/${name}`, 'utf8').matchAll(/\$\{env:(\w+)\}/g)
    const env = Object.fromEntries(Array.from(named, ([, variable = '']) => [variable, 'stand-in']))
    return loadConfig(`config/${name}`, { env, readFile })
  })

  test('every sample is a valid configuration', () => {
    expect(samples).toContain('example.yaml')
    expect(parsed.every(({ sinks }) => sinks.length > 0)).toBe(true)
  })

  test('every kind of sink has a sample', () => {
    const types = new Set(parsed.flatMap(({ sinks }) => sinks.map(({ type }) => type)))
    expect([...types].sort()).toEqual(Object.keys(sinkKinds).sort())
  })
})
