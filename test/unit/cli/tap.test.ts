// `tap` and `bundle` through a whole daemon: which lines
// of a sink are shown, and what a bundle must not hold.
import { readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { backfill } from '../../../src/cli/backfill.ts'
import { bundle } from '../../../src/cli/bundle.ts'
import { runDaemon } from '../../../src/cli/run/daemon.ts'
import { tap } from '../../../src/cli/tap.ts'
import { configSchema } from '../../../src/config/schema.ts'
import { ConnectorError } from '../../../src/core/errors.ts'
import { openControl } from '../../../src/control/server.ts'
import { unasked } from '../../fakes/unasked.ts'
import { logOf } from '../../contract/journal-parts.ts'
import { openDaemonRig, until } from '../app/daemon-rig.ts'
import { openRegistrySetup, ack } from '../observability/registry-setup.ts'
import { codeIn } from './context.ts'
import { openSetup } from './setup.ts'

let daemonRig: ReturnType<typeof openDaemonRig>
let setup: ReturnType<typeof openSetup>
let stopping: AbortController
let daemon: Promise<void>
let file: string

const text = () => `
journal: { path: ${daemonRig.folder}/a.db, max_bytes: 1MiB }
workspaces: [{ name: acme, base_url: "https://api.example.com", api_key: planted-key, audit: { interval: 1s, lookback: 0s } }]
sinks:
  - { name: open, type: file, path: ${daemonRig.folder}/open.out, tap: true }
  - { name: closed, type: file, path: ${daemonRig.folder}/closed.out }
server: { listen: "127.0.0.1:0" }
`

beforeEach(async () => {
  daemonRig = openDaemonRig()
  setup = openSetup()
  file = join(daemonRig.folder, 'auditferry.yaml')
  writeFileSync(file, text())
  stopping = new AbortController()
  const { journal } = daemonRig.config
  const sink = (name: string, more: object) => ({
    ...{ name, type: 'file', path: `${daemonRig.folder}/${name}.out` },
    ...more,
  })
  const sinks = [sink('open', { tap: true }), sink('closed', {})]
  const parsed = configSchema.parse({
    journal: { path: journal.path },
    workspaces: [
      {
        name: 'acme',
        base_url: 'https://api.example.com',
        api_key: 'acme-key',
        audit: { interval: '1s', lookback: '0s' },
      },
    ],
    ...{ sinks, server: { listen: '127.0.0.1:0' } },
  })
  let started = false
  daemon = runDaemon({ config: parsed, environment: daemonRig.environment }, stopping.signal, {
    started: () => void (started = true),
  })
  daemon.catch(() => undefined)
  await until(() => started, 'the start')
})

afterEach(async () => {
  stopping.abort()
  await daemon.catch(() => undefined)
  setup.remove()
  daemonRig.remove()
})

describe('tap', () => {
  test('shows the lines that the sink takes from then on, unchanged', async () => {
    const looking = tap(setup.context, { config: file, sink: 'open', limit: 2 })
    const adding = setInterval(() => daemonRig.mock.add({}), 20)
    expect(await looking).toBe(0)
    clearInterval(adding)
    const { stdout, stderr } = setup.heard()
    // On a slow machine it goes on to say why nothing has come yet.
    expect(stderr).toMatch(/^auditferry: waiting for what open is sent next; Ctrl-C ends it\n/)
    const lines = stdout.split('\n').slice(0, -1)
    expect(lines).toHaveLength(2)
    const delivered = () => readFileSync(join(daemonRig.folder, 'open.out'), 'latin1')
    for (const line of lines) await until(() => delivered().includes(line), 'the line in the file')
  })

  test.each(['ENOSPC', 'EPIPE'])(
    'reports an unwritable output (%s), or ends with a closed one',
    async (code) => {
      const print = () => Promise.reject(Object.assign(new Error('no'), { code }))
      const looking = tap({ ...setup.context, print }, { config: file, sink: 'open', limit: 2 })
      const ended = looking.catch((error: unknown) => error)
      const adding = setInterval(() => daemonRig.mock.add({}), 20)
      const end = await ended
      clearInterval(adding)
      if (code === 'EPIPE') expect(end).toBe(0)
      else expect(end).toMatchObject({ message: 'Cannot write to standard output: the disk is full' })
    },
  )

  test('says why no lines come, once for each reason', async () => {
    const reported = openRegistrySetup()
    ack(reported)
    const journal = await setup.openJournal()
    const asked = { times: 0 }
    const next = async () => {
      const times = ++asked.times
      if (times === 2) reported.owe(1, 0, { full: true })
      if (times === 4) reported.sink.state('blocked', new ConnectorError('forbidden', 'no\u001b right'))
      if (times === 6) setup.stop.abort()
      return []
    }
    const { registry, metrics } = reported
    const control = await openControl({
      ...unasked,
      journalPath: setup.path,
      journal,
      log: logOf(),
      registry,
      metrics,
      taps: { next },
    })
    expect(await tap(setup.context, { config: setup.config, sink: 'archive', limit: 1 })).toBe(0)
    await control.close()
    await journal.close()
    expect(setup.heard().stderr.split('\n').slice(1)).toEqual([
      'auditferry: reading is paused, so nothing new comes: auditferry status says why',
      'auditferry: archive receives nothing at the moment: it is blocked: no\\u{1b} right',
      '',
    ])
  })

  test('says once which source is read next, and when, while nothing is new and all is well', async () => {
    const reported = openRegistrySetup()
    ack(reported)
    const journal = await setup.openJournal()
    const asked = { times: 0 }
    const next = async () => {
      reported.clock.pass(2_000)
      if (++asked.times === 4) setup.stop.abort()
      return []
    }
    const { registry, metrics } = reported
    const parts = {
      ...unasked,
      journalPath: setup.path,
      journal,
      log: logOf(),
      registry,
      metrics,
      taps: { next },
    }
    const control = await openControl(parts)
    expect(await tap(setup.context, { config: setup.config, sink: 'archive', limit: 1 })).toBe(0)
    await control.close()
    await journal.close()
    expect(setup.heard().stderr.split('\n').slice(1)).toEqual([
      'auditferry: nothing was new so far; acme audit is read next, within 26 s',
      '',
    ])
  })

  test('is refused unless the configuration allows it', async () => {
    await expect(tap(setup.context, { config: file, sink: 'closed', limit: 1 })).rejects.toThrow(
      'tap is disabled for sink closed because it shows log content; set tap: true to enable it',
    )
    expect(setup.heard()).toMatchObject({ stdout: '', stderr: '' })
  })

  test.each(['', 'nonsense: true\n'])(
    'of an unknown sink is wrong usage, reported before it waits: %j',
    async (more) => {
      writeFileSync(file, `${text()}${more}`)
      expect(await codeIn(setup.context, tap(setup.context, { config: file, sink: 'nope', limit: 1 }))).toBe(
        2,
      )
      const { stderr } = setup.heard()
      expect(stderr).toMatch(/error: there is no sink nope; there are open, closed\n$/)
      expect(stderr).not.toContain('waiting')
    },
  )
})

test('an invalid file does not keep tap, backfill --status and backfill --cancel from the daemon', async () => {
  writeFileSync(file, `${text()}nonsense: true\n`)
  await expect(tap(setup.context, { config: file, sink: 'closed', limit: 1 })).rejects.toThrow('tap: true')
  expect(setup.heard().stderr).toContain(
    `${file} is invalid; a running daemon keeps its current configuration`,
  )
  expect(await backfill(setup.context, { config: file, status: true, cancel: false })).toBe(0)
  expect(setup.heard().stdout).toContain('No backfill is under way')
  const cancel = { config: file, status: false, cancel: true }
  expect(await backfill(setup.context, { ...cancel, workspace: 'acme', source: 'audit' })).toBe(0)
  expect(setup.heard().stdout).toBe('No backfill was under way: nothing to cancel\n')
  expect(await codeIn(setup.context, backfill(setup.context, { ...cancel, source: 'vault.projects' }))).toBe(
    2,
  )
  const begin = { config: file, from: '24h', status: false, cancel: false }
  await expect(backfill(setup.context, begin)).rejects.toThrow('nonsense: unknown key')
})

describe('bundle', () => {
  test('holds status, figures and the masked configuration, no secret and no content, for its owner only', async () => {
    await until(() => daemonRig.mock.entries().length >= 20, 'entries')
    const path = join(daemonRig.folder, 'bundle.md')
    expect(await bundle(setup.context, { config: file }, path)).toBe(0)
    const written = readFileSync(path, 'utf8')
    for (const part of [
      'dedup_retention: 35d',
      '"summary":',
      'auditferry_sink_pending_entries',
      'bytes free',
    ])
      expect(written).toContain(part)
    expect(written).not.toContain('planted')
    for (const { raw } of daemonRig.mock.entries().slice(0, 20)) {
      const { user, id } = JSON.parse(Buffer.from(raw).toString()) as { user: string; id: string }
      expect(written).not.toContain(user)
      expect(written).not.toContain(id)
    }
    expect(statSync(path).mode & 0o777).toBe(0o600)
  })

  test('counts findings by time and names no entry; a long journal’s socket is found under its short name', async () => {
    const name = `${'long-'.repeat(20)}.db`
    const path = join(setup.folder, name)
    writeFileSync(setup.config, readFileSync(setup.config, 'utf8').replace(setup.path, path))
    const found = openRegistrySetup()
    const finding = { kind: 'foreign_fetch', entryId: 'planted-id', entryUs: 1, foundAt: 1 } as const
    const stream = { workspace: 'acme', source: 'audit' } as const
    found.owe(0, 0, { findings: 1, lastFindings: [{ ...finding, stream }] })
    const journal = await setup.openJournal()
    const control = await openControl({ ...unasked, journalPath: path, log: logOf(), ...found, journal })
    const to = join(setup.folder, 'bundle.md')
    expect(await bundle(setup.context, { config: setup.config }, to)).toBe(0)
    await control.close()
    await journal.close()
    const written = readFileSync(to, 'utf8')
    expect(written).toContain('"kind": "foreign_fetch"')
    expect(written).not.toContain('planted-id')
    expect(written).not.toContain(`${name}.sock`)
    expect(written).toMatch(/\/[0-9a-f]{8}\.sock +0 bytes/)
  })

  test('masks a secret anywhere, also within another value', async () => {
    const path = join(daemonRig.folder, 'bundle.md')
    const other = join(daemonRig.folder, 'other.yaml')
    writeFileSync(other, text().replace(`${daemonRig.folder}/a.db`, `${daemonRig.folder}/planted-key/a.db`))
    expect(await bundle(setup.context, { config: other }, path)).toBe(0)
    const written = readFileSync(path, 'utf8')
    expect(written).toContain('No daemon runs')
    expect(written).toContain('/***/a.db-wal')
    expect(written).not.toContain('planted')
  })

  test('lists the files beside the target if the journal path is a link', async () => {
    const path = join(daemonRig.folder, 'bundle.md')
    const other = join(daemonRig.folder, 'other.yaml')
    writeFileSync(other, text().replace(`${daemonRig.folder}/a.db`, `${daemonRig.folder}/link.db`))
    symlinkSync('real.db', join(daemonRig.folder, 'link.db'))
    expect(await bundle(setup.context, { config: other }, path)).toBe(0)
    const written = readFileSync(path, 'utf8')
    for (const end of ['-wal', '.ballast']) expect(written).toContain(`/real.db${end}`)
  })

  test("of an invalid configuration holds the faults and the daemon's report, and no values", async () => {
    const path = join(daemonRig.folder, 'bundle.md')
    writeFileSync(file, `${text()}nonsense: planted\n`)
    expect(await bundle(setup.context, { config: file }, path)).toBe(0)
    const written = readFileSync(path, 'utf8')
    for (const part of ['nonsense: unknown key', '"summary":']) expect(written).toContain(part)
    expect(written).not.toContain('planted')
  })
})
