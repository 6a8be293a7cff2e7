// Each way to get a configuration wrong, with the exact words that an operator reads.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ConfigFaults } from '../../../src/config/faults.ts'
import { loadConfig } from '../../../src/config/load.ts'

const folder = 'test/fixtures/config'
const fixtures = readdirSync(folder).filter((name) => name.startsWith('invalid-'))

function faultsOf(file: string, text: string, env: Record<string, string> = {}): string[] {
  const readFile = (path: string): string => {
    if (path === file) return text
    throw Object.assign(new Error('none'), { code: 'ENOENT' })
  }
  try {
    loadConfig(file, { env, readFile })
    return []
  } catch (error) {
    if (!(error instanceof ConfigFaults)) throw error
    return error.message.split('\n')
  }
}

describe('a faulty configuration reports where and what is wrong, without a value', () => {
  // The comment lines at the top of a fixture are the expected faults.
  test.each(fixtures)('%s', (name) => {
    const text = readFileSync(join(folder, name), 'utf8')
    const wanted = [...text.matchAll(/^# (.*)$/gm)].map(([, line]) => `${name}:${line}`)
    expect(wanted).not.toHaveLength(0)
    const faults = faultsOf(name, text)
    expect(faults).toEqual(wanted)
    expect(faults.join('\n')).not.toContain('planted')
  })
})

const base = `journal: { path: LEAF, max_bytes: LEAF }
workspaces:
  - name: LEAF
    base_url: LEAF
    api_key: LEAF
    audit:
      activity: LEAF
      start: LEAF
      types: [LEAF]
    rate_limits: { audit: LEAF }
    allow_insecure: LEAF
sinks:
  - name: LEAF
    type: splunk_hec
    url: LEAF
    token: LEAF
    acks: LEAF
    tls: { ca_file: LEAF }
  - name: console
    type: LEAF
  - type: file
    path: x
    name: LEAF
    batch: { linger: LEAF }
    sources: LEAF
server: { listen: LEAF }
log: { level: LEAF }
`

test('a secret as the value of any key, in any spelling, is in no fault', () => {
  const leaves = base.split('LEAF').length - 1
  const disguises = [
    '*',
    '!',
    '@',
    '%',
    '"',
    "'",
    '- ',
    '? ',
    '| ',
    '> ',
    '[',
    '`',
    '$',
    '${',
    '${vault:',
    ': ',
    '\\',
    'http://u:',
  ]
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom('', ...disguises), { minLength: leaves, maxLength: leaves }),
      fc.constantFrom('', '}', ' x: y', ' # z', '"', '@host/', ']'),
      (before, after) => {
        let at = 0
        const text = base.replaceAll('LEAF', () => `${before[at++] ?? ''}pLaNtEd-s3cret${after}`)
        const faults = faultsOf('a.yaml', text)
        expect(faults).not.toHaveLength(0)
        expect(faults.join('\n')).not.toContain('pLaNtEd')
      },
    ),
    { numRuns: 300 },
  )
})

test('a secret from a reference is in no fault', () => {
  let at = 0
  const text = base.replaceAll('LEAF', () => `"\${env:S${at++ % 3}}"`)
  const faults = faultsOf('a.yaml', text, { S0: 'pLaNtEd', S1: 'pLaNtEd key', S2: '{pLaNtEd: [' })
  expect(faults.length).toBeGreaterThan(15)
  expect(faults.join('\n')).not.toContain('pLaNtEd')
})

