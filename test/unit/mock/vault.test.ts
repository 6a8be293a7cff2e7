// The vault's state: changed by the entries of the traffic,
// the same for any polling, and by explicit changes.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { projectName, PROJECTS } from '../../../src/mock/people.ts'
import { changingTypes } from '../../../src/mock/vault-people.ts'
import type { MockEntry } from '../../../src/mock/entry.ts'
import type { Mock } from '../../../src/mock/mock.ts'
import { bearer, START } from './stage.ts'
import { vaultStage } from './vault-stage.ts'

const HOUR = 3_600_000
const DAY = 24 * HOUR

type Parsed = Record<string, unknown> & { data: Record<string, unknown> }
const parsed = ({ raw }: MockEntry) => JSON.parse(Buffer.from(raw).toString()) as Parsed
const bytes = (mock: Mock) => mock.projects().map(({ raw }) => Buffer.from(raw).toString())
const busy = { entriesPerHour: 200, since: START - 7 * DAY, exotic: 0 }

describe('the vault', () => {
  it('is the same for a seed, however it is polled', () => {
    const traffic = { entriesPerHour: 200, since: START - DAY }
    const whole = vaultStage({ seed: 3, traffic })
    whole.clock.pass(DAY)
    const expected = bytes(whole.mock)
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 4 * HOUR }), { maxLength: 20 }), (steps) => {
        const { clock, mock } = vaultStage({ seed: 3, traffic })
        for (const step of steps) {
          clock.set(Math.min(START + DAY, clock.now() + step))
          mock.projects()
        }
        clock.set(START + DAY)
        expect(bytes(mock)).toEqual(expected)
        expect(mock.projectChanges()).toEqual(whole.mock.projectChanges())
      }),
      { numRuns: 10 },
    )
  })

  it('changes exactly when an entry of the same user at the same microsecond says so', () => {
    const { mock } = vaultStage({ traffic: busy })
    const since = busy.since * 1000
    const changes = mock.projectChanges().filter(({ atUs, kind }) => atUs >= since && kind !== 'deleted')
    expect(new Set(changes.map(({ kind }) => kind)).size).toBe(9)
    const moving = mock.entries().filter(({ type }) => changingTypes.includes(type))
    const keyOf = (atUs: number, user: string) => `${atUs} ${user}`
    const entries = new Set(moving.map((entry) => keyOf(entry.atUs, parsed(entry)['user'] as string)))
    expect(changes.filter(({ atUs, user }) => !entries.has(keyOf(atUs, user)))).toEqual([])
    // A retry changes no listing, and an API call for a missing project changes nothing.
    const silent = ['user:retry_vault_files', 'api:vault_delete_project']
    const changed = new Set(changes.map(({ atUs, user }) => keyOf(atUs, user)))
    const idle = moving
      .filter(({ type }) => !silent.includes(type))
      .filter((entry) => !changed.has(keyOf(entry.atUs, parsed(entry)['user'] as string)))
    expect(idle.map(({ type }) => type)).toEqual([])
  })

  it('is referenced by its entries: they name the project they changed', () => {
    const { mock } = vaultStage({ traffic: busy })
    // Sometimes two entries have the same timestamp.
    const projects = Map.groupBy(mock.projectChanges(), ({ atUs, user }) => `${atUs} ${user}`)
    const moving = mock.entries().filter(({ type }) => changingTypes.includes(type))
    let reported = 0
    for (const entry of moving) {
      const { data, user } = parsed(entry)
      const changed = projects.get(`${entry.atUs} ${user as string}`)
      if (!changed || data['project_id'] === undefined) continue
      expect(changed.map(({ project }) => project)).toContain(data['project_id'])
      reported++
    }
    expect(reported).toBeGreaterThan(200)
  })

  it('leaves all other entries unchanged, whatever projects exist', () => {
    const entriesOf = (projects: number) => {
      const { mock } = vaultStage({ projects, traffic: { entriesPerHour: 200, since: START - 3 * DAY } })
      return mock
        .entries()
        .map((entry) => [
          entry.id,
          changingTypes.includes(entry.type) ? entry.type : Buffer.from(entry.raw).toString(),
        ])
    }
    expect(entriesOf(0)).toEqual(entriesOf(48))
  })

  it('has the projects that history events name, and its users never delete or rename them', () => {
    const { mock } = vaultStage({ traffic: { ...busy, since: START - 28 * DAY } })
    const names = mock.projects().map(({ name }) => name)
    for (let n = 0; n < PROJECTS; n++) expect(names).toContain(projectName(n))
    const kinds = mock.projectChanges().map(({ kind }) => kind)
    for (const kind of ['created', 'deleted', 'renamed'] as const)
      expect(kinds.filter((each) => each === kind).length).toBeGreaterThan(5)
    // The number of projects neither drops to zero nor grows without limit.
    expect(names.length).toBeGreaterThan(PROJECTS)
    expect(names.length).toBeLessThan(PROJECTS + 40)
  })

  it('has the project and review table of each history event with an entry', async () => {
    const { mock, call } = vaultStage({ traffic: busy })
    const ids = new Map(mock.projects().map(({ id, name }) => [name, id]))
    const entries = new Map(mock.entries().map((entry) => [entry.id, entry]))
    const titlesOf = async (project: string) => {
      const metadata = (await call('GET', `/get_metadata/${project}`)).json() as {
        review_table_ids: number[]
      }
      const tables = metadata.review_table_ids.map((id) => call('GET', `/review_tables/${id}`))
      return (await Promise.all(tables)).map((table) => (table.json() as { title: string }).title)
    }
    const titles = new Map<string, string[]>()
    for (const id of ids.values()) titles.set(id, await titlesOf(id))
    let reviews = 0
    for (const event of mock.history().filter(({ kind }) => kind === 'usage')) {
      const raw = Buffer.from(event.versions[0]?.raw ?? '{}').toString()
      const said = JSON.parse(raw) as { vault_project_name: string; review_table_name: string }
      if (said.vault_project_name === '') continue
      const project = ids.get(said.vault_project_name)
      expect(project).toBeDefined()
      const entry = entries.get(event.entryId)
      if (!entry || !changingTypes.includes(entry.type) || said.review_table_name === '') continue
      expect(parsed(entry).data['project_id']).toBe(project)
      expect(titles.get(project ?? '')).toContain(said.review_table_name)
      reviews++
    }
    expect(reviews).toBeGreaterThan(100)
  })

  it('differs between workspaces and seeds', () => {
    const idsOf = (seed: number) =>
      vaultStage({ seed })
        .mock.projects()
        .map(({ id }) => id)
    const first = new Set(idsOf(1))
    expect(idsOf(2).some((id) => first.has(id))).toBe(false)
    const { mock } = vaultStage({ workspaces: [{ name: 'acme' }, { name: 'beta', projects: 3 }] })
    expect(mock.projects('beta')).toHaveLength(3)
    expect(mock.projects('beta').some(({ id }) => mock.projects('acme').some((own) => own.id === id))).toBe(
      false,
    )
  })
})

