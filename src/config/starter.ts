// Generates a starter configuration: required keys with examples, the rest commented out.
import { stringify } from 'yaml'
import { configJsonSchema, variantOf } from './schema.ts'
import type { Shape } from './schema.ts'

/** Keys without a default, or important for a new user, by path; those of a sink under its type. */
const examples: Readonly<Record<string, unknown>> = {
  'journal.path': '/var/lib/auditferry/auditferry.db',
  'workspaces.name': 'acme',
  'workspaces.base_url': 'https://api.example.com',
  'workspaces.api_key': '${file:/run/secrets/auditferry/api-key}',
  'workspaces.audit': {},
  'workspaces.audit.activity': 'medium',
  'sinks.stdout.name': 'console',
  'sinks.file.name': 'archive-file',
  'sinks.file.path': '/var/lib/auditferry/out/entries.ndjson',
  'sinks.splunk_hec.name': 'splunk',
  'sinks.splunk_hec.url': 'https://splunk.example.com:8088',
  'sinks.splunk_hec.token': '${file:/run/secrets/auditferry/hec-token}',
  'sinks.syslog.name': 'siem',
  'sinks.syslog.address': 'relp+tls://siem.example.com:2514',
  'sinks.s3.name': 'archive',
  'sinks.s3.bucket': 'example-audit-archive',
  'sinks.s3.region': 'eu-central-1',
  'server.listen': '127.0.0.1:9464',
  'log.level': 'info',
}

/** Keys that are omitted because an alternative is shown. */
const skipped: ReadonlySet<string> = new Set(['journal.postgres', 'sinks.splunk_hec.urls'])

const WIDTH = 100

function comment(text: string): string[] {
  const lines: string[] = []
  let line = '#'
  for (const word of text.split(' ')) {
    if (line.length + word.length >= WIDTH) {
      lines.push(line)
      line = '#'
    }
    line += ` ${word}`
  }
  return [...lines, line]
}

/** One line; nested values in flow style. */
const scalar = (value: unknown): string =>
  typeof value === 'object' ? JSON.stringify(value) : stringify(value, { lineWidth: 0 }).trimEnd()

/** Lines of a mapping's keys, not indented. `path`: prefix of its keys in `examples`. */
function mapping(shape: Shape, path: string): string[] {
  return Object.entries(shape.properties ?? {}).flatMap(([key, inner]) => {
    const own = path === '' ? key : `${path}.${key}`
    return skipped.has(own) ? [] : keyLines(key, inner, own)
  })
}

function keyLines(key: string, shape: Shape, path: string): string[] {
  const about = shape.description === undefined ? [] : comment(shape.description)
  const example = examples[path]
  if (example === undefined && shape.const === undefined) return [...about, `# ${key}:${valueOf(shape)}`]
  const open = isSection(example) && shape.properties
  if (!open) return [...about, `${key}: ${scalar(example ?? shape.const)}`]
  return [...about, `${key}:`, ...indented(mapping(shape, path))]
}

/** An empty mapping in `examples`: shown key by key. */
const isSection = (example: unknown): boolean =>
  typeof example === 'object' && example !== null && Object.keys(example).length === 0

const indented = (lines: readonly string[]): string[] => lines.map((line) => (line === '' ? '' : `  ${line}`))

/** The default; for a mapping the defaults of its keys in flow style. */
function valueOf(shape: Shape): string {
  if (shape.properties) return ` ${flow(shape)}`
  return shape.default === undefined ? '' : ` ${scalar(shape.default)}`
}

function flow(shape: Shape): string {
  const parts = Object.entries(shape.properties ?? {}).flatMap(([key, inner]) => {
    if (inner.properties) return [`${key}: ${flow(inner)}`]
    return inner.default === undefined ? [] : [`${key}: ${scalar(inner.default)}`]
  })
  return parts.length === 0 ? '{}' : `{ ${parts.join(', ')} }`
}

/** Adds the hyphen of a list item to its first line that is not a comment. */
function item(lines: readonly string[]): string[] {
  const first = lines.findIndex((line) => !line.startsWith('#'))
  return lines.map((line, index) => `${index === first ? '- ' : '  '}${line}`)
}

/** YAML with one sink of each of `types`. `validate` accepts it if its secrets exist. */
export function starterText(types: readonly string[]): string {
  const { properties = {} } = configJsonSchema()
  const sinks = types.map((type) => {
    const variant = variantOf(properties['sinks']?.items ?? {}, type)
    const named = { ...variant, properties: { type: {}, name: {}, ...variant?.properties } }
    return item(mapping(named, `sinks.${type}`))
  })
  const section = (key: string, lines: readonly string[]) => [
    ...comment(properties[key]?.description ?? ''),
    `${key}:`,
    ...lines.map((line) => `  ${line}`),
    '',
  ]
  return [
    ...comment(
      'Auditferry: start here. A key after # is off or shows its default; to change it, remove the # and set a value.',
    ),
    ...comment('Check it with: auditferry validate --config FILE, then with --connect too.'),
    '',
    ...section('journal', mapping(properties['journal'] ?? {}, 'journal')),
    ...section('workspaces', item(mapping(properties['workspaces']?.items ?? {}, 'workspaces'))),
    ...section('sinks', sinks.flat()),
    ...section('server', mapping(properties['server'] ?? {}, 'server')),
    ...section('log', mapping(properties['log'] ?? {}, 'log')),
  ].join('\n')
}
