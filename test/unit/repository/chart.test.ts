// What the chart copies from other folders, and what must agree between it and the program.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { parse } from 'yaml'

const root = join(import.meta.dirname, '../../..')
const read = (path: string) => readFileSync(join(root, path), 'utf8')

it.each(['rules.yaml', 'dashboard.json'])(
  'the chart has an exact copy of %s of monitoring/: cp monitoring/* helm/auditferry/files/ where it changed',
  (name) => {
    expect(read(`helm/auditferry/files/${name}`) === read(`monitoring/${name}`)).toBe(true)
  },
)

it('the chart has the version of the program', () => {
  const { appVersion } = parse(read('helm/auditferry/Chart.yaml')) as { appVersion: string }
  expect(appVersion).toBe((JSON.parse(read('package.json')) as { version: string }).version)
})