describe('explicit changes', () => {
  it('leave an audit entry of a person', () => {
    const { clock, mock } = vaultStage({ projects: 0 })
    const { project } = mock.changeProject({ do: 'create', name: 'One', by: 'ada@acme.example' })
    const other = { user: 'ben@acme.example' }
    mock.changeProject({ do: 'rename', project, name: 'Two' })
    mock.changeProject({ do: 'knowledge_base', project, value: true })
    mock.changeProject({ do: 'share', project, with: other })
    mock.changeProject({ do: 'share', project, with: other, permission: 'EDIT' })
    mock.changeProject({ do: 'share', project, with: { workspace: 9001 } })
    mock.changeProject({ do: 'unshare', project, with: other })
    const { files = [] } = mock.changeProject({ do: 'upload', project })
    mock.changeProject({ do: 'delete_files', project, files })
    mock.changeProject({ do: 'query', project })
    mock.changeProject({ do: 'delete', project })
    clock.pass(HOUR)
    expect(mock.projects()).toEqual([])
    expect(mock.projectChanges().map(({ kind }) => kind)).toEqual([
      'created',
      'renamed',
      'knowledge_base',
      'shared',
      'share_changed',
      'shared',
      'unshared',
      'files',
      'files',
      'queries',
      'deletion',
      'deleted',
    ])
    const entries = mock.entries()
    expect(entries.map(({ type }) => type.replace('user:', ''))).toEqual([
      'create_vault_folder',
      'update_vault_folder_metadata',
      'update_vault_folder_metadata',
      'create_vault_folder_sharing_permissions',
      'update_vault_folder_sharing_permissions',
      'create_vault_folder_sharing_permissions',
      'delete_vault_folder_sharing_permissions',
      'upload_vault_files',
      'delete_vault_files',
      'semantic_search_with_vault_folder',
      'delete_vault_folder',
    ])
    for (const entry of entries) expect(parsed(entry).data['project_id']).toBe(project)
    expect(parsed(entries[0] as MockEntry)['user']).toBe('ada@acme.example')
  })

  it('of a missing or deleted project are refused', () => {
    const { mock } = vaultStage({ projects: 1 })
    const [{ id: project } = { id: '' }] = mock.projects()
    mock.changeProject({ do: 'delete', project })
    expect(mock.projects()).toMatchObject([{ id: project, deleting: true }])
    expect(() => mock.changeProject({ do: 'rename', project, name: 'x' })).toThrow(/being deleted/)
    expect(() => mock.changeProject({ do: 'query', project: 'none' })).toThrow(/no project none/)
  })
})

