// The vault (specification §2.5, §2.6, §3, §4.3), sentence by sentence. Paths and names that it leaves open are the mock's (src/core/api.ts).
import { describe, expect, it } from 'vitest'
import { vaultFields, vaultPaths } from '../../src/core/api.ts'
import {
  DAY,
  email,
  HOUR,
  MINUTE,
  projects,
  seconds,
  SECOND,
  served,
  stamp,
  START,
  UNKNOWN,
  uuid,
} from './served.ts'
import type { Fields, Served } from './served.ts'
import type { MockOptions } from '../../src/mock/mock.ts'

interface Project {
  readonly id: string
  readonly name: string
  readonly created_at: string
  readonly updated_at: string
  readonly project_updated_at: string
  readonly files_count: number
  readonly size_bytes: number
  readonly query_count: number
  readonly is_knowledge_base_project: boolean
  readonly sharing: {
    readonly user_count: number
    readonly user_shares: readonly Fields[]
    readonly workspace_count: number
    readonly workspace_shares: readonly Fields[]
  }
}

interface Pagination {
  readonly page: number
  readonly per_page: number
  readonly total: number
  readonly total_pages: number
}

async function list(context: Served, query = '?per_page=100') {
  const heard = await context.ask(`${projects}${query}`)
  if (heard.status >= 300) throw new Error(`${heard.status}: ${heard.text}`)
  const { content } = (
    heard.json() as { response: { content: { pagination: Pagination; projects: Project[] } } }
  ).response
  return { ...content, ids: content.projects.map(({ id }) => id) }
}

const path = (template: string, ...values: (string | number)[]) => {
  let next = 0
  return template.replace(/\{\w+\}/g, () => String(values[next++]))
}

/** One project of our own, and nothing else. */
async function single(options: Omit<MockOptions, 'clock'> = {}) {
  const context = await served({ projects: 0, ...options })
  const { project } = context.mock.changeProject({ do: 'create', name: 'Alder' })
  const upload = (name = 'one.txt', text = 'hello', folder = 'Contracts/2026') => {
    const body = new FormData()
    body.append(vaultFields.projectId, project)
    body.append(vaultFields.filePaths, folder)
    body.append(vaultFields.file, new Blob([text]), name)
    return context.ask(vaultPaths.uploadFiles, { method: 'POST', body })
  }
  const uploaded = async (name?: string, text?: string) =>
    ((await upload(name, text)).json() as { file_ids: string[] }).file_ids[0] ?? ''
  const status = async (...ids: string[]) => {
    const query = ids.map((id) => `${vaultFields.fileIds}=${id}`).join('&')
    return ((await context.get(`${vaultPaths.files}?${query}`)) as { files: Fields[] }).files
  }
  return { ...context, context, project, upload, uploaded, status }
}

const errorOf = (heard: { status: number; json(): unknown }) => [
  heard.status,
  (heard.json() as Fields)['error'],
]

