// The inventory of the vault: what is reported, what is not, and what two passes must agree on before a project is gone.
import { expect, it } from 'vitest'
import { ConnectorError } from '../../../../src/core/errors.ts'
import type { ErrorCode } from '../../../../src/core/errors.ts'
import type { Clock } from '../../../../src/core/clock.ts'
import type { Journal } from '../../../../src/contracts/journal.ts'
import { Comparison } from '../../../../src/sources/vault/compare.ts'
import { storedId } from '../../../../src/sources/vault/digest.ts'
import { closeVaultCursor, openVaultCursor } from '../../../../src/sources/vault/cursor.ts'
import { withMethods } from '../../../fakes/with-methods.ts'
import { driven, HOUR, MINUTE, START } from '../../app/audit-harness.ts'
import {
  foldedTruth,
  foldRecords,
  idOf,
  openedCursor,
  openVaultHarness,
  sorted,
  withProjects,
} from './harness.ts'
import type { FakeProject, VaultHarness } from './harness.ts'

it('the first pass delivers one record per project, whatever it is shared with, and its bytes inside untouched', async () => {
  const harness = await withProjects(2)
  const [first, second] = harness.projects as [FakeProject, FakeProject]
  harness.vault.share(first, 1)
  harness.vault.share(first, 7, 'EDIT', 'workspace')
  second.name = 'Übung 12345678901234567890'
  harness.vault.written = (project) =>
    harness.vault.text(project).replace('"size_bytes":0', '"size_bytes": 1e400, "x": 12345678901234567890.10')
  await harness.pass()
  expect(await harness.types()).toEqual(['project_listed', 'project_listed'])
  const raws = await harness.raws()
  for (const project of [first, second])
    expect(raws.filter((raw) => raw.endsWith(`,"project":${harness.vault.written(project)}}`))).toHaveLength(
      1,
    )
})

it('an unchanged project is reported once, and a pass without news writes no record', async () => {
  const harness = await withProjects(3)
  await harness.pass()
  await harness.later(3)
  expect(await harness.types()).toHaveLength(3)
})

it('each change is reported by its kind, at the time that the API gives', async () => {
  const harness = await withProjects(2)
  const [project, other] = harness.projects as [FakeProject, FakeProject]
  harness.vault.share(other, 1)
  harness.vault.share(other, 2)
  await harness.pass()
  harness.clock.advance(harness.clock.now() + HOUR)
  const at = harness.vault.stamp()
  harness.vault.touch(project)
  project.flag = true
  harness.vault.share(project, 9, 'VIEW')
  harness.vault.share(project, 5, 'EDIT', 'workspace')
  harness.vault.share(other, 1, 'EDIT')
  other.shares = other.shares.filter(({ who }) => who !== 2)
  harness.vault.add('new')
  await harness.later()
  const reported = (await harness.records()).slice(2)
  expect(reported.map(({ type, name }) => `${type} ${name}`).sort()).toEqual([
    'vault:knowledge_base_set project 0000',
    'vault:project_created new',
    'vault:project_updated project 0000',
    'vault:user_share_added project 0000',
    'vault:user_share_changed project 0001',
    'vault:user_share_removed project 0001',
    'vault:workspace_share_added project 0000',
  ])
  const of = (type: string) => reported.find((record) => record.type === `vault:${type}`)
  expect(of('project_updated')?.changes).toEqual([
    'updated_at',
    'project_updated_at',
    'files_count',
    'size_bytes',
  ])
  for (const type of ['project_updated', 'project_created', 'user_share_added'])
    expect(of(type)?.timestamp).toBe(`${at}Z`)
  expect(of('user_share_changed')).toMatchObject({
    permission_level: 'EDIT',
    previous_permission_level: 'VIEW',
    dest_user_email: 'user-1@acme.test',
    dest_workspace_id: 1,
  })
  expect(of('user_share_removed')).toMatchObject({
    previous_permission_level: 'VIEW',
    dest_user_email: 'user-2@acme.test',
  })
  expect(of('user_share_removed')?.permission_level).toBeUndefined()
  expect(of('workspace_share_added')).toMatchObject({ dest_workspace_id: 5, shared_with: 'workspace' })
})

