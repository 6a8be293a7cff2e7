// Reload with the journal in PostgreSQL: only what its secret contains may change.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { reloading } from '../../../../src/cli/run/reload.ts'
import type { CurrentSetup } from '../../../../src/cli/run/daemon.ts'
import type { Setup } from '../../../../src/cli/run/engine.ts'
import { loadConfig, examineConfig } from '../../../../src/config/load.ts'
import { readTextFile } from '../../../../src/config/files.ts'
import { VirtualClock } from '../../../simulation/virtual-clock.ts'
import { LogLines } from '../../../fakes/sink-deps.ts'
import { START } from '../../app/audit-harness.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'reload-'))
  secret('postgres://ferry:one@db/audit')
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const secret = (url: string) => writeFileSync(join(folder, 'url'), url)
const followed = () => `postgres: { url: "\${file:${folder}/url}"`

const text = (journal: string, level = 'info') => `journal: { ${journal} }
workspaces:
  - { name: acme, base_url: "https://api.example.com", api_key: k3y, audit: {} }
sinks:
  - { name: siem, type: syslog, address: "tls://siem:6514" }
log: { level: ${level} }
`

/** The configuration that takes over, or why it is rejected. */
async function reload(before: string, change: () => string): Promise<Setup | string | undefined> {
  const file = join(folder, 'a.yaml')
  const references = { env: {}, readFile: readTextFile }
  const load = () => examineConfig(file, references).loaded ?? expect.fail()
  writeFileSync(file, before)
  const loaded = load()
  let hangUp: () => void = () => undefined
  const environment = {
    log: new LogLines(),
    clock: new VirtualClock(START),
  } as unknown as Setup['environment']
  const next = reloading({
    ...{ file, clock: environment.clock, references, loaded, load, environmentOf: () => environment },
    onHangup: (listener) => void (hangUp = listener),
  })
  writeFileSync(file, change())
  loadConfig(file, references)
  const stop = new AbortController()
  let rejected: string | undefined
  const current: CurrentSetup = {
    ...{ config: loaded.config, environment, prepareFor: async () => undefined },
    reportRejected(error) {
      rejected = error?.message
      stop.abort()
    },
  }
  hangUp()
  return next(current, stop.signal).catch(() => rejected)
}

const moved = 'journal.postgres: cannot change while the daemon runs'

test.each([
  [
    'another database',
    `postgres: { url: "postgres://ferry:one@db/audit" }`,
    'postgres: { url: "postgres://ferry:one@db/other" }',
  ],
  [
    'another literal password',
    `postgres: { url: "postgres://ferry:one@db/audit" }`,
    'postgres: { url: "postgres://ferry:two@db/audit" }',
  ],
  [
    'another schema',
    `postgres: { url: "postgres://f:p@db/audit" }`,
    'postgres: { url: "postgres://f:p@db/audit", schema: other }',
  ],
  [
    'more shards',
    `postgres: { url: "postgres://f:p@db/audit" }`,
    'postgres: { url: "postgres://f:p@db/audit", shards: 9 }',
  ],
  [
    'another lease',
    `postgres: { url: "postgres://f:p@db/audit" }`,
    'postgres: { url: "postgres://f:p@db/audit", lease: 9s }',
  ],
  [
    'TLS',
    `postgres: { url: "postgres://f:p@db/audit" }`,
    'postgres: { url: "postgres://f:p@db/audit", tls: {} }',
  ],
])('%s is refused', async (_, before, after) => {
  expect(await reload(text(before), () => text(after))).toContain(moved)
})

test('the journal does not move into another engine', async () => {
  const [file, database] = [`path: ${tmpdir()}/a.db`, 'postgres: { url: "postgres://f:p@db/audit" }']
  const why = 'the journal cannot move into another engine while the daemon runs'
  expect(await reload(text(file), () => text(database))).toContain(`journal: ${why}`)
  expect(await reload(text(database), () => text(file))).toContain(`journal.path: ${why}`)
})

test('another password in the file of the secret is taken, another database is refused', async () => {
  const change = (url: string) => () => (secret(url), text(`${followed()} }`, 'debug'))
  const taken = await reload(text(`${followed()} }`), change('postgres://other:two@db/audit'))
  expect(taken).toMatchObject({ config: { log: { level: 'debug' } } })
  secret('postgres://ferry:one@db/audit')
  expect(await reload(text(`${followed()} }`), change('postgres://ferry:one@db2/audit'))).toContain(moved)
})