describe('§2.5 vault project', () => {
  it('§2.5 every field is there, and no other', async () => {
    for (const project of (await list(await served())).projects)
      expect(Object.keys(project)).toEqual([
        'id',
        'name',
        'creator_email',
        'created_at',
        'updated_at',
        'project_updated_at',
        'files_count',
        'query_count',
        'size_bytes',
        'is_knowledge_base_project',
        'sharing',
      ])
  })

  it('§2.5 id is a UUID, creator_email an e-mail, the counts are integers, the flag is a boolean', async () => {
    for (const project of (await list(await served())).projects) {
      expect(project.id).toMatch(uuid)
      expect((project as unknown as Fields)['creator_email']).toMatch(email)
      for (const count of [project.files_count, project.query_count, project.size_bytes])
        expect(Number.isInteger(count) && count >= 0).toBe(true)
      expect(project.is_knowledge_base_project).toEqual(expect.any(Boolean))
    }
  })

  it('§2.5 created_at, updated_at and project_updated_at are written YYYY-MM-DDTHH:MM:SS.ffffff, no zone', async () => {
    for (const { created_at, updated_at, project_updated_at } of (await list(await served())).projects)
      for (const text of [created_at, updated_at, project_updated_at]) expect(text).toMatch(stamp)
  })

  it('§2.5 sharing: counts and arrays of the shares with users and with workspaces', async () => {
    const shares = (await list(await served())).projects.map(({ sharing }) => sharing)
    expect(shares.some(({ user_count }) => user_count > 1)).toBe(true)
    expect(shares.some(({ workspace_count }) => workspace_count > 0)).toBe(true)
    for (const sharing of shares) {
      expect(sharing.user_shares).toHaveLength(sharing.user_count)
      expect(sharing.workspace_shares).toHaveLength(sharing.workspace_count)
    }
  })

  it('§2.5 user_shares items: their eight fields', async () => {
    for (const { id, sharing } of (await list(await served())).projects)
      for (const share of sharing.user_shares) {
        expect(share).toEqual({
          created_at: expect.stringMatching(stamp) as unknown,
          dest_user_email: expect.stringMatching(email) as unknown,
          dest_user_id: expect.stringMatching(uuid) as unknown,
          dest_workspace_id: expect.any(Number) as unknown,
          permission_level: expect.stringMatching(/^(VIEW|EDIT)$/) as unknown,
          src_user_id: expect.stringMatching(uuid) as unknown,
          src_workspace_id: expect.any(Number) as unknown,
          vault_folder_id: id,
        })
        expect([share['dest_workspace_id'], share['src_workspace_id']].every(Number.isInteger)).toBe(true)
      }
  })

  it('§2.5 workspace_shares items: their six fields', async () => {
    for (const { id, sharing } of (await list(await served())).projects)
      for (const share of sharing.workspace_shares)
        expect(share).toEqual({
          created_at: expect.stringMatching(stamp) as unknown,
          dest_workspace_id: expect.any(Number) as unknown,
          permission_level: expect.stringMatching(/^(VIEW|EDIT)$/) as unknown,
          src_user_id: expect.stringMatching(uuid) as unknown,
          src_workspace_id: expect.any(Number) as unknown,
          vault_folder_id: id,
        })
  })

  it('§2.5 the pagination block: page, per_page, total and total_pages, all integers', async () => {
    const { pagination } = await list(await served(), '?page=2&per_page=7')
    expect(pagination).toEqual({ page: 2, per_page: 7, total: 48, total_pages: 7 })
  })
})

