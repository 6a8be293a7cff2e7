// `replay`: with the journal to itself, and through a daemon.
import { writeFileSync, readFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { replay } from '../../../../src/cli/replay/replay.ts'
import type { Journal } from '../../../../src/contracts/journal.ts'
import { openControl } from '../../../../src/control/server.ts'
import type { Control } from '../../../../src/control/server.ts'
import { unasked } from '../../../fakes/unasked.ts'
import { idsOf, logOf, part, plenty, acknowledgement, spec, uuid } from '../../../contract/journal-parts.ts'
import { openRegistrySetup } from '../../observability/registry-setup.ts'
import { codeIn } from '../context.ts'
import { openSetup } from '../setup.ts'

let setup: ReturnType<typeof openSetup>
let held: Journal | undefined
let control: Control | undefined

const reopen = async () => (held ??= await setup.openJournal(['siem', 'archive'], 2 ** 20))
const options = (more: object = {}) => ({
  ...{ config: setup.config, sink: 'siem', from: '2026-01-31', dryRun: false },
  ...more,
})

beforeEach(async () => {
  setup = openSetup()
  const journal = await setup.openJournal(['siem', 'archive'], 2 ** 20)
  await journal.append(part([spec(1), spec(2), spec(3)]))
  for (const sink of ['siem', 'archive']) await journal.ack(sink, acknowledgement(1, 3))
  await journal.close()
})
afterEach(async () => {
  await control?.close()
  await held?.close()
  control = undefined
  held = undefined
  setup.remove()
})

describe.each(['without a daemon', 'through a daemon'])('%s', (how) => {
  const when = how === 'through a daemon' ? 'they are being sent' : 'they are sent when the daemon runs'
  beforeEach(async () => {
    if (how !== 'through a daemon') return
    const journal = await reopen()
    const { registry, metrics, taps } = openRegistrySetup()
    const parts = { registry, metrics, taps, journal }
    control = await openControl({ ...unasked, journalPath: setup.path, log: logOf(), ...parts })
  })

  test('a span is sent to its sink again, after a warning that its format cannot mark replays', async () => {
    const to = '2026-01-31T00:00:03Z'
    expect(await replay(setup.context, options({ to }))).toBe(0)
    const { stdout, stderr } = setup.heard()
    expect(stderr).toContain('lines of siem are not marked as replayed')
    expect(stdout).toContain(`2 entries (242 B) queued for siem; ${when}`)
    expect(stdout).not.toContain('marked as a replay')
    const journal = await reopen()
    expect(idsOf(await journal.take('siem', plenty))).toEqual([uuid(1), uuid(2)])
  })

  test('a dry run counts and sends nothing', async () => {
    expect(await replay(setup.context, options({ dryRun: true }))).toBe(0)
    const { stdout, stderr } = setup.heard()
    expect(stderr).toBe('')
    expect(stdout).toMatch(/^3 entries \(363 B\) would be sent to siem again; the journal keeps what it took/)
    expect(await (await reopen()).take('siem', plenty)).toBeUndefined()
  })

  test('where nothing is sent, no receiver sees anything twice', async () => {
    expect(await replay(setup.context, options({ from: '2026-01-10', to: '2026-01-12' }))).toBe(0)
    expect(setup.heard().stderr).toBe('')
  })

  test('a format with a replay field needs no warning', async () => {
    const text = readFileSync(setup.config, 'utf8').replace(
      'name: siem, type: file',
      'name: siem, format: envelope, type: file',
    )
    writeFileSync(setup.config, text)
    expect(await replay(setup.context, options())).toBe(0)
    const { stdout, stderr } = setup.heard()
    expect(stderr).toBe('')
    expect(stdout).toContain(`queued for siem, marked as a replay; ${when}`)
  })
})

test.each([
  [{ from: 'yesterday' }, '--from yesterday: expected a time'],
  [{ to: '31/01/2026' }, '--to 31/01/2026: expected a time'],
  [{ from: '2026-02-01', to: '2026-01-01' }, '--from must be earlier than --to'],
  [{ from: '2098-02-01', to: '2098-02-03' }, '--from must be earlier than now'],
])('an invalid span is wrong usage: %j', async (more, message) => {
  expect(await codeIn(setup.context, replay(setup.context, options(more)))).toBe(2)
  expect(setup.heard().stderr).toContain(message)
})

test.each([
  [{ sink: 'splunk' }, 'there is no sink splunk; there are siem, archive'],
  [{ workspace: 'nope' }, 'there is no workspace nope; there are acme'],
  [
    { source: 'history.query' as const },
    'sink siem does not take history.query: its sources are audit, history.usage, vault.projects',
  ],
])('a name that selects nothing is wrong usage: %j', async (more, message) => {
  expect(await codeIn(setup.context, replay(setup.context, options(more)))).toBe(2)
  expect(setup.heard()).toEqual({ stdout: '', stderr: `error: ${message}\n` })
})

test('a removed workspace is known as long as the journal has its entries', async () => {
  writeFileSync(setup.config, readFileSync(setup.config, 'utf8').replace('name: acme', 'name: other'))
  expect(await replay(setup.context, options({ workspace: 'acme' }))).toBe(0)
  expect(setup.heard().stdout).toContain('3 entries (363 B) queued')
  expect(await codeIn(setup.context, replay(setup.context, options({ workspace: 'nope' })))).toBe(2)
  expect(setup.heard().stderr).toContain('there is no workspace nope; there are other, acme')
})