it('a flag that is cleared is reported, and one that never existed is no change', async () => {
  const harness = await withProjects(2)
  const [project] = harness.projects as [FakeProject]
  project.flag = true
  await harness.pass()
  project.flag = false
  harness.vault.written = (each) => harness.vault.text(each).replace(',"is_knowledge_base_project":false', '')
  await harness.later(2)
  expect((await harness.types()).slice(2)).toEqual(['knowledge_base_cleared'])
})

it('shares in another order are the same shares', async () => {
  const harness = await withProjects(1)
  const [project] = harness.projects as [FakeProject]
  for (const who of [1, 2, 3]) harness.vault.share(project, who)
  harness.vault.manner.shuffled = true
  await harness.pass()
  await harness.later(3)
  expect(await harness.types()).toEqual(['project_listed'])
})

it('an undocumented member is reported by its name when it changes', async () => {
  const harness = await withProjects(1)
  harness.vault.written = (each) => harness.vault.text(each).replace('}', ',"colour":"red"}')
  let colour = 'red'
  harness.vault.written = (each) => harness.vault.text(each).replace('{', `{"colour":"${colour}",`)
  await harness.pass()
  colour = 'blue'
  await harness.later()
  expect((await harness.records())[1]?.changes).toEqual(['colour'])
})

it('something in sharing that no share shows is an update of it', async () => {
  const harness = await withProjects(1)
  await harness.pass()
  harness.vault.written = (each) => harness.vault.text(each).replace('"user_count":0', '"user_count":4')
  await harness.later(2)
  const [, update, ...more] = await harness.records()
  expect([update?.type, update?.changes, more]).toEqual(['vault:project_updated', ['sharing'], []])
})

it('a project that is gone is reported when two passes agree, the second a minute later', async () => {
  const harness = await withProjects(5)
  await harness.pass()
  harness.vault.projects.delete(idOf(3))
  await harness.later()
  expect(await harness.types()).toHaveLength(5)
  const { dueAt } = harness.source.plan(harness.cursor)
  expect(dueAt - harness.clock.now()).toBe(MINUTE)
  await harness.pass()
  const [gone, ...more] = (await harness.records()).slice(5)
  expect([gone?.type, gone?.project_id, gone?.name, gone?.project, more]).toEqual([
    'vault:project_deleted',
    idOf(3),
    'project 0002',
    undefined,
    [],
  ])
  expect(harness.source.plan(harness.cursor).dueAt - harness.clock.now()).toBe(6 * HOUR)
})

it('a project that was missing once and came back is not reported', async () => {
  const harness = await withProjects(5)
  await harness.pass()
  const [, , hidden] = harness.projects as [FakeProject, FakeProject, FakeProject]
  harness.vault.projects.delete(hidden.id)
  await harness.later()
  harness.vault.projects.set(hidden.id, hidden)
  await harness.pass()
  await harness.later(2)
  expect(await harness.types()).toHaveLength(5)
})

it('a project that comes back after it was reported as deleted is listed again', async () => {
  const harness = await withProjects(3)
  await harness.pass()
  const [back] = harness.projects as [FakeProject]
  harness.vault.projects.delete(back.id)
  await harness.later(2)
  harness.vault.projects.set(back.id, back)
  await harness.later()
  expect((await harness.types()).slice(3)).toEqual(['project_deleted', 'project_listed'])
})

it('a list that is empty after a full one is believed when the next regular pass finds it empty too', async () => {
  const harness = await withProjects(4)
  await harness.pass()
  harness.vault.projects.clear()
  await harness.later()
  expect(harness.source.plan(harness.cursor).dueAt - harness.clock.now()).toBe(6 * HOUR)
  expect(await harness.types()).toHaveLength(4)
  await harness.later()
  expect((await harness.types()).slice(4)).toEqual(Array.from({ length: 4 }, () => 'project_deleted'))
})

it('an empty workspace is an empty inventory', async () => {
  const harness = await openVaultHarness()
  await harness.pass()
  expect([await harness.types(), harness.vault.requests.length]).toEqual([[], 1])
})

