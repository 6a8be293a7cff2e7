// The typed client of the vault before the mock: each operation, what it refuses, and that the daemon never changes a vault.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { openMock } from '../../../../src/mock/mock.ts'
import type { HttpRequest, Transport } from '../../../../src/contracts/platform.ts'
import { Room } from '../../../../src/core/memory-budget.ts'
import { Secret } from '../../../../src/core/secret.ts'
import { Budget } from '../../../../src/sources/http/rate-limiter.ts'
import { Client } from '../../../../src/sources/http/client.ts'
import { openVaultClient } from '../../../../src/sources/vault/client.ts'
import type { UploadFile, VaultClientOptions } from '../../../../src/sources/vault/client.ts'
import { SourceNotes } from '../../../fakes/watches.ts'
import { VirtualClock } from '../../../simulation/virtual-clock.ts'
import { driven, START } from '../../app/desk.ts'

const never = new AbortController().signal

function open(
  options: { paths?: VaultClientOptions['paths']; wrap?: (transport: Transport) => Transport } = {},
) {
  const clock = new VirtualClock(START)
  const mock = openMock({ clock, traffic: { entriesPerHour: 0 }, projects: 2, switches: { files_page: 3 } })
  const asked: HttpRequest[] = []
  const transport: Transport = (request, signal) => {
    asked.push(request)
    return (options.wrap?.(mock.transport) ?? mock.transport)(request, signal)
  }
  const store = { load: async () => undefined, save: async () => undefined }
  const budget = new Budget({ limit: () => 10, clock, random: () => 0.5, store })
  const client = new Client({
    ...{ baseUrl: 'https://api.test', apiKey: new Secret('acme-key'), transport, clock, budget },
    ...{ room: new Room(32 * 2 ** 20), watch: new SourceNotes(), userAgent: 'tester/1' },
  })
  const vault = openVaultClient({
    client,
    random: Math.random,
    ...(options.paths && { paths: options.paths }),
  })
  const projects = mock.projects()
  return { clock, mock, vault, asked, projects, done: <T>(work: Promise<T>) => driven(clock, work) }
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : '')

/** Given out in pieces, as from a disk. */
function file(name: string, content: string, path = ''): UploadFile {
  return {
    ...{ name, path, bytes: Buffer.byteLength(content) },
    async *open() {
      for (let at = 0; at < content.length; at += 5) yield Buffer.from(content.slice(at, at + 5))
    },
  }
}

const answered =
  (status: number, text: string): Transport =>
  async () => ({
    status,
    headers: { 'content-type': 'application/json' },
    body: (async function* () {
      yield Buffer.from(text)
    })(),
  })

it('files go up with their folders, are processed, listed page by page, and deleted', async () => {
  const { vault, mock, clock, done } = open()
  const { project } = mock.changeProject({ do: 'create', name: 'Uploads' })
  const files = Array.from({ length: 7 }, (_, i) =>
    file(`file "${i}".txt`, `content ${i}\r\n--`, `Contracts/${i}`),
  )
  const { file_ids: ids } = await done(vault.upload(project, files, never))
  expect(ids).toHaveLength(7)
  const first = await done(vault.statuses([ids[0] ?? '', 'nobody'], never))
  expect(first.map(({ processing_status: status, error }) => status ?? error)).toEqual([
    'uploaded',
    'File not found',
  ])
  clock.advance(clock.now() + 3_600_000)
  const [later] = await done(vault.statuses(ids, never))
  expect(later?.processing_status).toBe('ready_to_query')
  const listed = async () => {
    const names: (string | null | undefined)[] = []
    for await (const each of vault.files(project, { sort: { by: 'name', order: 'desc' } }, never))
      names.push(each.name)
    return names
  }
  const names = await done(listed())
  expect(names).toHaveLength(7)
  expect(names).toEqual([...names].sort().reverse())
  const metadata = await done(vault.metadata(project, never))
  expect([...metadata.file_ids].sort()).toEqual([...ids].sort())
  await done(vault.deleteFile(ids[0] ?? '', never))
  const [gone] = await done(vault.statuses(ids, never))
  expect(gone?.deleted_at).toBeTypeOf('string')
  await done(vault.deleteProject(project, never))
  clock.advance(clock.now() + 3_600_000)
  expect(mock.projects().some(({ id }) => id === project)).toBe(false)
})

