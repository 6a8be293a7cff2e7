// The inventory before the mock, whose list shifts, repeats and lies while it is read; and through the whole daemon, read once.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { openApp } from '../../../../src/app/app.ts'
import { configSchema } from '../../../../src/config/schema.ts'
import { openMock } from '../../../../src/mock/mock.ts'
import type { MockOptions } from '../../../../src/mock/mock.ts'
import { openHouse } from '../../app/house.ts'
import { HOUR } from '../../app/desk.ts'
import { foldRecords, openVaultDesk } from './desk.ts'
import type { VaultRecord } from './desk.ts'

async function withMock(options: Partial<MockOptions> = {}) {
  const desk = await openVaultDesk()
  const mock = openMock({
    clock: desk.clock,
    traffic: { entriesPerHour: 0 },
    projects: 30,
    limits: { vault: 0 },
    ...options,
  })
  desk.vault.elsewhere = mock.transport
  const told = async () => [...foldRecords(await desk.records()).keys()].sort()
  const there = () =>
    mock
      .projects()
      .map(({ id }) => id)
      .sort()
  return Object.assign(desk, { mock, told, there })
}

it('the records have what the mock lists, byte for byte', async () => {
  const desk = await withMock()
  await desk.pass()
  const raws = await desk.raws()
  expect(raws).toHaveLength(30)
  for (const { raw } of desk.mock.projects())
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
  const desk = await withMock()
  await desk.pass()
  const { mock } = desk
  const [first, second, third] = mock.projects()
  const project = first?.id ?? ''
  mock.changeProject({ do: 'share', project, with: { workspace: 77 } })
  mock.changeProject({ do: 'knowledge_base', project: second?.id ?? '', value: true })
  mock.changeProject({ do: 'rename', project: second?.id ?? '', name: 'Another name' })
  mock.changeProject({ do: 'delete', project: third?.id ?? '' })
  const fresh = mock.changeProject({ do: 'create', name: 'Fresh' }).project
  await desk.later(2)
  const told = (await desk.records()).slice(30).map(({ type, project_id: id }) => `${type} ${id}`)
  expect(told).toContain(`vault:workspace_share_added ${project}`)
  expect(told).toContain(`vault:project_created ${fresh}`)
  expect(told).toContain(`vault:project_deleted ${third?.id ?? ''}`)
  expect(await desk.told()).toEqual(desk.there())
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
  const desk = await withMock({ switches: { per_page_cap: 4 }, faults: { [fault]: 0.3 } })
  for (let i = 0; i < 200; i++) {
    if (desk.source.plan(desk.cursor).dueAt > desk.clock.now())
      desk.clock.advance(desk.clock.now() + 6 * HOUR)
    await desk.step()
    if (i % 20 > 0) continue
    const there = new Set(desk.there())
    for (const { type, project_id: id } of await desk.records())
      if (type === 'vault:project_deleted') expect(there.has(id)).toBe(false)
  }
  desk.mock.setFault(fault, undefined)
  await desk.later(3)
  expect(await desk.told()).toEqual(desk.there())
})

it('run once, the daemon delivers the inventory and ends', async () => {
  const house = openHouse({ entries: 3 })
  const { folder, environment, mock } = house
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
    house.remove()
  }
})