describe('the listing per switch', () => {
  it('answers 201 or 200', async () => {
    const { mock, list } = vaultStage()
    expect((await list()).status).toBe(201)
    mock.setSwitches({ vault_status: '200' })
    expect((await list()).status).toBe(200)
  })

  it('refuses an empty time range, or answers with no project', async () => {
    const { mock, call, list } = vaultStage()
    const query = '?created_after=1700000000&created_before=1700000000'
    expect((await call('GET', `/workspace/projects${query}`)).status).toBe(400)
    mock.setSwitches({ created_range: 'empty' })
    expect((await list(query)).projects).toEqual([])
  })

  it('limits the page size', async () => {
    const { list } = vaultStage({ switches: { per_page_cap: 7 } })
    const { pagination, ids } = await list('?per_page=50')
    expect([ids.length, pagination.per_page, pagination.total, pagination.total_pages]).toEqual([7, 7, 48, 7])
  })

  it('sorts by the configured date', async () => {
    const { clock, mock, list } = vaultStage()
    const oldest = (await list('?per_page=100')).ids.at(-1) ?? ''
    clock.pass(1000)
    mock.changeProject({ do: 'share', project: oldest, with: { user: 'new@acme.example' } })
    expect((await list('?per_page=100')).ids.at(-1)).toBe(oldest)
    mock.setSwitches({ project_date: 'updated_at' })
    expect((await list()).ids[0]).toBe(oldest)
  })
})

describe('a faulty listing', () => {
  it('shifts between pages, and the ground truth has each change with its entry', async () => {
    const { clock, mock, list } = vaultStage({ faults: { shifting_list: 1 } })
    const before = mock.projectChanges().length
    for (let page = 1; page <= 12; page++) {
      clock.pass(1000)
      await list(`?page=${1 + (page % 3)}`)
    }
    const kinds = mock
      .projectChanges()
      .slice(before)
      .map(({ kind }) => kind)
    for (const kind of ['created', 'files', 'deleted'] as const) expect(kinds).toContain(kind)
    expect(mock.entries()).toHaveLength(12)
  })

  it('can hide a project that exists all the time from a reader of pages', async () => {
    const missed = async (nth: number[]) => {
      const { clock, mock, list } = vaultStage({ faults: { shifting_list: { nth } } })
      const there = mock.projects().map(({ id }) => id)
      const read = new Set<string>()
      for (let page = 1; page <= 3; page++) {
        clock.pass(1000)
        for (const id of (await list(`?page=${page}`)).ids) read.add(id)
      }
      const still = new Set(mock.projects().map(({ id }) => id))
      return there.filter((id) => still.has(id) && !read.has(id))
    }
    expect(await missed([])).toEqual([])
    expect((await Promise.all([[2], [3], [2, 3]].map(missed))).flat()).not.toEqual([])
  })

  it('can skip a project while its totals agree', async () => {
    const { mock, list } = vaultStage({ faults: { list_skips: { nth: [1] } } })
    const first = await list('?per_page=100')
    expect([first.ids.length, first.pagination.total]).toEqual([47, 47])
    expect((await list('?per_page=100')).ids).toHaveLength(48)
    expect(mock.projectChanges().filter(({ kind }) => kind === 'deleted')).toEqual([])
  })

  it('has the faults of bodies', async () => {
    const faults = { truncated: { nth: [1] }, html: { nth: [2] }, endless: { nth: [3] } }
    const { call, mock } = vaultStage({ faults })
    const { text } = await call('GET', '/workspace/projects')
    expect(text).toMatch(/^\{"response"/)
    expect(() => JSON.parse(text) as unknown).toThrow()
    expect((await call('GET', '/workspace/projects')).text).toMatch(/^<!doctype html>/)
    const url = 'https://api.example.com/api/v1/vault/workspace/projects'
    const endless = await mock.transport(
      { method: 'GET', url, headers: bearer },
      new AbortController().signal,
    )
    let heard = ''
    for await (const piece of endless.body)
      if ((heard += Buffer.from(piece).toString()).length > 200_000) break
    expect(heard).toMatch(/^\{"response":\{"content":\{"pagination":\{[^}]*\},"projects":\[\{/)
    expect(mock.requests.map(({ whole }) => whole)).toEqual([true, true, false])
  })

  it('has the faults of pages', async () => {
    const faults = { repeated_page: { nth: [2] }, duplicated: { nth: [3] }, empty_page: { nth: [4] } }
    const { list } = vaultStage({ faults: { ...faults, shuffled_page: { nth: [5] } } })
    const first = await list()
    expect((await list('?page=2')).ids).toEqual(first.ids)
    expect((await list()).ids).toHaveLength(25)
    expect((await list()).ids).toEqual([])
    const shuffled = (await list()).ids
    expect(shuffled).not.toEqual(first.ids)
    expect([...shuffled].sort()).toEqual([...first.ids].sort())
  })
})
