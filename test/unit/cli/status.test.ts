// `status` as a person sees it, from a daemon's control socket and from its listener.
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { status, statusText } from '../../../src/cli/status.ts'
import { ConnectorError } from '../../../src/core/errors.ts'
import type { Journal } from '../../../src/contracts/journal.ts'
import { openControl } from '../../../src/control/server.ts'
import type { BackfillStatus } from '../../../src/observability/status.ts'
import { openHttp } from '../../../src/observability/listener.ts'
import { renderPage } from '../../../src/observability/page/layout.ts'
import { unasked } from '../../fakes/unasked.ts'
import { logOf } from '../../contract/journal-parts.ts'
import { openRegistrySetup, ack, startAt } from '../observability/registry-setup.ts'
import { until } from '../app/daemon-rig.ts'
import { openSetup } from './setup.ts'

let setup: ReturnType<typeof openSetup>
let journal: Journal
const closers: (() => Promise<void>)[] = []

beforeEach(async () => {
  setup = openSetup()
  journal = await setup.openJournal()
})
afterEach(async () => {
  for (const close of closers.splice(0)) await close()
  await journal.close()
  setup.remove()
})

async function startDaemon() {
  const daemonRig = openRegistrySetup()
  ack(daemonRig)
  const control = await openControl({
    ...unasked,
    ...{ journalPath: setup.path, journal, log: logOf() },
    ...{ registry: daemonRig.registry, metrics: daemonRig.metrics, taps: daemonRig.taps },
  })
  closers.push(() => control.close())
  return daemonRig
}

const ask = (json = false) => status(setup.context, { config: setup.config, json })

const pastRead: Omit<BackfillStatus, 'new_entries'> = {
  ...{ workspace: 'acme', source: 'audit', from: '2026-01-31T00:00:00.000Z', to: '2026-02-01T00:00:00.000Z' },
  ...{
    state: 'waiting',
    waits_for: 'room',
    wait_reason: null,
    error: null,
    progress: 0.43,
    read_entries: 1200,
    gaps: 0,
  },
}

test('a canary that was never sent shows when it is due, unlike other sources', () => {
  const { clock, registry } = openRegistrySetup()
  const row = (name: string) =>
    new RegExp(`^acme ${name} {2}.*`, 'm').exec(statusText(registry.status()))?.[0]
  const watch = registry.source({ workspace: 'acme', source: 'assistant' })
  registry.source({ workspace: 'acme', source: 'vault.projects' }, 60_000).state('idle', undefined, 60_000)
  expect(row('vault.projects')).toMatch(/idle +never +never/)
  watch.state('idle')
  expect(row('assistant')).toMatch(/idle +once all is read +not yet/)
  expect(renderPage(registry.status())).toContain('once all is read')
  watch.state('idle', undefined, 42 * 60_000)
  expect(row('assistant')).toMatch(/idle +due in 42 min +not yet/)
  expect(registry.status().workspaces[0]?.sources.find(({ name }) => name === 'assistant')?.due_at).toBe(
    new Date(clock.now() + 42 * 60_000).toISOString(),
  )
  watch.state('failing', new ConnectorError('timeout', 'no answer'))
  expect(row('assistant')).toMatch(/failing +never +never/)
  watch.success()
  watch.caughtUp()
  expect(row('assistant')).toMatch(/0 s ago +0 s ago/)
})

test('running backfills and replays are shown: span, progress, counts, and what they wait for', () => {
  const report = openRegistrySetup().registry.status()
  const error = { code: 'server_error', message: 'it failed\u001b[2J to answer' } as const
  const failed = { ...pastRead, state: 'failing', error, gaps: 1 } as const
  const done = {
    ...pastRead,
    source: 'history.usage',
    state: 'done',
    waits_for: null,
    wait_reason: null,
    progress: 1,
  } as const
  const text = statusText({
    ...report,
    backfills: [
      { ...pastRead, new_entries: 120 },
      { ...done, new_entries: 7 },
    ],
    replays: [{ ...failed, sink: 'archive', sent_entries: 1100 }],
  })
  const span = 'acme audit, 2026-01-31 00:00:00 to 2026-02-01 00:00:00 UTC: 43 %, 1,200 entries read'
  expect(text).toContain(
    `\nBACKFILLS UNDER WAY\n  ${span}, 120 new. Waiting for room in the journal: half of journal.max_bytes`,
  )
  expect(text).toContain(
    `\nREPLAYS FROM THE API UNDER WAY\n  ${span.replace('audit,', 'audit to archive,')}, 1,100 queued; 1 possible gap: entries there may be missing; trying again: it failed\\u{1b}[2J to answer\n`,
  )
  expect(text).not.toContain('history.usage')
  expect(statusText(report)).not.toContain('UNDER WAY')
})