it.each(['empty', 'not_found', 'last_page_again'] as const)(
  'a list ends whatever is behind its last page: %s',
  async (beyond) => {
    const harness = await withProjects(7)
    Object.assign(harness.vault.manner, { cap: 3, beyond })
    await harness.pass()
    await harness.later()
    expect(await harness.types()).toHaveLength(7)
    expect(harness.vault.requests.length).toBeLessThanOrEqual(2 * 5)
  },
)

it('a page that is not found in the middle of the list is an error, not its end', async () => {
  const harness = await withProjects(9)
  harness.vault.manner.cap = 3
  harness.vault.instead = (page) => (page === 2 ? { status: 404 } : undefined)
  await harness.step()
  expect(await harness.step()).toMatchObject({ code: 'not_found' })
})

it('a project that deletions hide from two passes in a row, with plausible totals, is not reported as deleted', async () => {
  const harness = await withProjects(9)
  harness.vault.manner.cap = 3
  await harness.pass()
  // Backwards: the sixth moves onto the first page when that was read.
  harness.clock.advance(harness.clock.now() + 6 * HOUR)
  await harness.step()
  harness.vault.projects.delete(idOf(9))
  const first = harness.vault.add('a')
  await harness.pass()
  expect(openedCursor(harness).last).toMatchObject({ seen: 9, total: 9 })
  // Forwards: it moves onto the second one.
  await harness.step()
  await harness.step()
  harness.vault.projects.delete(first.id)
  harness.vault.add('z')
  await harness.pass()
  expect(await harness.types()).not.toContain('project_deleted')
  await harness.later(3)
  const records = await harness.records()
  const gone = records
    .filter(({ type }) => type === 'vault:project_deleted')
    .map((record) => record.project_id)
  expect(gone.sort()).toEqual([idOf(9), first.id].sort())
  expect(sorted(foldRecords(records))).toEqual(sorted(foldedTruth(harness.vault)))
})

it('a process that stops between any two changes of a project continues with the rest', async () => {
  const harness = await withProjects(1)
  const [project] = harness.projects as [FakeProject]
  for (const who of [1, 2]) harness.vault.share(project, who)
  await harness.pass()
  harness.vault.touch(project)
  project.flag = true
  harness.vault.share(project, 2, 'EDIT')
  for (const who of [3, 4]) harness.vault.share(project, who, 'VIEW', 'workspace')
  project.shares = project.shares.filter(({ who }) => who !== 1)
  const raw = Buffer.from(harness.vault.text(project))
  const reported = (stopAfter: number) => {
    const types: string[] = []
    let { cursor } = harness
    for (const most of [stopAfter, Infinity]) {
      const opened = openVaultCursor(cursor, 0, 'acme')
      for (const { type } of new Comparison(opened).changes({ id: project.id, raw }, () => true)) {
        if (types.push(type) >= most) break
      }
      cursor = closeVaultCursor(opened)
    }
    return types.sort()
  }
  const all = reported(Infinity)
  expect(all).toHaveLength(6)
  for (let stopAfter = 1; stopAfter < 6; stopAfter++) expect(reported(stopAfter)).toEqual(all)
})

it('a total above what is shown delays deletions with a report; one that makes no sense does not', async () => {
  const harness = await withProjects(5)
  harness.vault.manner.total = 'too_high'
  await harness.pass()
  harness.vault.projects.delete(idOf(2))
  await harness.later(4)
  expect(await harness.types()).toHaveLength(5)
  expect(harness.log.lines.some((line) => JSON.stringify(line).includes('fewer than its own total'))).toBe(
    true,
  )
  harness.vault.manner.total = 'of_page'
  harness.vault.manner.cap = 2
  await harness.later(2)
  expect((await harness.types()).slice(5)).toEqual(['project_deleted'])
})

it('without a pagination block two passes that saw the same are proof enough', async () => {
  const harness = await withProjects(5)
  harness.vault.manner.total = 'none'
  await harness.pass()
  harness.vault.projects.delete(idOf(2))
  await harness.later(2)
  expect((await harness.types()).slice(5)).toEqual(['project_deleted'])
})

it('a project that the first pass missed is listed later, not created', async () => {
  const harness = await withProjects(6)
  harness.vault.manner.cap = 3
  await harness.step()
  harness.vault.projects.delete(idOf(1))
  await harness.pass()
  expect(await harness.types()).toHaveLength(5)
  await harness.later()
  const [late] = (await harness.records()).slice(5)
  expect([late?.type, late?.project_id]).toEqual(['vault:project_listed', idOf(4)])
})

