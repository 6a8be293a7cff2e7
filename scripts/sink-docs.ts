// Writes the options tables of docs/sinks from the sinks' own schemas, so that they cannot fall behind; with --check it only compares.
import { readFileSync, writeFileSync } from 'node:fs'
import { format, resolveConfig } from 'prettier'
import { z } from 'zod'
import { durationPattern, sizePattern } from '../src/core/units.ts'
import { sinkKinds } from '../src/sinks/index.ts'
import { code } from './schema-shape.ts'
import type { Shape } from './schema-shape.ts'

const marker = '<!-- options -->'

function kindOf(shape: Shape): string {
  if (shape.enum) return shape.enum.map(code).join(', ')
  if (shape.const !== undefined) return code(shape.const)
  if (shape.pattern === durationPattern.source) return 'duration'
  if (shape.pattern === sizePattern.source) return 'size'
  if (shape.anyOf) return shape.anyOf.map(kindOf).join(' or ')
  if (shape.type === 'array') return `list of ${kindOf(shape.items ?? {})}`
  const words: Record<string, string> = { string: 'text', integer: 'number', object: 'mapping' }
  return words[shape.type ?? ''] ?? shape.type ?? 'text'
}

function rows(shape: Shape, prefix = ''): string[] {
  return Object.entries(shape.properties ?? {}).flatMap(([key, inner]) => {
    const needed = shape.required?.includes(key) && inner.default === undefined
    const fallback = needed ? '**required**' : inner.default === undefined ? '' : code(inner.default)
    const value = fallback === '' ? kindOf(inner) : `${kindOf(inner)}; ${fallback}`
    const cells = [code(prefix + key), value, inner.description ?? '']
    const row = `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
    // The same keys in every sink: configuration.md has them.
    if (key === 'tls') return [row.replace(/ \|$/, ' See [TLS](../configuration.md#tls). |')]
    return [row, ...rows(inner, `${prefix}${key}.`)]
  })
}

function table(schema: z.ZodType): string {
  const found = rows(z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as Shape)
  if (found.length === 0) return 'None of its own.'
  return ['| Key | Value; default | Meaning |', '| --- | --- | --- |', ...found].join('\n')
}

const only = process.argv.includes('--check')
for (const [name, kind] of Object.entries(sinkKinds)) {
  const page = `docs/sinks/${name}.md`
  const text = readFileSync(page, 'utf8')
  const parts = text.split(marker)
  if (parts.length !== 3) throw new Error(`${page}: expected the line ${marker} twice, around the table`)
  const fresh = [parts[0], `\n\n${table(kind.options)}\n\n`, parts[2]].join(marker)
  const pretty = await format(fresh, { ...(await resolveConfig(page)), parser: 'markdown' })
  if (pretty === text) continue
  if (only) {
    console.error(`${page} does not tell what the schema says: run node scripts/sink-docs.ts`)
    process.exitCode = 1
  } else {
    writeFileSync(page, pretty)
  }
}