test('of many backfills the first few are shown, and how to list the others', () => {
  const many = Array.from({ length: 12 }, (_, i) => ({ ...pastRead, workspace: `w${i}`, new_entries: 0 }))
  const text = statusText({ ...openRegistrySetup().registry.status(), backfills: many })
  expect(text).toContain('  w9 audit, ')
  expect(text).not.toContain('  w10 audit, ')
  expect(text).toContain('  and 2 more: auditferry backfill --status\n')
})

test('each source shows the requests of its area in the last minute, against the limit', () => {
  const report = openRegistrySetup().registry.status()
  const [acme] = report.workspaces
  if (!acme) expect.unreachable()
  const rate_limits = [{ area: 'audit', used: 7, limit: 60 }]
  const text = statusText({ ...report, workspaces: [{ ...acme, rate_limits }] })
  expect(text).toMatch(/^SOURCE .* REQUESTS\/MIN /m)
  expect(text).toMatch(/^acme audit .* 7 of 60 /m)
  expect(statusText(report)).toMatch(/^acme audit .* unknown +- +0/m)
})

test('a rate limit stopped by a 429 shows until when, even if no source met the 429 itself', () => {
  const report = openRegistrySetup().registry.status()
  const [acme] = report.workspaces
  if (!acme) expect.unreachable()
  const until = new Date(Date.parse(report.reported_at) + 61_000).toISOString()
  const rate_limits = [{ area: 'history', used: 7, limit: 45, limited_until: until }]
  const text = statusText({ ...report, workspaces: [{ ...acme, rate_limits }] })
  const at = until.slice(0, 19).replace('T', ' ')
  expect(text).toContain(
    `\n  acme, requests of history: the API answered 429, and no request is sent until ${at} UTC (61 s more)\n`,
  )
})

test('a rate limit lowered since a 429 shows why', () => {
  const report = openRegistrySetup().registry.status()
  const [acme] = report.workspaces
  if (!acme) expect.unreachable()
  const rate_limits = [{ area: 'audit', used: 44, limit: 45, lowered_from: 60 }]
  const text = statusText({ ...report, workspaces: [{ ...acme, rate_limits }] })
  expect(text).toContain(
    '\n  acme, requests of audit: 45 a minute instead of 60 since the API answered 429, rising again until 60\n',
  )
})

test('a source that waits for memory shows since when, and what uses it', () => {
  const { registry, clock, source } = openRegistrySetup()
  source.waitsForMemory()
  clock.pass(120_000)
  expect(statusText(registry.status())).toContain(
    '\n  acme audit: an answer has waited for memory for 2 min: other answers use all of it\n',
  )
})

test('a source with a slow answer shows for how long', () => {
  const { registry, clock, source } = openRegistrySetup()
  source.readsAnswer()
  expect(statusText(registry.status())).not.toContain('answer')
  clock.pass(120_000)
  expect(statusText(registry.status())).toContain('\n  acme audit: one answer has been arriving for 2 min\n')
})

test('more requests in the last minute than the lowered limit are shown beside that limit, not of it', () => {
  const report = openRegistrySetup().registry.status()
  const [acme] = report.workspaces
  if (!acme) expect.unreachable()
  const rate_limits = [{ area: 'audit', used: 60, limit: 45, lowered_from: 60 }]
  const text = statusText({ ...report, workspaces: [{ ...acme, rate_limits }] })
  expect(text).toMatch(/^acme audit .* 60, now 45 /m)
  expect(text).toContain(
    '\n  acme, requests of audit: 45 a minute instead of 60 since the API answered 429, rising again until 60; the 60 of the last minute were sent before that\n',
  )
})

test('a healthy daemon fits one screen, exit 0', async () => {
  await startDaemon()
  expect(await ask()).toBe(0)
  const { stdout, stderr } = setup.heard()
  expect(stderr).toBe('')
  expect(stdout.startsWith('All caught up')).toBe(true)
  expect(stdout).toContain('SOURCE      STATE  LAST READ')
  expect(stdout).toContain('acme audit  idle   0 s ago')
  expect(stdout).toContain('JOURNAL  0 entries pending, 0 B of 2.0 GiB')
  for (const line of stdout.split('\n')) expect(line.length).toBeLessThan(100)
  expect(stdout.split('\n').length).toBeLessThan(24)
})