it('a restart in the middle of a pass continues it', async () => {
  const harness = await withProjects(9)
  harness.vault.manner.cap = 3
  await harness.step()
  await harness.step()
  await harness.restart()
  await harness.pass()
  expect(harness.vault.requests.map((query) => /page=(\d)/.exec(query)?.[1])).toEqual(['1', '2', '3', '4'])
  expect(await harness.types()).toHaveLength(9)
})

it('a pass that was interrupted for long restarts', async () => {
  const harness = await withProjects(9)
  harness.vault.manner.cap = 3
  await harness.step()
  harness.clock.advance(harness.clock.now() + 2 * HOUR)
  await harness.restart()
  await harness.pass()
  expect(harness.vault.requests.map((query) => /page=(\d)/.exec(query)?.[1])).toEqual([
    '1',
    '1',
    '2',
    '3',
    '4',
  ])
  expect(await harness.types()).toHaveLength(9)
})

it('a complete pass is known before its last chunk lands: the chunk records when', async () => {
  const caughtUps: number[] = []
  const noting = (journal: Journal): Journal =>
    withMethods(journal, {
      append: (part) => {
        caughtUps.push(harness.reporter.caughtUps)
        return journal.append(part)
      },
    })
  const harness: VaultHarness = await openVaultHarness({ journal: noting })
  for (const name of ['a', 'b', 'c']) harness.vault.add(name)
  harness.vault.manner.cap = 2
  await harness.pass()
  expect(caughtUps.length).toBeGreaterThan(0)
  expect(caughtUps.at(-1)).toBe(1)
  expect(caughtUps.slice(0, -1).every((count) => count === 0)).toBe(true)
})

it('an append that fails leaves nothing reported and nothing known', async () => {
  let fails = 0
  const failing = (journal: Journal): Journal =>
    withMethods(journal, {
      append: async (part) => {
        if (fails-- > 0) throw new ConnectorError('disk_full', 'no room, as the test wants it')
        return journal.append(part)
      },
    })
  const harness = await withProjects(9, { journal: failing })
  harness.vault.manner.cap = 3
  await harness.step()
  fails = 2
  expect(await harness.step()).toMatchObject({ code: 'disk_full' })
  expect(await harness.step()).toMatchObject({ code: 'disk_full' })
  await harness.pass()
  expect(await harness.types()).toHaveLength(9)
  expect(sorted(foldRecords(await harness.records()))).toEqual(sorted(foldedTruth(harness.vault)))
})

it('a key without the permission blocks, and the permission is named', async () => {
  const harness = await withProjects(1)
  harness.vault.instead = () => ({ status: 403 })
  const error = await harness.step()
  expect(error).toMatchObject({ code: 'forbidden', action: 'block' })
  expect(error?.message).toContain("'View workspace projects'")
  expect(error?.message).not.toContain('sort_by')
  harness.vault.instead = () => ({ status: 401 })
  expect(await harness.step()).toMatchObject({ code: 'unauthorized', action: 'block' })
})

it.each([
  ['no JSON', '{"response":{"content":{"projects":[{"id":"a"}'],
  ['another shape', '{"response":{"projects":[]}}'],
  ['no list', '{"response":{"content":{"projects":{}}}}'],
])('an answer that is %s is an error, and the pass continues where it was', async (_, text) => {
  const harness = await withProjects(6)
  harness.vault.manner.cap = 3
  await harness.step()
  harness.vault.instead = () => ({ text })
  expect(await harness.step()).toMatchObject({ code: 'bad_reply' })
  harness.vault.instead = () => undefined
  await harness.pass()
  expect(await harness.types()).toHaveLength(6)
})

it('an element without an id is quarantined with its bytes, and as long as there is one nothing is reported as deleted', async () => {
  const harness = await withProjects(3)
  harness.vault.strays = ['{"name":"nobody"}']
  await harness.pass('forgiven')
  const [kept] = await harness.journal.quarantined({})
  expect(kept?.reason).toBe('no_id')
  expect(Buffer.from((await harness.journal.quarantinedRaw(kept?.id ?? 0)) ?? []).toString()).toBe(
    '{"name":"nobody"}',
  )
  harness.vault.projects.delete(idOf(2))
  await harness.later(3)
  expect(await harness.types()).toHaveLength(3)
  harness.vault.strays = []
  await harness.later(2)
  expect((await harness.types()).slice(3)).toEqual(['project_deleted'])
})