describe('§2.6 files, metadata and review tables', () => {
  const formats =
    'doc docx xls xlsx ppt pptx txt md html csv rtf xml eml msg jpeg png tiff c cpp java js json php py tex ts rb css'
  it('§2.6 each supported format may be uploaded, another may not', async () => {
    const { upload } = await single()
    for (const format of formats.split(' ')) expect((await upload(`file.${format}`)).status).toBe(201)
    expect((await upload('FILE.DOCX')).status).toBe(201)
    expect((await upload('file.exe')).status).toBe(400)
  })

  it('§2.6 the file status record: processing_status, content_type and deleted_at', async () => {
    const { uploaded, status } = await single()
    const id = await uploaded('notes.md')
    expect(await status(id)).toMatchObject([
      { processing_status: 'uploaded', content_type: 'text/markdown', deleted_at: null },
    ])
  })

  it('§2.6 a file id that is not found yields an entry with an `error` field instead', async () => {
    const { uploaded, status } = await single()
    const [found, missing] = await status(await uploaded(), UNKNOWN)
    expect(found).not.toHaveProperty('error')
    expect(missing).toEqual({ id: UNKNOWN, error: expect.any(String) as unknown })
  })

  it('§2.6 project metadata: ids, names and sizes of its files as parallel flat arrays', async () => {
    const { get, project, uploaded } = await single()
    const ids = [await uploaded('a.txt', 'four'), await uploaded('b.txt', 'seven77')]
    expect(await get(path(vaultPaths.metadata, project))).toMatchObject({
      file_ids: ids,
      file_names: ['a.txt', 'b.txt'],
      file_sizes: [4, 7],
    })
  })

  it('§2.6 review_table_ids: integers, an empty array without review tables', async () => {
    const { get, mock, project, uploaded } = await single()
    await uploaded()
    expect(await get(path(vaultPaths.metadata, project))).toMatchObject({ review_table_ids: [] })
    const { review } = mock.changeProject({ do: 'review', project })
    expect(Number.isInteger(review)).toBe(true)
    expect(await get(path(vaultPaths.metadata, project))).toMatchObject({ review_table_ids: [review] })
  })

  it('§2.6 review table metadata: title, created_at, and file_ids with one id per document row', async () => {
    const { get, mock, project, uploaded } = await single()
    const file_ids = [await uploaded('a.txt'), await uploaded('b.txt')]
    const { review = 0 } = mock.changeProject({ do: 'review', project, title: 'Key dates' })
    expect(await get(path(vaultPaths.reviewTable, review))).toMatchObject({
      title: 'Key dates',
      created_at: expect.stringMatching(stamp) as unknown,
      file_ids,
    })
  })

  it('§2.6 a review table row: cells with column, summary, additional_context, citations, verification and flag', async () => {
    const { get, mock, project, uploaded } = await single()
    const file = await uploaded()
    const { review = 0 } = mock.changeProject({ do: 'review', project })
    const { cells } = (await get(path(vaultPaths.reviewTableRow, review, file))) as { cells: Fields[] }
    expect(cells.length).toBeGreaterThan(0)
    for (const cell of cells)
      expect(cell).toEqual({
        column: expect.any(String) as unknown,
        summary: expect.any(String) as unknown,
        additional_context: expect.any(String) as unknown,
        citations: expect.any(Array) as unknown,
        verified: expect.any(Boolean) as unknown,
        flagged: expect.any(Boolean) as unknown,
      })
  })

  it('§2.6 in every field a user-edited value takes precedence over the generated value', async () => {
    const { get, mock, project, uploaded } = await single()
    const file = await uploaded()
    const { review = 0 } = mock.changeProject({ do: 'review', project })
    const row = async () =>
      ((await get(path(vaultPaths.reviewTableRow, review, file))) as { cells: Fields[] }).cells[0] ?? {}
    const before = await row()
    const column = before['column'] as string
    const edit = { summary: 'By hand', verified: true, flagged: true }
    mock.changeProject({ do: 'edit_cell', review, file, column, edit })
    expect(await row()).toEqual({ ...before, ...edit })
    mock.changeProject({ do: 'edit_cell', review, file, column, edit: { additional_context: 'Because' } })
    expect(await row()).toEqual({ ...before, ...edit, additional_context: 'Because' })
  })

  it('§2.6 the project file list: a `pagination` block with `next_cursor` and `has_more`', async () => {
    const { get, project, uploaded } = await single({ switches: { files_page: 1 } })
    await uploaded('a.txt')
    await uploaded('b.txt')
    const { pagination } = (await get(path(vaultPaths.projectFiles, project))) as { pagination: Fields }
    expect(pagination).toEqual({ next_cursor: expect.any(String) as unknown, has_more: true })
  })
})