test.each(['failing', 'blocked'] as const)('a %s sink is shown with its error, exit 1', async (state) => {
  const { sink } = await startDaemon()
  sink.state(state, new ConnectorError('unreachable', 'receiver \u001b[2J refused the connection'))
  expect(await ask()).toBe(1)
  const { stdout } = setup.heard()
  expect(stdout).toMatch(/^archive .*: receiver \\u\{1b\}\[2J refused the connection$/m)
  expect(stdout).toContain('  archive: as above (unreachable, began 0 s ago)')
  expect(stdout).not.toContain('\u001b')
})

test('a collecting sink shows its next upload, and is healthy', async () => {
  const { sink } = await startDaemon()
  sink.state('collecting', undefined, 20_000)
  expect(await ask()).toBe(0)
  const { stdout } = setup.heard()
  expect(stdout).toMatch(/^archive .* collecting /m)
  expect(stdout).toContain('  archive: collecting, next upload in 20 s\n')
})

test('of several failing parts each shows why in its own row, since the summary does not', async () => {
  const { source, sink } = await startDaemon()
  source.state('blocked', new ConnectorError('unauthorized', 'the API key was refused.'))
  sink.state('failing', new ConnectorError('unreachable', 'receiver refused the connection'))
  await ask()
  const { stdout } = setup.heard()
  expect(stdout).toContain('  acme audit: the API key was refused. (unauthorized, began 0 s ago)')
  expect(stdout).toContain('  archive: receiver refused the connection (unreachable, began 0 s ago)')
})

test('a blocked source shows its next try, exit 1', async () => {
  const { source } = await startDaemon()
  source.state('blocked', new ConnectorError('unauthorized', 'the API key was refused'), 42_000)
  expect(await ask()).toBe(1)
  expect(setup.heard().stdout).toMatch(/\(unauthorized, began 0 s ago, next try in 4[12] s\)\n/)
})

test('a sink without deliveries since the start is not shown as one that never had any', async () => {
  const daemonRig = await startDaemon()
  daemonRig.registry.sink('later', 'file', () => 'stored')
  await ask()
  const { stdout } = setup.heard()
  expect(stdout).toMatch(/^later +file +stored +starting +none since the start /m)
  expect(stdout).not.toContain('never')
})

test('--json prints the report itself', async () => {
  const { registry } = await startDaemon()
  expect(await ask(true)).toBe(0)
  expect(JSON.parse(setup.heard().stdout)).toEqual(JSON.parse(JSON.stringify(registry.status())))
})

test('without a daemon: exit 1 with a clear message', async () => {
  expect(await ask()).toBe(1)
  const { stdout, stderr } = setup.heard()
  expect(stdout).toBe('')
  expect(stderr).toContain(`no daemon runs on ${setup.config}`)
})

test('without a socket the listener is asked, and only the right daemon’s answer counts', async () => {
  const { registry, metrics, clock } = openRegistrySetup()
  const http = await openHttp({
    ...{
      listen: '127.0.0.1:0',
      hosts: () => [],
      clock,
      registry,
      metrics,
      live: () => true,
      ready: () => true,
    },
  })
  closers.push(() => http.close())
  const text = readFileSync(setup.config, 'utf8').replace('127.0.0.1:1 ', `127.0.0.1:${http.address.port} `)
  writeFileSync(setup.config, text)
  expect(await ask()).toBe(1)
  expect(setup.heard().stderr).toContain('no daemon runs')
  writeFileSync(setup.config, text.replace(/\{ name: siem[^}]*\}, /, ''))
  expect(await ask()).toBe(0)
  const { stdout, stderr } = setup.heard()
  expect(stderr).toContain('there is no control socket')
  expect(stdout).toContain('acme audit')
})

/** Serves a report at the listener of the test's configuration, with one sink and this `journalPath`. */
async function listen(journalPath?: string) {
  const { registry, metrics, clock } = openRegistrySetup(journalPath)
  const http = await openHttp({
    ...{
      listen: '127.0.0.1:0',
      hosts: () => [],
      clock,
      registry,
      metrics,
      live: () => true,
      ready: () => true,
    },
  })
  closers.push(() => http.close())
  const text = readFileSync(setup.config, 'utf8').replace('127.0.0.1:1 ', `127.0.0.1:${http.address.port} `)
  writeFileSync(setup.config, text.replace(/\{ name: siem[^}]*\}, /, ''))
}

test.each([
  ['a valid configuration', ''],
  ['an invalid one', 'nonsense: true\n'],
])('a daemon with another journal on the same address is not taken for this one: %s', async (_, fault) => {
  await listen(`${setup.folder}/other.db`)
  writeFileSync(setup.config, `${readFileSync(setup.config, 'utf8')}${fault}`)
  expect(await ask().catch(() => 1)).toBe(1)
  const { stdout, stderr } = setup.heard()
  expect(stdout).toBe('')
  if (fault === '') {
    expect(stderr).toContain(`no daemon runs on ${setup.config}`)
    expect(stderr).toContain(`has another journal, ${setup.folder}/other.db`)
    expect(stderr).toContain(
      'if journal.path was changed while the daemon runs, change it back; otherwise give this daemon',
    )
  }
})