it('a project that cannot be read but has its id is quarantined, and still there', async () => {
  const harness = await withProjects(3, { source: { maxDepth: 6 } })
  await harness.pass()
  harness.vault.written = (each) =>
    each.id === idOf(2)
      ? harness.vault.text(each).replace('{', '{"deep":[[[[[[[[1]]]]]]]],')
      : harness.vault.text(each)
  await harness.later(3)
  expect(await harness.types()).toHaveLength(3)
  expect((await harness.journal.quarantined({})).map(({ reason }) => reason)).toEqual(['too_deep'])
})

it('a project without a valid created_at is still one, on one line', async () => {
  const harness = await withProjects(1)
  harness.vault.written = (each) =>
    harness.vault.text(each).replace(/"created_at":"[^"]*"/, '"created_at":\n7')
  await harness.pass()
  const [raw = ''] = await harness.raws()
  expect(raw).toContain('"created_at":7')
  expect(raw).not.toContain('\n')
})

it('a page over the memory limit is requested in smaller pieces, down to one project, which is then quarantined', async () => {
  const harness = await withProjects(6)
  harness.vault.written = (each) =>
    each.id === idOf(3)
      ? harness.vault.text(each).replace(/}$/, `,"text":"${'x'.repeat(5 * 2 ** 20)}"}`)
      : harness.vault.text(each)
  await harness.pass()
  expect([...new Set(harness.vault.requests.map((query) => /per_page=(\d+)/.exec(query)?.[1]))]).toEqual([
    '100',
    '25',
    '5',
    '1',
  ])
  expect(await harness.types()).toHaveLength(5)
  const [kept] = await harness.journal.quarantined({})
  expect([kept?.reason, kept?.keptBytes]).toEqual(['too_large', 2 ** 20])
  await harness.later(2)
  expect(await harness.types()).toHaveLength(5)
})

const sizesOf = (harness: VaultHarness) =>
  harness.vault.requests.map((query) => Number(new URLSearchParams(query).get('per_page')))

/** A pass to its end, however many of its requests fail. */
async function passOver(harness: VaultHarness): Promise<void> {
  const before = harness.reporter.caughtUps
  for (let i = 0; i < 500 && harness.reporter.caughtUps === before; i++) await harness.step()
  expect(harness.reporter.caughtUps).toBe(before + 1)
}

/** Pages of more than `most` fail. */
function failOver(harness: VaultHarness, most: number, how: { status?: number; code?: ErrorCode }): void {
  harness.vault.instead = (_page, { url }) => {
    if (Number(new URL(url).searchParams.get('per_page')) <= most) return undefined
    if (how.code) throw new ConnectorError(how.code, 'as scripted')
    return { status: how.status ?? 500 }
  }
}

it.each([{ status: 504 }, { status: 413 }, { code: 'timeout' as const }])(
  'a page that fails twice is requested in smaller pieces: it may be too much for something in between (%o)',
  async (how) => {
    const harness = await withProjects(60)
    failOver(harness, 5, how)
    await passOver(harness)
    expect(await harness.types()).toHaveLength(60)
    expect(sizesOf(harness).slice(0, 10)).toEqual([100, 100, 25, 25, 5, 100, 100, 25, 25, 5])
    expect(sizesOf(harness)).toHaveLength(9 + 13)
  },
)

it('an outage of the vault leaves the page size unchanged', async () => {
  const harness = await withProjects(250)
  failOver(harness, 0, { status: 503 })
  for (let i = 0; i < 7; i++) await harness.step()
  expect(sizesOf(harness)).toEqual([100, 100, 25, 25, 5, 5, 1])
  failOver(harness, 100, {})
  harness.vault.requests.length = 0
  await passOver(harness)
  expect(sizesOf(harness)).toEqual([1, 100, 100, 100, 100])
  expect(await harness.types()).toHaveLength(250)
})