describe('§3 states and transitions', () => {
  it('§3 a file is uploaded, then processing, then ready_to_query: clients poll until then', async () => {
    const { clock, uploaded, status } = await single()
    const id = await uploaded()
    const seen: unknown[] = []
    for (let poll = 0; poll < 60; poll++) {
      const [file] = await status(id)
      if (seen.at(-1) !== file?.['processing_status']) seen.push(file?.['processing_status'])
      clock.pass(SECOND)
    }
    expect(seen).toEqual(['uploaded', 'processing', 'ready_to_query'])
  })

  it('§3 a deleted file carries a `deleted_at` timestamp', async () => {
    const { ask, uploaded, status } = await single()
    const id = await uploaded()
    await ask(path(vaultPaths.file, id), { method: 'DELETE' })
    expect(await status(id)).toMatchObject([{ deleted_at: expect.stringMatching(stamp) as unknown }])
  })

  it('§3 project deletion completes after the request returned; then the project is no longer listed', async () => {
    const { context, ask, clock, project } = await single()
    expect((await ask(path(vaultPaths.project, project), { method: 'DELETE' })).status).toBe(200)
    expect((await list(context)).ids).toEqual([project])
    clock.pass(MINUTE)
    expect((await list(context)).ids).toEqual([])
  })

  it('§3 a deleted file is not found by another deletion, nor is it counted, listed or in the metadata', async () => {
    const { ask, get, project, uploaded, context } = await single()
    const [id, kept] = [await uploaded('a.txt', 'four'), await uploaded('b.txt', 'seven77')]
    await ask(path(vaultPaths.file, id), { method: 'DELETE' })
    expect((await ask(path(vaultPaths.file, id), { method: 'DELETE' })).status).toBe(404)
    expect((await list(context)).projects).toMatchObject([{ files_count: 1, size_bytes: 7 }])
    expect(await get(path(vaultPaths.metadata, project))).toMatchObject({ file_ids: [kept] })
    expect(await get(path(vaultPaths.projectFiles, project))).toMatchObject({ files: [{ id: kept }] })
  })

  it('§3 project deletion is irreversible: nothing reaches it any more', async () => {
    const { ask, mock, project, upload, uploaded } = await single()
    const file = await uploaded()
    const { review = 0 } = mock.changeProject({ do: 'review', project })
    await ask(path(vaultPaths.project, project), { method: 'DELETE' })
    expect((await ask(path(vaultPaths.project, project), { method: 'DELETE' })).status).toBe(404)
    expect((await ask(path(vaultPaths.metadata, project))).status).toBe(404)
    expect((await upload()).status).toBe(404)
    expect((await ask(path(vaultPaths.file, file), { method: 'DELETE' })).status).toBe(404)
    expect((await ask(path(vaultPaths.reviewTable, review))).status).toBe(404)
  })
})