it('a review table and its rows are read', async () => {
  const { vault, mock, done } = open()
  const { project } = mock.changeProject({ do: 'create', name: 'Review' })
  mock.changeProject({ do: 'upload', project })
  const { review = 0 } = mock.changeProject({ do: 'review', project, title: 'Leases' })
  const table = await done(vault.reviewTable(review, never))
  expect(table.title).toBe('Leases')
  const row = await done(vault.reviewRow(review, table.file_ids[0] ?? '', never))
  expect(row.cells[0]?.summary).toBeTypeOf('string')
  expect(await done(vault.metadata(project, never))).toMatchObject({ review_table_ids: [review] })
})

it('what is not there is not_found, and an id stays one part of the path', async () => {
  const { vault, asked, done } = open()
  await expect(done(vault.metadata('../../x?y', never))).rejects.toMatchObject({ code: 'not_found' })
  expect(new URL(asked[0]?.url ?? '').pathname).toBe('/api/v1/vault/get_metadata/..%2F..%2Fx%3Fy')
  for (const id of ['', '.', '..'])
    await expect(async () => vault.deleteProject(id, never)).rejects.toMatchObject({ code: 'bad_request' })
  expect(asked).toHaveLength(1)
})

it('paths that the specification leaves open can be others', async () => {
  const { vault, asked, done } = open({ paths: { project: '/v9/{project_id}/remove' } })
  await expect(done(vault.deleteProject('a', never))).rejects.toMatchObject({ code: 'not_found' })
  expect([asked[0]?.method, asked[0]?.url]).toEqual(['DELETE', 'https://api.test/v9/a/remove'])
})

it('all operations share one budget', async () => {
  const { vault, projects, clock, done } = open()
  const { id = '' } = projects[0] ?? {}
  for (let i = 0; i < 11; i++) await done(vault.metadata(id, never))
  expect(clock.now() - START).toBeGreaterThanOrEqual(60_000)
})

it('a file that changed its length ends the upload, and nothing of it is in the error', async () => {
  const { vault, projects, done } = open()
  const { id = '' } = projects[0] ?? {}
  for (const bytes of [1, 100]) {
    const error = await done(vault.upload(id, [{ ...file('a.txt', 'secret words'), bytes }], never)).catch(
      (reason: unknown) => reason,
    )
    expect(messageOf(error)).toContain('another length')
    expect(messageOf(error)).not.toContain('secret')
  }
})

it('a large upload is never held: a piece is asked for when the one before is gone', async () => {
  let ahead = 0
  const wrap = (): Transport => async (request) => {
    for await (const piece of request.stream ?? []) if (piece.length === 2 ** 20) ahead--
    return answered(201, '{"file_ids":["a"]}')(request, never)
  }
  const { vault, done } = open({ wrap })
  const large: UploadFile = {
    ...{ name: 'large.txt', path: '', bytes: 64 * 2 ** 20 },
    async *open() {
      const piece = Buffer.alloc(2 ** 20)
      for (let i = 0; i < 64; i++) {
        expect(ahead).toBe(0)
        ahead++
        yield piece
      }
    },
  }
  expect(await done(vault.upload('p', [large], never))).toEqual({ file_ids: ['a'] })
})

it.each([
  ['no JSON', 'secret'],
  ['another shape', '{"file_ids":"secret"}'],
  ['too large a size', '{"file_ids":[],"file_names":[],"file_sizes":[9007199254740993]}'],
])('an answer that is %s is a bad reply, and not quoted', async (_, text) => {
  const { vault, done } = open({ wrap: () => answered(200, text) })
  const error = await done(vault.metadata('a', never)).catch((reason: unknown) => reason)
  expect(error).toMatchObject({ code: 'bad_reply' })
  expect(messageOf(error)).not.toMatch(/secret|9007/)
})

it('a list of files that says it goes on, and not where, is no list without end', async () => {
  const { vault, done, asked } = open({
    wrap: () => answered(200, '{"files":[],"pagination":{"next_cursor":"same","has_more":true}}'),
  })
  await expect(done(vault.files('a', {}, never).next())).rejects.toMatchObject({ code: 'bad_reply' })
  expect(asked.map(({ url }) => new URL(url).searchParams.get('cursor'))).toEqual([null, 'same'])
})

it('no room of the daemon imports what can change a vault', () => {
  const root = join(import.meta.dirname, '../../../../src')
  const files = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.endsWith('.ts'),
  )
  const importing = files.filter((name) => {
    const path = name.startsWith('sources/vault/') ? /from '\.\/client\.ts'/ : /vault\/client\.ts/
    return path.test(readFileSync(join(root, name), 'utf8'))
  })
  expect(files.length).toBeGreaterThan(100)
  expect(importing).toEqual([])
})