it('one project that never comes is requested alone, and the list is not read again and again for it', async () => {
  const harness = await withProjects(60)
  harness.vault.instead = (page, { url }) => {
    const size = Number(/per_page=(\d+)/.exec(url)?.[1])
    return (page - 1) * size < 30 && page * size >= 30 ? { status: 500 } : undefined
  }
  for (let i = 0; i < 200; i++) await harness.step()
  expect(new Set(sizesOf(harness).slice(-50))).toEqual(new Set([1]))
})

it('a request that fails at every size is repeated at the largest, and an unreachable host says nothing of a size', async () => {
  const harness = await withProjects(3)
  failOver(harness, 0, { status: 500 })
  for (let i = 0; i < 9; i++) await harness.step()
  expect(sizesOf(harness).at(-1)).toBe(100)
  failOver(harness, 0, { code: 'unreachable' })
  for (let i = 0; i < 5; i++) await harness.step()
  expect(sizesOf(harness).slice(-5)).toEqual([100, 100, 100, 100, 100])
})

it('a page in the middle that is too much costs its pass one restart, and then it is read', async () => {
  const harness = await withProjects(250)
  harness.vault.instead = (page, { url }) =>
    page === 2 && url.includes('per_page=100') ? { status: 504 } : undefined
  await passOver(harness)
  expect(await harness.types()).toHaveLength(250)
  expect(sizesOf(harness).slice(0, 8)).toEqual([100, 100, 100, 25, 100, 100, 100, 25])
  expect(new Set(sizesOf(harness).slice(8))).toEqual(new Set([25]))
})

it('many shares at once are reported in several chunks, and copies of the project do not pile up', async () => {
  const harness = await withProjects(1)
  const [project] = harness.projects as [FakeProject]
  await harness.pass()
  for (let who = 1; who <= 2500; who++)
    project.shares.push({ kind: 'user', who, level: 'VIEW', since: harness.vault.stamp() })
  await harness.later()
  const raws = (await harness.raws()).slice(1)
  expect(raws).toHaveLength(2500)
  expect(raws.filter((raw) => raw.includes('"project":{')).length).toBeLessThan(5)
  expect(sorted(foldRecords(await harness.records()))).toEqual(sorted(foldedTruth(harness.vault)))
})

it('an id that is twice in a pass with two contents is compared once a pass, by the copy that comes first', async () => {
  const harness = await withProjects(1)
  const [project] = harness.projects as [FakeProject]
  harness.vault.strays = [harness.vault.text({ ...project, files: 7 })]
  await harness.pass()
  await harness.later(3)
  expect(await harness.types()).toEqual(['project_listed'])
})

it('a separate level for each share blocks the source, and only its page is requested again', async () => {
  const harness = await withProjects(300)
  for (const [n, project] of harness.projects.entries())
    for (let who = 0; who < 5; who++) harness.vault.share(project, who, `level ${n} ${who}`)
  const errors: Error[] = []
  while (errors.length < 4) errors.push(...[await harness.step()].filter((error) => error !== undefined))
  expect(errors.at(-1)).toMatchObject({ code: 'misconfigured', action: 'block' })
  expect(errors.at(-1)?.message).toContain('more than 1000 different permission levels')
  expect(harness.vault.requests.slice(-2).map((query) => /^page=(\d+)/.exec(query)?.[1])).toEqual(['3', '3'])
  expect(openedCursor(harness).levels).toHaveLength(1000)
})

it('more than the inventory can keep blocks the source, and says what to do; with a key that sees less it resumes', async () => {
  const harness = await withProjects(300)
  for (const project of harness.projects) project.name += '語'.repeat(240)
  const { cursor } = harness
  const opened = openVaultCursor(cursor, 0, 'acme')
  for (let n = 0; n < 4800; n++) {
    const raw = Buffer.from(JSON.stringify({ id: `old ${n}`, name: '語'.repeat(256) }))
    expect([...new Comparison(opened).changes({ id: `old ${n}`, raw }, () => false)]).toHaveLength(1)
  }
  harness.cursor = closeVaultCursor(opened)
  const errors: Error[] = []
  while (errors.length < 4) errors.push(...[await harness.step()].filter((error) => error !== undefined))
  const [error] = errors
  expect(harness.vault.requests.at(-1)).not.toContain('page=1&')
  expect(harness.vault.requests.at(-1)).toBe(harness.vault.requests.at(-2))
  expect(error).toMatchObject({ code: 'misconfigured', action: 'block' })
  expect(error?.message).toMatch(/workspace acme exceeds 4 MiB at \d+ projects.*use a key that sees fewer/)
  for (const project of harness.projects.slice(10)) harness.vault.projects.delete(project.id)
  await harness.pass()
  await harness.later(2)
  expect(openedCursor(harness).projects.size).toBe(10)
})