test('all faults are reported at once, in the order of the file', () => {
  const text = `journal: { max_bytes: 5 }
workspaces:
  - name: A
    base_url: http://api.example.com
    api_key: \${file:/nope}
    audit: { sweap: 1h }
  - name: b
    name: c
sinks:
  - { name: x, type: stdout, format: ecs }
  - { name: x, type: file }
`
  expect(faultsOf('a.yaml', text).map((line) => line.split(': ').slice(0, 2).join(' '))).toEqual([
    'a.yaml:1:23 journal.max_bytes',
    'a.yaml:3:11 workspaces[0].name',
    'a.yaml:4:15 workspaces[0].base_url',
    'a.yaml:5:14 workspaces[0].api_key',
    'a.yaml:6:14 workspaces[0].audit.sweap',
    'a.yaml:7:5 workspaces[1].base_url',
    'a.yaml:7:5 workspaces[1].api_key',
    'a.yaml:8:5 workspaces[1].name',
    'a.yaml:10:38 sinks[0].format',
    'a.yaml:11:5 sinks[1].path',
    'a.yaml:11:13 sinks[1].name',
  ])
})

test('a file in UTF-16 is reported as such', () => {
  const text = 'workspaces:\n  - name: acme\n'
  const little = Buffer.from(text, 'utf16le')
  const marked = Buffer.from(`\ufeff${text}`, 'utf16le')
  for (const bytes of [little, marked, Buffer.from(little).swap16(), Buffer.from(marked).swap16()])
    expect(faultsOf('a.yaml', bytes.toString('utf8'))).toEqual([
      'a.yaml:1:1: (whole file): the file is not UTF-8, perhaps UTF-16: save it as UTF-8',
    ])
})

test('a byte order mark does not count as a column', () => {
  const text = '{ workspaces: [], sinks: [{ name: x, type: stdout }], jornal: {} }\n'
  const faults = faultsOf('a.yaml', text)
  expect(faults.map((fault) => fault.split(': ')[0])).toEqual(['a.yaml:1:15', 'a.yaml:1:55'])
  expect(faultsOf('a.yaml', `\ufeff${text}`)).toEqual(faults)
  const broken = '{ workspaces: [, }\n'
  expect(faultsOf('a.yaml', `\ufeff${broken}`)).toEqual(faultsOf('a.yaml', broken))
})

test('a letter in another encoding is a fault with its position, except in a comment', () => {
  const utf8 = `# für alle
workspaces: [{ name: a, base_url: "https://a.example.com", api_key: k, audit: {} }]
sinks:
  - { name: s, type: stdout, deny: { cm_id: [Müller AG] } }
  - { name: t, type: stdout, deny: { mandät: [x] } }
`
  expect(faultsOf('a.yaml', utf8)).toEqual([])
  const message = 'the file has bytes here that are not UTF-8: save it as UTF-8'
  expect(faultsOf('a.yaml', Buffer.from(utf8, 'latin1').toString('utf8'))).toEqual([
    `a.yaml:4:46: sinks[0].deny.cm_id[0]: ${message}`,
    `a.yaml:5:38: sinks[1].deny: ${message}`,
  ])
})

test('the value of a reference must be UTF-8 too', () => {
  const latin = Buffer.from('Müller', 'latin1').toString('utf8')
  const text = `workspaces: [{ name: "\${env:NAME}", base_url: "https://a.example.com", api_key: k, audit: {} }]
sinks: [{ name: s, type: stdout }]
`
  expect(faultsOf('a.yaml', text, { NAME: latin })).toEqual([
    'a.yaml:1:22: workspaces[0].name: ${env:NAME} cannot be resolved: it is not UTF-8',
  ])
})

test('a missing configuration has its own fault', () => {
  const readFile = () => {
    throw Object.assign(new Error('none'), { code: 'ENOENT' })
  }
  expect(() => loadConfig('/etc/x.yaml', { env: {}, readFile })).toThrow(
    '/etc/x.yaml:1:1: (whole file): the configuration cannot be read: there is no such file; name another with --config, or begin with what auditferry init prints',
  )
})

test('the largest allowed number of aliases is read without delay', () => {
  const list = (item: (index: number) => string) =>
    Array.from({ length: 20_000 }, (_, i) => item(i)).join(', ')
  const text = `anchors: [${list((i) => `&a${i} x`)}]\naliases: [${list((i) => `*a${i}`)}]\n`
  expect(faultsOf('a.yaml', text)).toContainEqual(expect.stringContaining('aliases: unknown key'))
})