describe('§4.3 list projects', () => {
  it('§4.3 answers {response: {content: {pagination, projects}}}, and 200 where told', async () => {
    const { ask } = await served({ switches: { vault_status: '200' } })
    const heard = await ask(projects)
    expect(heard.status).toBe(200)
    expect(heard.json()).toEqual({
      response: {
        content: { pagination: expect.any(Object) as unknown, projects: expect.any(Array) as unknown },
      },
    })
  })

  it('§4.3 holds projects and knowledge bases of the whole workspace, and of no other', async () => {
    const context = await served({ workspaces: [{ name: 'acme' }, { name: 'beta' }] })
    const { ids } = await list(context)
    expect([...ids].sort()).toEqual(
      context.mock
        .projects('acme')
        .map(({ id }) => id)
        .sort(),
    )
  })

  it('§4.3 page: 1 unless given, at least 1', async () => {
    const context = await served()
    expect((await list(context, '')).pagination.page).toBe(1)
    for (const page of ['0', '-1', '1.5', 'two'])
      expect((await context.ask(`${projects}?page=${page}`)).status).toBe(400)
    expect((await list(context, '?page=9999')).projects).toEqual([])
  })

  it('§4.3 §8 per_page: 20 unless given, 1 to 100', async () => {
    const context = await served()
    expect((await list(context, '')).projects).toHaveLength(20)
    expect((await list(context, '?per_page=1')).projects).toHaveLength(1)
    expect((await list(context, '?per_page=100')).projects).toHaveLength(48)
    for (const size of ['0', '101', 'all'])
      expect((await context.ask(`${projects}?per_page=${size}`)).status).toBe(400)
  })

  it('§4.3 the pages together hold each project once', async () => {
    const context = await served()
    const pages = await Promise.all([1, 2, 3, 4, 5].map((page) => list(context, `?per_page=10&page=${page}`)))
    const ids = pages.flatMap((page) => page.ids)
    expect(ids).toEqual((await list(context)).ids)
    expect(new Set(ids).size).toBe(48)
  })

  it('§4.3 name: a case-insensitive substring', async () => {
    const context = await served({ projects: 0 })
    for (const name of ['Alder lease', 'BIG ALDER', 'Birch', 'Žluťoučký'])
      context.mock.changeProject({ do: 'create', name })
    const named = async (name: string) =>
      (await list(context, `?name=${encodeURIComponent(name)}`)).projects
        .map((project) => project.name)
        .sort()
    expect(await named('aLdEr')).toEqual(['Alder lease', 'BIG ALDER'])
    expect(await named('ŽLUŤ')).toEqual(['Žluťoučký'])
    expect(await named('%')).toEqual([])
  })

  it('§4.3 §8 name: at most 256 characters', async () => {
    const { ask } = await served()
    expect((await ask(`${projects}?name=${'n'.repeat(256)}`)).status).toBe(201)
    expect((await ask(`${projects}?name=${'n'.repeat(257)}`)).status).toBe(400)
  })

  it('§4.3 is_knowledge_base: true shows only those, false excludes them, omitted shows both', async () => {
    const context = await served()
    const only = await list(context, '?per_page=100&is_knowledge_base=true')
    const without = await list(context, '?per_page=100&is_knowledge_base=false')
    expect(only.projects.length).toBeGreaterThan(0)
    expect(only.projects.every((project) => project.is_knowledge_base_project)).toBe(true)
    expect(without.projects.some((project) => project.is_knowledge_base_project)).toBe(false)
    expect(only.pagination.total + without.pagination.total).toBe((await list(context)).pagination.total)
    expect((await context.ask(`${projects}?is_knowledge_base=maybe`)).status).toBe(400)
  })

  async function twoOnTheSecond() {
    const context = await served({ projects: 0 })
    const made = (name: string) => context.mock.changeProject({ do: 'create', name }).project
    const first = made('first')
    context.clock.pass(10 * SECOND)
    return { context, first, second: made('second'), at: seconds(START) }
  }

  it('§4.3 created_after: an inclusive lower bound, in epoch seconds', async () => {
    const { context, first, second, at } = await twoOnTheSecond()
    const after = async (time: number) => (await list(context, `?created_after=${time}&sort_order=asc`)).ids
    expect(await after(at)).toEqual([first, second])
    expect(await after(at + 1)).toEqual([second])
    expect(await after(at + 10)).toEqual([second])
    expect(await after(at + 11)).toEqual([])
  })

  it('§4.3 created_before: an exclusive upper bound, in epoch seconds', async () => {
    const { context, first, second, at } = await twoOnTheSecond()
    const before = async (time: number) => (await list(context, `?created_before=${time}&sort_order=asc`)).ids
    expect(await before(at)).toEqual([])
    expect(await before(at + 10)).toEqual([first])
    expect(await before(at + 11)).toEqual([first, second])
  })

  it('§4.3 created_after and created_before: int64', async () => {
    const { ask } = await served()
    expect((await ask(`${projects}?created_after=9223372036854775807`)).status).toBe(201)
    for (const wrong of ['9223372036854775808', '1.5', '2026-01-01'])
      expect((await ask(`${projects}?created_after=${wrong}`)).status).toBe(400)
  })

  it('§4.3 created_after must be strictly less than created_before', async () => {
    const { ask } = await served()
    const range = (after: number, before: number) =>
      ask(`${projects}?created_after=${after}&created_before=${before}`)
    expect((await range(1000, 1001)).status).toBe(201)
    expect((await range(1000, 1000)).status).toBe(400)
    expect((await range(1001, 1000)).status).toBe(400)
  })

  it('§4.3 sort_by date: by the last content update, newest first unless told', async () => {
    const context = await served()
    const dates = async (query: string) =>
      (await list(context, query)).projects.map((p) => p.project_updated_at)
    const newest = await dates('?per_page=100')
    expect(newest).toEqual([...newest].sort().reverse())
    expect(await dates('?per_page=100&sort_by=date&sort_order=desc')).toEqual(newest)
    expect(await dates('?per_page=100&sort_order=asc')).toEqual([...newest].reverse())
    context.clock.pass(HOUR)
    const { ids } = await list(context)
    const project = ids.at(-1) ?? ''
    context.mock.changeProject({ do: 'upload', project })
    expect((await list(context)).ids[0]).toBe(project)
  })

  it('§4.3 sort_by name: alphabetically, in either direction', async () => {
    const context = await served({ projects: 0 })
    for (const name of ['beech', 'Alder', 'Cedar', 'alder 2'])
      context.mock.changeProject({ do: 'create', name })
    const names = async (query: string) => (await list(context, query)).projects.map(({ name }) => name)
    expect(await names('?sort_by=name&sort_order=asc')).toEqual(['Alder', 'alder 2', 'beech', 'Cedar'])
    expect(await names('?sort_by=name')).toEqual(['Cedar', 'beech', 'alder 2', 'Alder'])
  })

  it('§4.3 sort_by and sort_order take their documented values only', async () => {
    const { ask } = await served()
    for (const query of ['sort_by=size', 'sort_by=DATE', 'sort_order=up'])
      expect((await ask(`${projects}?${query}`)).status).toBe(400)
  })
})