it('a page over the element limit, projects or not, blocks the source, and nothing of it is reported', async () => {
  const harness = await withProjects(2)
  for (const stray of ['1', '{"id":"a"}']) {
    harness.vault.strays = Array.from({ length: 30_001 }, () => stray)
    const error = await harness.step()
    expect(error).toMatchObject({ code: 'misconfigured', action: 'block' })
    expect(error?.message).toContain('more than 30000 elements')
  }
  expect(await harness.types()).toEqual([])
  harness.vault.strays = []
  await harness.pass()
  expect(await harness.types()).toEqual(['project_listed', 'project_listed'])
})

it('a page of much work yields to others, and ends when it is aborted', async () => {
  const stop = new AbortController()
  let [worked, turns, last] = [0, 0, Infinity]
  const clock: Clock = {
    now: () => START,
    elapsed: () => (worked += 20),
    sleep: async () => {
      if (++turns === last) stop.abort()
    },
  }
  const harness = await withProjects(50, { source: { clock } })
  const read = async () => {
    for await (const part of harness.source.read(undefined, stop.signal)) expect(part.entries.count).toBe(50)
  }
  await driven(harness.clock, read())
  expect(turns).toBeGreaterThanOrEqual(100)
  last = turns + 10
  await expect(driven(harness.clock, read())).rejects.toMatchObject({ code: 'aborted' })
  expect(turns).toBe(last)
})

it('a long id is kept and reported as its beginning and its hash, and recognized', async () => {
  const harness = await openVaultHarness()
  const id = `${'x'.repeat(900)}1`
  const kept = storedId(id)
  const project = harness.vault.add('one', { id })
  harness.vault.add('other', { id: `${'x'.repeat(900)}2` })
  harness.vault.share(project, 1)
  await harness.pass()
  await harness.restart()
  harness.vault.touch(project)
  harness.vault.share(project, 2)
  await harness.later()
  harness.vault.projects.delete(id)
  await harness.later(2)
  const reported = (await harness.records()).filter((record) => record.project_id === kept)
  expect(reported.map(({ type }) => type.replace('vault:', ''))).toEqual([
    'project_listed',
    'project_updated',
    'user_share_added',
    'project_deleted',
  ])
  expect(reported[2]).not.toHaveProperty('vault_folder_id')
  expect(kept).toHaveLength(64)
  expect(storedId(kept)).toBe(kept)
  expect(harness.cursor).not.toContain('x'.repeat(65))
})

it('a cursor that was written with long ids is read with the short ones', async () => {
  const harness = await withProjects(1)
  await harness.pass()
  const long = 'y'.repeat(100)
  const opened = openVaultCursor((harness.cursor ?? '').replace(idOf(1), long), 0, 'acme')
  expect([...opened.projects.keys()]).toEqual([storedId(long)])
  expect(opened.projects.get(storedId(long))?.id).toBe(storedId(long))
})

it.each([
  [10, 6, true],
  [10, 5, false],
  [40, 10, false],
])('of %d projects %d that are gone at once are reported with a warning: %s', async (count, gone, warned) => {
  const harness = await withProjects(count)
  await harness.pass()
  for (const { id } of harness.projects.slice(0, gone)) harness.vault.projects.delete(id)
  await harness.later(2)
  expect((await harness.types()).filter((type) => type === 'project_deleted')).toHaveLength(gone)
  const lines = harness.log.lines.filter((line) => line.includes('no longer listed for this key'))
  expect(lines).toHaveLength(warned ? 1 : 0)
  if (warned) expect(lines[0]).toContain(`{"gone":${gone},"of":${count}}`)
})

