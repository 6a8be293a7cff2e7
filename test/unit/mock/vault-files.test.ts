// Files, review tables and forms of the mock's vault, beyond the specification.
import { describe, expect, it } from 'vitest'
import { fieldsOf, readForm } from '../../../src/mock/multipart.ts'
import { form, vaultStage } from './vault-stage.ts'

interface FilesPage {
  readonly files: readonly { id: string; name: string; size: number; uploaded_at: string }[]
  readonly pagination: { next_cursor: string | null; has_more: boolean }
}

function withFiles(count: number, options: Parameters<typeof vaultStage>[0] = {}) {
  const made = vaultStage({ projects: 0, ...options })
  const { project } = made.mock.changeProject({ do: 'create', name: 'Files' })
  const files = Array.from({ length: count }, (_, n) => ({
    name: `File ${String(n % 7)}.txt`,
    folder: '',
    sizeBytes: 1000 - (n % 11),
  }))
  const { files: ids = [] } = made.mock.changeProject({ do: 'upload', project, files })
  const page = async (query: string) => {
    const { text, json, status } = await made.call('GET', `/projects/${project}/files${query}`)
    if (status !== 201) throw new Error(text)
    return json() as FilesPage
  }
  /** All pages. */
  const walk = async (query: string) => {
    const found: FilesPage['files'][number][] = []
    for (let cursor = ''; ;) {
      const { files: some, pagination } = await page(
        `?${query}${cursor && `&cursor=${encodeURIComponent(cursor)}`}`,
      )
      found.push(...some)
      if (!pagination.has_more) return found
      cursor = pagination.next_cursor ?? ''
    }
  }
  return { ...made, project, ids, page, walk }
}

describe('a project’s files', () => {
  it.each(['name', 'size', 'uploaded_at'])('are listed by %s in both directions, each once', async (by) => {
    const { ids, walk } = withFiles(60, { switches: { files_page: 7 } })
    for (const order of ['asc', 'desc']) {
      const found = await walk(`sort_by=${by}&sort_order=${order}`)
      expect(found.map(({ id }) => id).sort()).toEqual([...ids].sort())
      const values = found.map((file) =>
        by === 'name' ? file.name : by === 'size' ? file.size : file.uploaded_at,
      )
      const sorted = [...values].sort((a, b) => (a < b ? -1 : a > b ? 1 : 0))
      expect(values).toEqual(order === 'asc' ? sorted : sorted.reverse())
    }
  })

  it('are complete although others come and go between two pages', async () => {
    const { call, ids, page } = withFiles(30, { switches: { files_page: 10 } })
    const first = await page('?sort_by=size')
    for (const file of first.files) await call('DELETE', `/files/${file.id}`)
    const cursor = first.pagination.next_cursor ?? ''
    const second = await page(`?sort_by=size&cursor=${cursor}`)
    const third = await page(`?sort_by=size&cursor=${second.pagination.next_cursor ?? ''}`)
    expect(third.pagination).toEqual({ next_cursor: null, has_more: false })
    const met = [...first.files, ...second.files, ...third.files].map(({ id }) => id)
    expect(met.sort()).toEqual([...ids].sort())
  })

  it('may use other names for the sort parameters, and refuse a cursor of another order', async () => {
    const { call, page, project } = withFiles(30, { switches: { files_page: 10, file_sort: 'sort' } })
    const { files, pagination } = await page('?sort=size&order=desc')
    expect(files[0]?.size).toBe(1000)
    const path = `/projects/${project}/files?cursor=${pagination.next_cursor ?? ''}`
    expect((await call('GET', `${path}&sort=name`)).status).toBe(400)
    expect((await call('GET', `/projects/${project}/files?cursor=nonsense`)).status).toBe(400)
  })
})

