// Writes the tables of docs/configuration.md from the schema, so that they cannot fall behind it; with --check it only compares.
import { readFileSync, writeFileSync } from 'node:fs'
import { format, resolveConfig } from 'prettier'
import { configJsonSchema } from '../src/config/schema.ts'
import { durationPattern, sizePattern } from '../src/core/units.ts'
import { code } from './schema-shape.ts'
import type { Shape } from './schema-shape.ts'

const page = 'docs/configuration.md'
const begin = '<!-- begin of what scripts/config-docs.ts writes -->'
const end = '<!-- end of what scripts/config-docs.ts writes -->'

function kind(shape: Shape): string {
  if (shape.const !== undefined) return code(shape.const)
  if (shape.enum) return shape.enum.map(code).join(', ')
  if (shape.anyOf) return shape.anyOf.map(kind).join(', ')
  if (shape.pattern === durationPattern.source) return 'duration'
  if (shape.pattern === sizePattern.source) return 'size'
  if (shape.type === 'array') return `list${shape.items?.type ? ` of ${kind(shape.items)}` : ''}`
  const words: Record<string, string> = {
    string: 'text',
    integer: 'number',
    boolean: '`true`, `false`',
    object: 'mapping',
  }
  return words[shape.type ?? ''] ?? shape.type ?? 'anything'
}

function fallback(shape: Shape, required: boolean): string {
  if (required) return '**required**'
  return shape.default === undefined || JSON.stringify(shape.default) === '{}' ? '' : code(shape.default)
}

function rows(shape: Shape, prefix: string): string[] {
  return Object.entries(shape.properties ?? {}).flatMap(([key, inner]) => {
    const name = `${prefix}${key}`
    const isRequired = shape.required?.includes(key) ?? false
    const byDefault = fallback(inner, isRequired && inner.default === undefined)
    const value = byDefault === '' ? kind(inner) : `${kind(inner)}; ${byDefault}`
    const cells = [code(name), value, inner.description ?? '']
    return [
      `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`,
      // They have a section of their own.
      ...(inner.properties && key !== 'tls' ? rows(inner, `${name}.`) : []),
      ...(inner.items?.properties ? rows(inner.items, `${name}[].`) : []),
    ]
  })
}

function table(title: string, intro: string | undefined, lines: readonly string[]): string {
  if (lines.length === 0) return `### ${title}\n\n${intro ?? ''}\n`
  return `### ${title}\n\n${intro ? `${intro}\n\n` : ''}| Key | Value; default | Meaning |\n| --- | --- | --- |\n${lines.join('\n')}\n`
}

function sinkTables(kinds: readonly Shape[]): string[] {
  const keysOf = (shape: Shape) => Object.entries(shape.properties ?? {})
  const [first] = kinds
  if (!first) return []
  const isCommon = (key: string) => key !== 'type' && kinds.every((one) => one.properties?.[key])
  const only = (shape: Shape, wanted: (key: string) => boolean): Shape => ({
    ...shape,
    properties: Object.fromEntries(keysOf(shape).filter(([key]) => wanted(key))),
  })
  const pages = kinds.map((one) => {
    const type = String(one.properties?.['type']?.const)
    return `[\`${type}\`](sinks/${type}.md)`
  })
  const intro = `Keys of every sink, beside \`type\`. Each type has its other keys on its page: ${pages.join(', ')}.`
  return [table('`sinks[]`', intro, rows(only(first, isCommon), ''))]
}

function render(schema: Shape): string {
  const sections = Object.entries(schema.properties ?? {}).flatMap(([key, shape]) => {
    if (shape.items?.oneOf) return sinkTables(shape.items.oneOf)
    if (shape.items) return [table(`\`${key}[]\``, shape.items.description, rows(shape.items, ''))]
    return [table(`\`${key}\``, shape.description, rows(shape, ''))]
  })
  return sections.join('\n')
}

const before = readFileSync(page, 'utf8')
const from = before.indexOf(begin)
const to = before.indexOf(end)
if (from < 0 || to < from) throw new Error(`${page} lacks its two marks`)
const tables = render(configJsonSchema())
const written = `${before.slice(0, from + begin.length)}\n\n${tables}\n${before.slice(to)}`
// As `npm run format` leaves it, or the two would fight.
const after = await format(written, { ...(await resolveConfig(page)), filepath: page })
if (!process.argv.includes('--check')) writeFileSync(page, after)
else if (after !== before) {
  process.stderr.write(`${page} is behind the schema: node scripts/config-docs.ts writes it anew\n`)
  process.exitCode = 1
}
