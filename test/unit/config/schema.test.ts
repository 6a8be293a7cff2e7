// The schema for others: editors use its JSON Schema, operators the page of all keys.
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { nearest } from '../../../src/config/explain.ts'
import { configJsonSchema } from '../../../src/config/schema.ts'

interface Shape {
  readonly description?: string
  readonly additionalProperties?: unknown
  readonly properties?: Readonly<Record<string, Shape>>
  readonly items?: Shape
  readonly oneOf?: readonly Shape[]
}

function eachKey(shape: Shape, path: string, visit: (path: string, shape: Shape) => void): void {
  for (const [key, inner] of Object.entries(shape.properties ?? {})) {
    visit(`${path}.${key}`, inner)
    eachKey(inner, `${path}.${key}`, visit)
  }
  if (shape.items) eachKey(shape.items, `${path}[]`, visit)
  for (const one of shape.oneOf ?? []) eachKey(one, path, visit)
}

test('every key has a description that ends with a full stop', () => {
  const without: string[] = []
  eachKey(configJsonSchema(), '', (path, { description = '' }) => {
    if (!description.endsWith('.')) without.push(path)
  })
  expect(without).toEqual([])
})

test('no mapping of the schema takes unknown keys', () => {
  const open: string[] = []
  eachKey(configJsonSchema(), '', (path, { properties, additionalProperties }) => {
    if (properties && additionalProperties !== false) open.push(path)
  })
  expect(open).toEqual([])
})

test('the example has every section of the schema', () => {
  const example = parse(readFileSync('config/example.yaml', 'utf8')) as Record<string, unknown>
  expect(Object.keys(example).sort()).toEqual(
    Object.keys((configJsonSchema() as Shape).properties ?? {}).sort(),
  )
})

test('the page of all keys is generated from the schema', () => {
  expect(() =>
    execFileSync(process.execPath, ['scripts/config-docs.ts', '--check'], { stdio: 'pipe' }),
  ).not.toThrow()
})

test.each([
  ['apikey', 'api_key'],
  ['api-key', 'api_key'],
  ['baseurl', 'base_url'],
  ['nmae', 'name'],
  ['audits', 'audit'],
  ['zebra', undefined],
  ['x', undefined],
])('%s suggests %s', (written, meant) => {
  expect(nearest(written, ['name', 'base_url', 'api_key', 'audit', 'history'])).toBe(meant)
})
