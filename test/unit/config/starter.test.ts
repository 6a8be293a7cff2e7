// The starter configuration is valid: for each kind of sink, and for all of them together.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { parse } from 'yaml'
import { examineConfig } from '../../../src/config/load.ts'
import { starterText } from '../../../src/config/starter.ts'
import { readTextFile } from '../../../src/config/files.ts'
import { configJsonSchema } from '../../../src/config/schema.ts'
import { sinkKinds } from '../../../src/sinks/index.ts'

let folder: string
beforeEach(() => (folder = mkdtempSync(join(tmpdir(), 'starter-'))))
afterEach(() => rmSync(folder, { recursive: true, force: true }))

function examined(text: string) {
  const file = join(folder, 'a.yaml')
  writeFileSync(file, text)
  const readFile = (path: string) => (path === file ? readTextFile(path) : 'some-secret')
  return examineConfig(file, { env: {}, readFile })
}

const types = Object.keys(sinkKinds)

test.each([...types.map((type) => [type]), types])('%s: only the secrets are missing', (...wanted) => {
  const { faults, loaded } = examined(starterText(wanted))
  expect(faults).toEqual([])
  expect(loaded?.config.sinks.map(({ type }) => type)).toEqual(wanted)
  expect(loaded?.config.workspaces[0]?.audit).toBeDefined()
})

test('the starter has every section of the configuration', () => {
  const { properties = {} } = configJsonSchema() as { properties?: object }
  expect(Object.keys(parse(starterText(['file'])) as object).sort()).toEqual(Object.keys(properties).sort())
})

test('a key commented out with # shows the value in force', () => {
  const text = starterText(['file'])
  const plain = examined(text).loaded?.config
  const keys =
    /^( +)# (max_bytes|dedup_retention|keep_delivered|limits|start|types|lookback|rate_limits|sources|format|batch|allow_insecure|expected_user_agents): (\S.*)$/gm
  const on = text.replace(keys, '$1$2: $3')
  expect(on).not.toBe(text)
  expect(examined(on).loaded?.config).toEqual(plain)
})

test('every line is short enough to read, and every key is explained', () => {
  const lines = starterText(types).split('\n')
  expect(lines.filter((line) => line.length > 114)).toEqual([])
  const keys = lines.filter(
    (line) => /^ +(- )?(# )?[a-z_0-9]+:( |$)/.test(line) && !/^ +(- )?name:/.test(line),
  )
  expect(keys.length).toBeGreaterThan(60)
})