it('in a single run one pass is enough, and two if a project is missing', async () => {
  const harness = await withProjects(4, { source: { once: true } })
  await harness.pass()
  expect(harness.source.plan(harness.cursor).caughtUp).toBe(true)
  harness.vault.projects.delete(idOf(4))
  await harness.restart()
  expect(harness.source.plan(harness.cursor).caughtUp).toBe(false)
  await harness.pass()
  expect(harness.source.plan(harness.cursor).caughtUp).toBe(false)
  await harness.pass()
  expect(harness.source.plan(harness.cursor).caughtUp).toBe(true)
  expect((await harness.types()).slice(4)).toEqual(['project_deleted'])
})

it('the list is requested by name, each pass from the other end, under the rate limit', async () => {
  const harness = await withProjects(30, { limit: 10 })
  harness.vault.manner.cap = 2
  const from = harness.clock.now()
  await harness.pass()
  expect(harness.vault.requests).toHaveLength(16)
  expect(harness.clock.now() - from).toBeGreaterThanOrEqual(MINUTE)
  await harness.later()
  expect(harness.vault.requests[0]).toBe('page=1&per_page=100&sort_by=name&sort_order=asc')
  expect(harness.vault.requests[16]).toBe('page=1&per_page=100&sort_by=name&sort_order=desc')
})

/** Passes over 15,000 shares: all work, which took 21 s beside a load of 15. */
const MANY_SHARES = { timeout: 90_000 }

it(
  'a project with ten shares takes less than 300 bytes of the cursor, which is written less often the larger it is',
  MANY_SHARES,
  async () => {
    const harness = await withProjects(1500)
    for (const [i, project] of harness.projects.entries())
      for (let who = 0; who < 10; who++)
        project.shares.push({ kind: 'user', who: (i + who * 37) % 500, level: 'VIEW', since: project.made })
    await harness.pass()
    const bytes = harness.cursor?.length ?? 0
    expect(bytes).toBeLessThan(1500 * 300)
    expect(openedCursor(harness).projects.size).toBe(1500)
    harness.clock.advance(harness.clock.now() + 6 * HOUR)
    const writes = await writesOf(harness)
    expect(writes).toBe(Math.floor(15 / Math.ceil(bytes / 2 ** 17)) + 1)
  },
)

it(
  'a failed request costs no page that was read before it and is in no cursor yet',
  MANY_SHARES,
  async () => {
    const harness = await withProjects(1500)
    for (const [i, project] of harness.projects.entries())
      for (let who = 0; who < 10; who++)
        project.shares.push({ kind: 'user', who: (i + who * 37) % 500, level: 'VIEW', since: project.made })
    await harness.pass()
    harness.clock.advance(harness.clock.now() + 6 * HOUR)
    const { cursor } = harness
    await harness.step()
    await harness.step()
    expect(harness.cursor).toBe(cursor)
    harness.vault.elsewhere = async () => {
      throw new ConnectorError('unreachable', 'nobody there')
    }
    expect(await harness.step()).toMatchObject({ code: 'unreachable' })
    harness.vault.elsewhere = undefined
    const before = harness.vault.requests.length
    await harness.step()
    expect(
      harness.vault.requests.slice(before).map((query) => new URLSearchParams(query).get('page')),
    ).toEqual(['3'])
  },
)

/** How often the next pass writes the cursor. */
async function writesOf(harness: VaultHarness): Promise<number> {
  let writes = 0
  for (const before = harness.reporter.caughtUps; harness.reporter.caughtUps === before;) {
    const { cursor } = harness
    await harness.step()
    if (cursor !== harness.cursor) writes++
  }
  return writes
}

it.each([
  ['{"v":99,"secret":1}', 'is of version 99'],
  ['{"v":1}', 'is damaged'],
  ['{"v":1,"secret":', 'is damaged'],
])(
  'a cursor of another version, or damaged, stops the process and is not quoted: %s',
  async (text, state) => {
    const harness = await withProjects(1)
    harness.cursor = text
    const opening = () => harness.source.plan(harness.cursor)
    expect(opening).toThrow(expect.objectContaining({ code: 'journal_corrupt', action: 'exit' }) as Error)
    expect(opening).toThrow(`cursor for vault.projects of workspace acme ${state}`)
    expect(opening).not.toThrow('secret')
  },
)