test.each([
  ['its own name', (path: string) => path],
  ['a link to it', linkTo],
])('a journal is recognised under %s', async (_, named) => {
  await listen(named(setup.path))
  expect(await ask()).toBe(0)
  expect(setup.heard().stderr).toContain('there is no control socket')
})

function linkTo(path: string): string {
  symlinkSync(path, `${path}.link`)
  return `${path}.link`
}

test("a journal in another file system view is recognised by its path, such as a container's from outside", async () => {
  await listen('/not/here/a.db')
  const text = readFileSync(setup.config, 'utf8')
  writeFileSync(setup.config, text.replace(setup.path, '/not/here/a.db'))
  expect(await ask()).toBe(0)
})

test('a configuration with faults beyond missing secrets is refused', async () => {
  writeFileSync(setup.config, 'journal: { path: "${env:NOT_SET_HERE}/a.db" }\n')
  await expect(ask()).rejects.toThrow('NOT_SET_HERE')
})

test('removed sinks, a pause and warnings to fix are shown', () => {
  const daemonRig = openRegistrySetup()
  ack(daemonRig)
  daemonRig.owe(3, 0, { full: true, unconfigured: ['former'] })
  daemonRig.registry.warn(
    { code: 'secret_unread', about: 'acme api_key' },
    'acme api_key cannot be read again',
  )
  const text = statusText(daemonRig.registry.status())
  expect(text).toContain('  to fix: acme api_key cannot be read again (since 0 s ago)\n')
  expect(text).toContain('reading is paused')
  expect(text).toContain('left the configuration: former')
})

test('--watch looks again until the signal, and exits like the last look', async () => {
  const { sink } = await startDaemon()
  const reporting = status(
    { ...setup.context, colours: true },
    { config: setup.config, json: false, watch: true },
  )
  let seen = ''
  await until(() => (seen += setup.heard().stdout).includes('All caught up'), 'the first look')
  expect(seen.startsWith('\u001b[H\u001b[2J')).toBe(true)
  sink.state('failing', new ConnectorError('unreachable', 'receiver refused the connection'))
  await until(() => (seen += setup.heard().stdout).includes('refused the connection'), 'the next look')
  setup.stop.abort()
  expect(await reporting).toBe(1)
})

test('a screen shows the same words, with coloured states', async () => {
  const { registry, sink } = await startDaemon()
  sink.state('failing', new ConnectorError('unreachable', 'receiver refused the connection'))
  const [plain, painted] = [statusText(registry.status()), statusText(registry.status(), true)]
  expect(plain).not.toContain('\u001b')
  expect(painted).toMatch(/\u001b\[31mfailing *\u001b\[0m/)
  expect(painted.replaceAll(/\u001b\[\d+m/g, '')).toBe(plain)
})

test('a finding shows which entry to look up in the SIEM, and that there are more', async () => {
  const { journal: kept, source } = await startDaemon()
  const lastFindings = [4, 3, 2, 1].map((n) => ({
    stream: { workspace: 'acme', source: 'audit' } as const,
    ...({ kind: 'foreign_fetch', entryId: `id-${n}\u001b`, foundAt: startAt } as const),
    entryUs: n === 4 ? startAt * 1000 : undefined,
  }))
  kept.stats = { ...kept.stats, findings: 4, lastFindings }
  source.gap(1)
  await ask()
  expect(setup.heard().stdout).toContain(
    '4 findings\n  possible gap: last in acme audit, found 2026-11-21 10:00:00 UTC\n  foreign fetch: entry id-4\\u{1b} of 2026-11-21 10:00:00 UTC in acme audit\n  foreign fetch: entry id-3\\u{1b} in acme audit\n  foreign fetch: entry id-2\\u{1b} in acme audit\n  more of them: --json\n',
  )
})

test.each([
  ['an unknown key', (text: string) => `${text}nonsense: true\n`],
  ['broken YAML', (text: string) => `${text}log: { level: [\n`],
])('an invalid configuration (%s) does not hide the daemon that runs with an older one', async (_, spoil) => {
  writeFileSync(setup.config, spoil(readFileSync(setup.config, 'utf8')))
  await expect(ask()).rejects.toThrow(setup.config)
  await startDaemon()
  expect(await ask()).toBe(0)
  const { stdout, stderr } = setup.heard()
  expect(stdout.startsWith('All caught up')).toBe(true)
  expect(stderr).toContain(`${setup.config} is invalid; a running daemon keeps its current configuration`)
})

test('an invalid configuration without a usable journal path reports its faults', async () => {
  await startDaemon()
  writeFileSync(setup.config, 'journal: { path: "${env:NOT_SET_HERE}" }\n')
  await expect(ask()).rejects.toThrow('journal.path')
  expect(setup.heard().stderr).toBe('')
})
