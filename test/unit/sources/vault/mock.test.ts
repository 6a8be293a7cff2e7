// The inventory before the mock, whose list shifts, repeats and lies while it is read; and through the whole daemon, read once.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { openApp } from '../../../../src/app/app.ts'
import { configSchema } from '../../../../src/config/schema.ts'
import { openMock } from '../../../../src/mock/mock.ts'
import type { MockOptions } from '../../../../src/mock/mock.ts'
import { openDaemonRig } from '../../app/daemon-rig.ts'
import { HOUR } from '../../app/audit-harness.ts'
import { foldRecords, openVaultHarness } from './harness.ts'
import type { VaultRecord } from './harness.ts'

async function withMock(options: Partial<MockOptions> = {}) {
  const harness = await openVaultHarness()
  const mock = openMock({
    clock: harness.clock,
    traffic: { entriesPerHour: 0 },
    projects: 30,
    limits: { vault: 0 },
    ...options,
  })
  harness.vault.elsewhere = mock.transport
  const reported = async () => [...foldRecords(await harness.records()).keys()].sort()
  const there = () =>
    mock
      .projects()
      .map(({ id }) => id)
      .sort()
  return Object.assign(harness, { mock, reported, there })
}

it('the records have what the mock lists, byte for byte', async () => {
  const harness = await withMock()
  await harness.pass()
  const raws = await harness.raws()
  expect(raws).toHaveLength(30)
  for (const { raw } of harness.mock.projects())
    expect(
      raws.some((line) =>
        line.endsWith(
          `,"project":${Buffer.from(raw)
            .toString()
            .replace(/[\r\n]/g, '')}}`,
        ),
      ),
    ).toBe(true)
})

it('changes that people make in the vault become records', async () => {
  const harness = await withMock()
  await harness.pass()
  const { mock } = harness
  const [first, second, third] = mock.projects()
  const project = first?.id ?? ''
  mock.changeProject({ do: 'share', project, with: { workspace: 77 } })
  mock.changeProject({ do: 'knowledge_base', project: second?.id ?? '', value: true })
  mock.changeProject({ do: 'rename', project: second?.id ?? '', name: 'Another name' })
  mock.changeProject({ do: 'delete', project: third?.id ?? '' })
  const fresh = mock.changeProject({ do: 'create', name: 'Fresh' }).project
  await harness.later(2)
  const reported = (await harness.records()).slice(30).map(({ type, project_id: id }) => `${type} ${id}`)
  expect(reported).toContain(`vault:workspace_share_added ${project}`)
  expect(reported).toContain(`vault:project_created ${fresh}`)
  expect(reported).toContain(`vault:project_deleted ${third?.id ?? ''}`)
  expect(await harness.reported()).toEqual(harness.there())
})

it.each([
  'shifting_list',
  'repeated_page',
  'empty_page',
  'shuffled_page',
  'duplicated',
  'error_500',
  'cut',
  'truncated',
] as const)('no existing project is reported as deleted, whatever the list does: %s', async (fault) => {
  const harness = await withMock({ switches: { per_page_cap: 4 }, faults: { [fault]: 0.3 } })
  for (let i = 0; i < 200; i++) {
    if (harness.source.plan(harness.cursor).dueAt > harness.clock.now())
      harness.clock.advance(harness.clock.now() + 6 * HOUR)
    await harness.step()
    if (i % 20 > 0) continue
    const there = new Set(harness.there())
    for (const { type, project_id: id } of await harness.records())
      if (type === 'vault:project_deleted') expect(there.has(id)).toBe(false)
  }
  harness.mock.setFault(fault, undefined)
  await harness.later(3)
  expect(await harness.reported()).toEqual(harness.there())
})

it('run once, the daemon delivers the inventory and ends', async () => {
  const daemonRig = openDaemonRig({ entries: 3 })
  const { folder, environment, mock } = daemonRig
  const config = configSchema.parse({
    journal: { path: join(folder, 'a.db') },
    workspaces: [
      {
        name: 'acme',
        base_url: 'https://api.example.com',
        api_key: 'acme-key',
        audit: {},
        vault: { projects: true },
      },
    ],
    sinks: [{ name: 'archive', type: 'file', path: join(folder, 'out.ndjson') }],
  })
  const app = await openApp(config, environment, { once: true })
  try {
    const running = app.run()
    while (app.singleRun() === 'working') await environment.clock.sleep(1_000)
    expect(app.singleRun()).toBe('done')
    await app.stop()
    await running
    const lines = readFileSync(join(folder, 'out.ndjson'), 'utf8').trim().split('\n')
    const records = lines
      .map((line) => JSON.parse(line) as VaultRecord)
      .filter(({ type }) => type.startsWith('vault:'))
    expect(records.map((record) => record.project_id).sort()).toEqual(
      mock
        .projects()
        .map(({ id }) => id)
        .sort(),
    )
    expect(records.length).toBeGreaterThan(0)
    expect(
      mock.requests.filter(({ area }) => area === 'vault').every(({ endpoint }) => endpoint === 'projects'),
    ).toBe(true)
  } finally {
    await app.stop()
    daemonRig.remove()
  }
})
