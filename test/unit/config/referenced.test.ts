// Every scalar of a configuration may come from a variable or a file, whatever its type.
import { expect, test } from 'vitest'
import { parse, stringify } from 'yaml'
import { loadConfig } from '../../../src/config/load.ts'
import { namesFile } from '../../../src/config/fields.ts'
import { configJsonSchema } from '../../../src/config/schema.ts'

/** Together every key of the schema, and each form of those that have several. */
const whole = `
journal:
  path: /tmp/a.db
  max_bytes: 1GiB
  dedup_retention: 40d
  keep_delivered: 1MiB
  limits: { max_entry_bytes: 1MiB, max_depth: 64 }
workspaces:
  - name: acme
    base_url: http://api.example.com
    api_key: k3y
    audit: { activity: low, interval: 10m, start: 30d, types: ['auth:*'], lookback: 1h }
    history: { version: v2, v1_until: '2026-01-01', usage: true, query: true, interval: 10m, start: latest, lookback: 1d }
    vault: { projects: true, interval: 1h }
    canary: { enabled: true, interval: 2h }
    rate_limits: { audit: 50, history: 40, vault: 5, assistant: 6 }
    expected_user_agents: [other/1]
    allow_insecure: true
sinks:
  - &common
    name: console
    type: stdout
    sources: [audit, history.query]
    types: ['*']
    format: envelope
    batch: { max_entries: 10, max_bytes: 1kB, linger: 1.5s }
    allow_insecure: true
    redact:
      - { fields: [a], with: truncate, bytes: 5 }
      - { fields: [b], with: hash, key_file: /k }
    deny: { cm_id: ['0042'] }
    tap: true
  - { name: file, type: file, path: /tmp/a.out, rotate: { max_bytes: 1MiB, keep: 3 } }
  - name: hec
    type: splunk_hec
    url: https://splunk:8088
    token: t
    index: i
    source: s
    sourcetype: st
    host: h
    acks: true
    ack_timeout: 1m
    compression: none
    max_in_flight: 4
    tls: &tls { ca_file: /ca, cert_file: /cert, key_file: /key, server_name: n }
  - { name: hecs, type: splunk_hec, urls: ['https://a:1', 'https://b:2'], token: t, acks: false }
  - { name: heca, type: splunk_hec, url: 'https://a:1', token: t, acks: auto }
  - name: syslog
    type: syslog
    address: tls://siem:6514
    rfc: 3164
    facility: local3
    app_name: app
    hostname: me
    enterprise_id: 4711
    max_message_bytes: 4096
    oversize: compact
    tcp_linger: 5s
    tls: *tls
  - { name: syslogs, type: syslog, address: 'udp://siem:514', rfc: 5424, max_message_bytes: 2KiB }
  - name: bucket
    type: s3
    bucket: logs
    prefix: a/b
    region: eu-west-1
    endpoint: https://s3.example.com
    force_path_style: true
    access_key_id: id
    secret_access_key: secret
    role_arn: arn
    sts_endpoint: https://sts.example.com
    compression: zstd
    sse: { type: kms, kms_key_id: k }
    object_lock: { mode: compliance, days: 7 }
    rotate: { max_bytes: 1MiB, max_age: 1m }
    evidence: { signing_key_file: /s, interval: 2h }
    tls: *tls
  - { name: web, type: s3, bucket: logs, role_arn: arn, web_identity_token_file: /t }
server: { listen: '127.0.0.1:9999', allowed_hosts: [ferry.example.com] }
log: { level: debug }
`

const inPostgres = `
journal:
  postgres:
    url: postgres://ferry:p@db/audit
    schema: s
    shards: 4
    lease: 20s
    tls: { ca_file: /ca, cert_file: /cert, key_file: /key, server_name: n }
workspaces: [{ name: acme, base_url: 'https://api.example.com', api_key: k3y, audit: {} }]
sinks: [{ name: siem, type: syslog, address: 'tls://siem:6514' }]
`

type Path = readonly (string | number)[]
interface Leaf {
  readonly path: Path
  readonly value: unknown
}

function leavesOf(value: unknown, path: Path = []): readonly Leaf[] {
  if (typeof value !== 'object' || value === null) return [{ path, value }]
  return Object.entries(value).flatMap(([key, inner]) =>
    leavesOf(inner, [...path, Array.isArray(value) ? Number(key) : key]),
  )
}

interface Shape {
  readonly properties?: Readonly<Record<string, Shape>>
  readonly items?: Shape
  readonly oneOf?: readonly Shape[]
}

function keysOf({ properties = {}, items, oneOf = [] }: Shape, path: string): readonly string[] {
  const inner = [
    ...Object.entries(properties).flatMap(([key, shape]) => keysOf(shape, `${path}.${key}`)),
    ...(items ? keysOf(items, path) : []),
    ...oneOf.flatMap((shape) => keysOf(shape, path)),
  ]
  return inner.length > 0 ? inner : [path]
}

/** Replaces these scalars by references, and provides their values. */
function referring(text: string, leaves: readonly Leaf[]) {
  const value = parse(stringify(parse(text), { aliasDuplicateObjects: false })) as unknown
  const env: Record<string, string> = {}
  for (const [number, leaf] of leaves.entries()) {
    const at = leaf.path.slice(0, -1).reduce((inner: unknown, step) => (inner as never)[step], value)
    ;(at as Record<PropertyKey, unknown>)[leaf.path.at(-1) ?? ''] = `\${env:V${number}}`
    env[`V${number}`] = String(leaf.value)
  }
  return { text: stringify(value), env }
}

function loaded({ text, env }: ReturnType<typeof referring>): string {
  const config = loadConfig('/a.yaml', { env, readFile: () => text })
  return JSON.stringify({ ...config, referenced: [] })
}

const documents = [whole, inPostgres].map((text) => ({ text, leaves: leavesOf(parse(text)) }))

test('the configurations of this test have every key of the schema', () => {
  const there = new Set(
    documents
      .flatMap(({ leaves }) => leaves)
      .map(({ path }) => `.${path.filter((step) => typeof step === 'string').join('.')}`),
  )
  const deny = '.sinks.deny'
  expect(keysOf(configJsonSchema(), '').filter((key) => !there.has(key) && key !== deny)).toEqual([])
})

test('every kind of scalar takes its value from a variable as it does from plain text', () => {
  for (const { text, leaves } of documents) {
    const plain = loaded(referring(text, []))
    const faulty = leaves.flatMap((leaf) => {
      try {
        return loaded(referring(text, [leaf])) === plain ? [] : [`${leaf.path.join('.')}: another value`]
      } catch (error) {
        return [String(error)]
      }
    })
    expect(faulty).toEqual([])
    expect(loaded(referring(text, leaves))).toBe(plain)
  }
})

test('every key for a file is recognised by its name, and a relative path in it starts at the folder of the configuration', () => {
  const isPath = ({ value }: Leaf) => typeof value === 'string' && value.startsWith('/')
  for (const { text, leaves } of documents) {
    expect(leaves.filter(isPath).length).toBeGreaterThan(2)
    expect(leaves.filter(({ path }) => namesFile(path.at(-1)))).toEqual(leaves.filter(isPath))
    const relative = leaves.map((leaf) =>
      isPath(leaf) ? { ...leaf, value: `./${String(leaf.value).slice(1)}` } : leaf,
    )
    expect(loaded(referring(text, relative))).toBe(loaded(referring(text, [])))
  }
})