describe('§4.3 other operations', () => {
  it('§4.3 upload: project_id, file_paths and the file; the folder paths define the hierarchy', async () => {
    const { get, project, upload, context } = await single()
    expect((await upload('one.txt', 'hello', 'Contracts/2026')).status).toBe(201)
    const { files } = (await get(path(vaultPaths.projectFiles, project))) as { files: Fields[] }
    expect(files).toMatchObject([{ name: 'one.txt', path: 'Contracts/2026', size: 5 }])
    expect((await list(context)).projects).toMatchObject([{ files_count: 1, size_bytes: 5 }])
  })

  it('§4.3 get files: the status of one or more files by their ids', async () => {
    const { uploaded, status } = await single()
    const ids = [await uploaded('a.txt'), await uploaded('b.csv')]
    expect((await status(...ids)).map((file) => file['id'])).toEqual(ids)
    expect(await status(ids[1] ?? '')).toMatchObject([{ content_type: 'text/csv' }])
  })

  it('§4.3 delete file: confirmed by a 200 response', async () => {
    const { ask, get, project, uploaded } = await single()
    const id = await uploaded()
    expect((await ask(path(vaultPaths.file, id), { method: 'DELETE' })).status).toBe(200)
    expect(await get(path(vaultPaths.metadata, project))).toMatchObject({ file_ids: [] })
  })

  it('§4.3 delete project: by its id', async () => {
    const { ask, project } = await single()
    expect((await ask(path(vaultPaths.project, UNKNOWN), { method: 'DELETE' })).status).toBe(404)
    expect((await ask(path(vaultPaths.project, project), { method: 'DELETE' })).status).toBe(200)
  })

  it('§4.3 review table operations: metadata by review table id, a row by it and the file id', async () => {
    const { ask, mock, project, uploaded } = await single()
    const file = await uploaded()
    const { review = 0 } = mock.changeProject({ do: 'review', project })
    expect((await ask(path(vaultPaths.reviewTable, review))).status).toBe(201)
    expect((await ask(path(vaultPaths.reviewTable, review + 1))).status).toBe(404)
    expect((await ask(path(vaultPaths.reviewTableRow, review, file))).status).toBe(201)
    expect((await ask(path(vaultPaths.reviewTableRow, review, UNKNOWN))).status).toBe(404)
  })

  it('§4.3 list project files: `cursor` from `next_cursor` until `has_more` is false, each file once', async () => {
    const { get, project, uploaded } = await single({ switches: { files_page: 2 } })
    const ids: string[] = []
    for (const name of ['a.txt', 'b.txt', 'c.txt', 'd.txt', 'e.txt']) ids.push(await uploaded(name))
    const found: unknown[] = []
    for (let cursor: string | null = ''; cursor !== null;) {
      const page = (await get(
        `${path(vaultPaths.projectFiles, project)}${cursor && `?cursor=${cursor}`}`,
      )) as {
        files: Fields[]
        pagination: { next_cursor: string | null; has_more: boolean }
      }
      found.push(...page.files.map((file) => file['id']))
      cursor = page.pagination.has_more ? page.pagination.next_cursor : null
    }
    expect([...found].sort()).toEqual([...ids].sort())
  })

  it('§4.3 list project files: filters name, content_type, processing_status, uploaded_after, uploaded_before', async () => {
    const { clock, get, project, uploaded } = await single()
    await uploaded('Lease A.txt')
    clock.pass(DAY)
    await uploaded('Lease b.md')
    const names = async (query: string) =>
      (
        (await get(`${path(vaultPaths.projectFiles, project)}?${query}`)) as { files: { name: string }[] }
      ).files.map(({ name }) => name)
    const noon = seconds(START + DAY / 2)
    expect(await names('name=LEASE')).toEqual(['Lease A.txt', 'Lease b.md'])
    expect(await names('name=se%20b')).toEqual(['Lease b.md'])
    expect(await names('content_type=text/plain')).toEqual(['Lease A.txt'])
    expect(await names('processing_status=ready_to_query')).toEqual(['Lease A.txt'])
    expect(await names('processing_status=uploaded')).toEqual(['Lease b.md'])
    expect(await names(`uploaded_after=${noon}`)).toEqual(['Lease b.md'])
    expect(await names(`uploaded_before=${noon}`)).toEqual(['Lease A.txt'])
  })

  it('§4.3 list project files: sorted by name, uploaded_at or size, in either direction', async () => {
    const { clock, get, project, uploaded } = await single()
    for (const [name, text] of [
      ['b.txt', '1'],
      ['c.txt', '333'],
      ['a.txt', '22'],
    ] as const) {
      await uploaded(name, text)
      clock.pass(SECOND)
    }
    const names = async (by: string, order: string) => {
      const query = `${vaultFields.sortBy}=${by}&${vaultFields.sortOrder}=${order}`
      const listed = await get(`${path(vaultPaths.projectFiles, project)}?${query}`)
      return (listed as { files: { name: string }[] }).files.map(({ name }) => name[0]).join('')
    }
    expect([await names('name', 'asc'), await names('name', 'desc')]).toEqual(['abc', 'cba'])
    expect([await names('uploaded_at', 'asc'), await names('uploaded_at', 'desc')]).toEqual(['bca', 'acb'])
    expect([await names('size', 'asc'), await names('size', 'desc')]).toEqual(['bac', 'cab'])
  })

  it('§7 vault: what is missing or invalid is refused with 400, what is not there with 404', async () => {
    const { ask, project } = await single()
    const body = new FormData()
    body.append(vaultFields.projectId, project)
    body.append(vaultFields.filePaths, '')
    expect(errorOf(await ask(vaultPaths.uploadFiles, { method: 'POST', body }))).toEqual([
      400,
      'Missing file',
    ])
    for (const gone of [path(vaultPaths.metadata, UNKNOWN), path(vaultPaths.projectFiles, UNKNOWN)])
      expect(errorOf(await ask(gone))).toEqual([404, 'File not found'])
    for (const gone of [path(vaultPaths.file, UNKNOWN), path(vaultPaths.project, UNKNOWN)])
      expect(errorOf(await ask(gone, { method: 'DELETE' }))).toEqual([404, 'File not found'])
  })
})