describe('an upload', () => {
  const parts = (project: string) => [
    { name: 'project_id', text: project },
    { name: 'file_paths', text: 'Contracts/2026' },
    { name: 'file_paths', text: '' },
    { name: 'file', fileName: 'one "quoted".txt'.replaceAll('"', '%22'), text: 'a\r\n--b0un\r\nb' },
    { name: 'file', fileName: 'two.md', text: '' },
  ]

  it('takes several files with a folder each, and counts their bytes', async () => {
    const { call, project, mock } = withFiles(0)
    const { status, json } = await call('POST', '/upload_files', form(parts(project)))
    expect(status).toBe(201)
    const { file_ids } = json() as { file_ids: string[] }
    const listed = await call('GET', `/projects/${project}/files?sort_by=name`)
    const { files } = listed.json() as { files: Record<string, unknown>[] }
    expect(files).toMatchObject([
      { id: file_ids[0], path: 'Contracts/2026', size: 12, content_type: 'text/plain' },
      { id: file_ids[1], path: '', size: 0, content_type: 'text/markdown' },
    ])
    expect(JSON.parse(Buffer.from(mock.projects()[0]?.raw ?? '').toString())).toMatchObject({
      files_count: 2,
      size_bytes: 12,
    })
  })

  it('is refused whole if a path is missing or leaves the project, or if a format is unsupported', async () => {
    const { call, project, mock } = withFiles(0)
    const good = parts(project)
    const bad = [
      good.filter((_, n) => n !== 1),
      good.map((part) => (part.text === '' ? { ...part, text: '../up' } : part)),
      good.map((part) => (part.text.startsWith('Contracts') ? { ...part, text: '/root' } : part)),
      good.map((part) => (part.fileName === 'two.md' ? { ...part, fileName: 'two.exe' } : part)),
      good.slice(1),
    ]
    for (const each of bad) expect((await call('POST', '/upload_files', form(each))).status).toBe(400)
    const { body } = form(good)
    const broken = [
      { body: body.subarray(0, body.length - 12), headers: form(good).headers },
      { body, headers: { 'content-type': 'application/json' } },
    ]
    for (const each of broken) {
      const { status, text } = await call('POST', '/upload_files', each)
      expect([status, text]).toEqual([400, '{"error":"Missing file"}'])
    }
    expect(mock.projectChanges().filter(({ kind }) => kind === 'files')).toHaveLength(1)
  })
})

describe('a form', () => {
  it('is read from multipart with a quoted boundary, and from URL-encoded fields', () => {
    const { body } = form(
      [
        { name: 'a', text: 'é' },
        { name: 'f', fileName: 'x.txt', text: '\r\n' },
      ],
      'with space',
    )
    const parts = readForm('Multipart/Form-Data; charset=utf-8; boundary="with space"', body) ?? []
    expect(parts.map(({ name, fileName, bytes }) => [name, fileName, Buffer.from(bytes).toString()])).toEqual(
      [
        ['a', undefined, 'é'],
        ['f', 'x.txt', '\r\n'],
      ],
    )
    const encoded = readForm('application/x-www-form-urlencoded', Buffer.from('a=1&a=%C3%A9')) ?? []
    expect(fieldsOf(encoded, 'a')).toEqual(['1', 'é'])
  })

  it('with no valid content is distinguished from an empty one', () => {
    expect(readForm(undefined, Buffer.from('a=1'))).toBeUndefined()
    expect(readForm('multipart/form-data', Buffer.from('--x--'))).toBeUndefined()
    expect(readForm('multipart/form-data; boundary=x', Buffer.from('--x--\r\n'))).toEqual([])
    expect(readForm('multipart/form-data; boundary=x', Buffer.from('--x\r\nbroken\r\n--x--'))).toBeUndefined()
  })
})

describe('reads without a documented type of their own', () => {
  it('leave an api:vault_get_metadata entry, or none if the switch says so', async () => {
    const { call, ids, mock } = withFiles(1, { switches: { self_audit: 'all' } })
    const reads = () => mock.entries().filter(({ type }) => type === 'api:vault_get_metadata').length
    await call('GET', `/get_files?file_ids=${ids[0] ?? ''}`)
    expect(reads()).toBe(1)
    mock.setSwitches({ vault_reads: 'off' })
    await call('GET', `/get_files?file_ids=${ids[0] ?? ''}`)
    expect(reads()).toBe(1)
  })
})
