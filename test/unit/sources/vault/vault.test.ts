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
import { driven, HOUR, MINUTE, START } from '../../app/desk.ts'
import { foldedTruth, foldRecords, idOf, openedCursor, openVaultDesk, sorted, withProjects } from './desk.ts'
import type { FakeProject, VaultDesk } from './desk.ts'

it('the first pass delivers one record per project, whatever it is shared with, and its bytes inside untouched', async () => {
  const desk = await withProjects(2)
  const [first, second] = desk.projects as [FakeProject, FakeProject]
  desk.vault.share(first, 1)
  desk.vault.share(first, 7, 'EDIT', 'workspace')
  second.name = 'Übung 12345678901234567890'
  desk.vault.written = (project) =>
    desk.vault.text(project).replace('"size_bytes":0', '"size_bytes": 1e400, "x": 12345678901234567890.10')
  await desk.pass()
  expect(await desk.types()).toEqual(['project_listed', 'project_listed'])
  const raws = await desk.raws()
  for (const project of [first, second])
    expect(raws.filter((raw) => raw.endsWith(`,"project":${desk.vault.written(project)}}`))).toHaveLength(1)
})

it('an unchanged project is reported once, and a pass without news writes no record', async () => {
  const desk = await withProjects(3)
  await desk.pass()
  await desk.later(3)
  expect(await desk.types()).toHaveLength(3)
})

it('each change is reported by its kind, at the time that the API gives', async () => {
  const desk = await withProjects(2)
  const [project, other] = desk.projects as [FakeProject, FakeProject]
  desk.vault.share(other, 1)
  desk.vault.share(other, 2)
  await desk.pass()
  desk.clock.advance(desk.clock.now() + HOUR)
  const at = desk.vault.stamp()
  desk.vault.touch(project)
  project.flag = true
  desk.vault.share(project, 9, 'VIEW')
  desk.vault.share(project, 5, 'EDIT', 'workspace')
  desk.vault.share(other, 1, 'EDIT')
  other.shares = other.shares.filter(({ who }) => who !== 2)
  desk.vault.add('new')
  await desk.later()
  const told = (await desk.records()).slice(2)
  expect(told.map(({ type, name }) => `${type} ${name}`).sort()).toEqual([
    'vault:knowledge_base_set project 0000',
    'vault:project_created new',
    'vault:project_updated project 0000',
    'vault:user_share_added project 0000',
    'vault:user_share_changed project 0001',
    'vault:user_share_removed project 0001',
    'vault:workspace_share_added project 0000',
  ])
  const of = (type: string) => told.find((record) => record.type === `vault:${type}`)
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
  const desk = await withProjects(2)
  const [project] = desk.projects as [FakeProject]
  project.flag = true
  await desk.pass()
  project.flag = false
  desk.vault.written = (each) => desk.vault.text(each).replace(',"is_knowledge_base_project":false', '')
  await desk.later(2)
  expect((await desk.types()).slice(2)).toEqual(['knowledge_base_cleared'])
})

it('shares in another order are the same shares', async () => {
  const desk = await withProjects(1)
  const [project] = desk.projects as [FakeProject]
  for (const who of [1, 2, 3]) desk.vault.share(project, who)
  desk.vault.manner.shuffled = true
  await desk.pass()
  await desk.later(3)
  expect(await desk.types()).toEqual(['project_listed'])
})

it('an undocumented member is reported by its name when it changes', async () => {
  const desk = await withProjects(1)
  desk.vault.written = (each) => desk.vault.text(each).replace('}', ',"colour":"red"}')
  let colour = 'red'
  desk.vault.written = (each) => desk.vault.text(each).replace('{', `{"colour":"${colour}",`)
  await desk.pass()
  colour = 'blue'
  await desk.later()
  expect((await desk.records())[1]?.changes).toEqual(['colour'])
})

it('something in sharing that no share shows is an update of it', async () => {
  const desk = await withProjects(1)
  await desk.pass()
  desk.vault.written = (each) => desk.vault.text(each).replace('"user_count":0', '"user_count":4')
  await desk.later(2)
  const [, update, ...more] = await desk.records()
  expect([update?.type, update?.changes, more]).toEqual(['vault:project_updated', ['sharing'], []])
})

it('a project that is gone is reported when two passes agree, the second a minute later', async () => {
  const desk = await withProjects(5)
  await desk.pass()
  desk.vault.projects.delete(idOf(3))
  await desk.later()
  expect(await desk.types()).toHaveLength(5)
  const { dueAt } = desk.source.plan(desk.cursor)
  expect(dueAt - desk.clock.now()).toBe(MINUTE)
  await desk.pass()
  const [gone, ...more] = (await desk.records()).slice(5)
  expect([gone?.type, gone?.project_id, gone?.name, gone?.project, more]).toEqual([
    'vault:project_deleted',
    idOf(3),
    'project 0002',
    undefined,
    [],
  ])
  expect(desk.source.plan(desk.cursor).dueAt - desk.clock.now()).toBe(6 * HOUR)
})

it('a project that was missing once and came back is not reported', async () => {
  const desk = await withProjects(5)
  await desk.pass()
  const [, , hidden] = desk.projects as [FakeProject, FakeProject, FakeProject]
  desk.vault.projects.delete(hidden.id)
  await desk.later()
  desk.vault.projects.set(hidden.id, hidden)
  await desk.pass()
  await desk.later(2)
  expect(await desk.types()).toHaveLength(5)
})

it('a project that comes back after it was reported as deleted is listed again', async () => {
  const desk = await withProjects(3)
  await desk.pass()
  const [back] = desk.projects as [FakeProject]
  desk.vault.projects.delete(back.id)
  await desk.later(2)
  desk.vault.projects.set(back.id, back)
  await desk.later()
  expect((await desk.types()).slice(3)).toEqual(['project_deleted', 'project_listed'])
})

it('a list that is empty after a full one is believed when the next regular pass finds it empty too', async () => {
  const desk = await withProjects(4)
  await desk.pass()
  desk.vault.projects.clear()
  await desk.later()
  expect(desk.source.plan(desk.cursor).dueAt - desk.clock.now()).toBe(6 * HOUR)
  expect(await desk.types()).toHaveLength(4)
  await desk.later()
  expect((await desk.types()).slice(4)).toEqual(Array.from({ length: 4 }, () => 'project_deleted'))
})

it('an empty workspace is an empty inventory', async () => {
  const desk = await openVaultDesk()
  await desk.pass()
  expect([await desk.types(), desk.vault.requests.length]).toEqual([[], 1])
})

it.each(['empty', 'not_found', 'last_page_again'] as const)(
  'a list ends whatever is behind its last page: %s',
  async (beyond) => {
    const desk = await withProjects(7)
    Object.assign(desk.vault.manner, { cap: 3, beyond })
    await desk.pass()
    await desk.later()
    expect(await desk.types()).toHaveLength(7)
    expect(desk.vault.requests.length).toBeLessThanOrEqual(2 * 5)
  },
)

it('a page that is not found in the middle of the list is an error, not its end', async () => {
  const desk = await withProjects(9)
  desk.vault.manner.cap = 3
  desk.vault.instead = (page) => (page === 2 ? { status: 404 } : undefined)
  await desk.step()
  expect(await desk.step()).toMatchObject({ code: 'not_found' })
})

it('a project that deletions hide from two passes in a row, with plausible totals, is not reported as deleted', async () => {
  const desk = await withProjects(9)
  desk.vault.manner.cap = 3
  await desk.pass()
  // Backwards: the sixth moves onto the first page when that was read.
  desk.clock.advance(desk.clock.now() + 6 * HOUR)
  await desk.step()
  desk.vault.projects.delete(idOf(9))
  const first = desk.vault.add('a')
  await desk.pass()
  expect(openedCursor(desk).last).toMatchObject({ seen: 9, total: 9 })
  // Forwards: it moves onto the second one.
  await desk.step()
  await desk.step()
  desk.vault.projects.delete(first.id)
  desk.vault.add('z')
  await desk.pass()
  expect(await desk.types()).not.toContain('project_deleted')
  await desk.later(3)
  const records = await desk.records()
  const gone = records
    .filter(({ type }) => type === 'vault:project_deleted')
    .map((record) => record.project_id)
  expect(gone.sort()).toEqual([idOf(9), first.id].sort())
  expect(sorted(foldRecords(records))).toEqual(sorted(foldedTruth(desk.vault)))
})

it('a process that stops between any two changes of a project continues with the rest', async () => {
  const desk = await withProjects(1)
  const [project] = desk.projects as [FakeProject]
  for (const who of [1, 2]) desk.vault.share(project, who)
  await desk.pass()
  desk.vault.touch(project)
  project.flag = true
  desk.vault.share(project, 2, 'EDIT')
  for (const who of [3, 4]) desk.vault.share(project, who, 'VIEW', 'workspace')
  project.shares = project.shares.filter(({ who }) => who !== 1)
  const raw = Buffer.from(desk.vault.text(project))
  const told = (stopAfter: number) => {
    const types: string[] = []
    let { cursor } = desk
    for (const most of [stopAfter, Infinity]) {
      const opened = openVaultCursor(cursor, 0, 'acme')
      for (const { type } of new Comparison(opened).changes({ id: project.id, raw }, () => true)) {
        if (types.push(type) >= most) break
      }
      cursor = closeVaultCursor(opened)
    }
    return types.sort()
  }
  const all = told(Infinity)
  expect(all).toHaveLength(6)
  for (let stopAfter = 1; stopAfter < 6; stopAfter++) expect(told(stopAfter)).toEqual(all)
})

it('a total above what is shown delays deletions with a report; one that makes no sense does not', async () => {
  const desk = await withProjects(5)
  desk.vault.manner.total = 'too_high'
  await desk.pass()
  desk.vault.projects.delete(idOf(2))
  await desk.later(4)
  expect(await desk.types()).toHaveLength(5)
  expect(desk.log.lines.some((line) => JSON.stringify(line).includes('fewer than its own total'))).toBe(true)
  desk.vault.manner.total = 'of_page'
  desk.vault.manner.cap = 2
  await desk.later(2)
  expect((await desk.types()).slice(5)).toEqual(['project_deleted'])
})

it('without a pagination block two passes that saw the same are proof enough', async () => {
  const desk = await withProjects(5)
  desk.vault.manner.total = 'none'
  await desk.pass()
  desk.vault.projects.delete(idOf(2))
  await desk.later(2)
  expect((await desk.types()).slice(5)).toEqual(['project_deleted'])
})

it('a project that the first pass missed is listed later, not created', async () => {
  const desk = await withProjects(6)
  desk.vault.manner.cap = 3
  await desk.step()
  desk.vault.projects.delete(idOf(1))
  await desk.pass()
  expect(await desk.types()).toHaveLength(5)
  await desk.later()
  const [late] = (await desk.records()).slice(5)
  expect([late?.type, late?.project_id]).toEqual(['vault:project_listed', idOf(4)])
})

it('a restart in the middle of a pass continues it', async () => {
  const desk = await withProjects(9)
  desk.vault.manner.cap = 3
  await desk.step()
  await desk.step()
  await desk.restart()
  await desk.pass()
  expect(desk.vault.requests.map((query) => /page=(\d)/.exec(query)?.[1])).toEqual(['1', '2', '3', '4'])
  expect(await desk.types()).toHaveLength(9)
})

it('a pass that was interrupted for long restarts', async () => {
  const desk = await withProjects(9)
  desk.vault.manner.cap = 3
  await desk.step()
  desk.clock.advance(desk.clock.now() + 2 * HOUR)
  await desk.restart()
  await desk.pass()
  expect(desk.vault.requests.map((query) => /page=(\d)/.exec(query)?.[1])).toEqual(['1', '1', '2', '3', '4'])
  expect(await desk.types()).toHaveLength(9)
})

it('a complete pass is known before its last chunk lands: the chunk records when', async () => {
  const caughtUps: number[] = []
  const noting = (journal: Journal): Journal =>
    withMethods(journal, {
      append: (part) => {
        caughtUps.push(desk.reporter.caughtUps)
        return journal.append(part)
      },
    })
  const desk: VaultDesk = await openVaultDesk({ journal: noting })
  for (const name of ['a', 'b', 'c']) desk.vault.add(name)
  desk.vault.manner.cap = 2
  await desk.pass()
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
  const desk = await withProjects(9, { journal: failing })
  desk.vault.manner.cap = 3
  await desk.step()
  fails = 2
  expect(await desk.step()).toMatchObject({ code: 'disk_full' })
  expect(await desk.step()).toMatchObject({ code: 'disk_full' })
  await desk.pass()
  expect(await desk.types()).toHaveLength(9)
  expect(sorted(foldRecords(await desk.records()))).toEqual(sorted(foldedTruth(desk.vault)))
})

it('a key without the permission blocks, and the permission is named', async () => {
  const desk = await withProjects(1)
  desk.vault.instead = () => ({ status: 403 })
  const error = await desk.step()
  expect(error).toMatchObject({ code: 'forbidden', action: 'block' })
  expect(error?.message).toContain("'View workspace projects'")
  expect(error?.message).not.toContain('sort_by')
  desk.vault.instead = () => ({ status: 401 })
  expect(await desk.step()).toMatchObject({ code: 'unauthorized', action: 'block' })
})

it.each([
  ['no JSON', '{"response":{"content":{"projects":[{"id":"a"}'],
  ['another shape', '{"response":{"projects":[]}}'],
  ['no list', '{"response":{"content":{"projects":{}}}}'],
])('an answer that is %s is an error, and the pass continues where it was', async (_, text) => {
  const desk = await withProjects(6)
  desk.vault.manner.cap = 3
  await desk.step()
  desk.vault.instead = () => ({ text })
  expect(await desk.step()).toMatchObject({ code: 'bad_reply' })
  desk.vault.instead = () => undefined
  await desk.pass()
  expect(await desk.types()).toHaveLength(6)
})

it('an element without an id is quarantined with its bytes, and as long as there is one nothing is reported as deleted', async () => {
  const desk = await withProjects(3)
  desk.vault.strays = ['{"name":"nobody"}']
  await desk.pass('forgiven')
  const [kept] = await desk.journal.quarantined({})
  expect(kept?.reason).toBe('no_id')
  expect(Buffer.from((await desk.journal.quarantinedRaw(kept?.id ?? 0)) ?? []).toString()).toBe(
    '{"name":"nobody"}',
  )
  desk.vault.projects.delete(idOf(2))
  await desk.later(3)
  expect(await desk.types()).toHaveLength(3)
  desk.vault.strays = []
  await desk.later(2)
  expect((await desk.types()).slice(3)).toEqual(['project_deleted'])
})

it('a project that cannot be read but has its id is quarantined, and still there', async () => {
  const desk = await withProjects(3, { source: { maxDepth: 6 } })
  await desk.pass()
  desk.vault.written = (each) =>
    each.id === idOf(2)
      ? desk.vault.text(each).replace('{', '{"deep":[[[[[[[[1]]]]]]]],')
      : desk.vault.text(each)
  await desk.later(3)
  expect(await desk.types()).toHaveLength(3)
  expect((await desk.journal.quarantined({})).map(({ reason }) => reason)).toEqual(['too_deep'])
})

it('a project without a valid created_at is still one, on one line', async () => {
  const desk = await withProjects(1)
  desk.vault.written = (each) => desk.vault.text(each).replace(/"created_at":"[^"]*"/, '"created_at":\n7')
  await desk.pass()
  const [raw = ''] = await desk.raws()
  expect(raw).toContain('"created_at":7')
  expect(raw).not.toContain('\n')
})

it('a page over the memory limit is requested in smaller pieces, down to one project, which is then quarantined', async () => {
  const desk = await withProjects(6)
  desk.vault.written = (each) =>
    each.id === idOf(3)
      ? desk.vault.text(each).replace(/}$/, `,"text":"${'x'.repeat(5 * 2 ** 20)}"}`)
      : desk.vault.text(each)
  await desk.pass()
  expect([...new Set(desk.vault.requests.map((query) => /per_page=(\d+)/.exec(query)?.[1]))]).toEqual([
    '100',
    '25',
    '5',
    '1',
  ])
  expect(await desk.types()).toHaveLength(5)
  const [kept] = await desk.journal.quarantined({})
  expect([kept?.reason, kept?.keptBytes]).toEqual(['too_large', 2 ** 20])
  await desk.later(2)
  expect(await desk.types()).toHaveLength(5)
})

const sizesOf = (desk: VaultDesk) =>
  desk.vault.requests.map((query) => Number(new URLSearchParams(query).get('per_page')))

/** A pass to its end, however many of its requests fail. */
async function passOver(desk: VaultDesk): Promise<void> {
  const before = desk.reporter.caughtUps
  for (let i = 0; i < 500 && desk.reporter.caughtUps === before; i++) await desk.step()
  expect(desk.reporter.caughtUps).toBe(before + 1)
}

/** Pages of more than `most` fail. */
function failOver(desk: VaultDesk, most: number, how: { status?: number; code?: ErrorCode }): void {
  desk.vault.instead = (_page, { url }) => {
    if (Number(new URL(url).searchParams.get('per_page')) <= most) return undefined
    if (how.code) throw new ConnectorError(how.code, 'as scripted')
    return { status: how.status ?? 500 }
  }
}

it.each([{ status: 504 }, { status: 413 }, { code: 'timeout' as const }])(
  'a page that fails twice is requested in smaller pieces: it may be too much for something in between (%o)',
  async (how) => {
    const desk = await withProjects(60)
    failOver(desk, 5, how)
    await passOver(desk)
    expect(await desk.types()).toHaveLength(60)
    expect(sizesOf(desk).slice(0, 10)).toEqual([100, 100, 25, 25, 5, 100, 100, 25, 25, 5])
    expect(sizesOf(desk)).toHaveLength(9 + 13)
  },
)

it('an outage of the vault leaves the page size unchanged', async () => {
  const desk = await withProjects(250)
  failOver(desk, 0, { status: 503 })
  for (let i = 0; i < 7; i++) await desk.step()
  expect(sizesOf(desk)).toEqual([100, 100, 25, 25, 5, 5, 1])
  failOver(desk, 100, {})
  desk.vault.requests.length = 0
  await passOver(desk)
  expect(sizesOf(desk)).toEqual([1, 100, 100, 100, 100])
  expect(await desk.types()).toHaveLength(250)
})

it('one project that never comes is requested alone, and the list is not read again and again for it', async () => {
  const desk = await withProjects(60)
  desk.vault.instead = (page, { url }) => {
    const size = Number(/per_page=(\d+)/.exec(url)?.[1])
    return (page - 1) * size < 30 && page * size >= 30 ? { status: 500 } : undefined
  }
  for (let i = 0; i < 200; i++) await desk.step()
  expect(new Set(sizesOf(desk).slice(-50))).toEqual(new Set([1]))
})

it('a request that fails at every size is repeated at the largest, and an unreachable host says nothing of a size', async () => {
  const desk = await withProjects(3)
  failOver(desk, 0, { status: 500 })
  for (let i = 0; i < 9; i++) await desk.step()
  expect(sizesOf(desk).at(-1)).toBe(100)
  failOver(desk, 0, { code: 'unreachable' })
  for (let i = 0; i < 5; i++) await desk.step()
  expect(sizesOf(desk).slice(-5)).toEqual([100, 100, 100, 100, 100])
})

it('a page in the middle that is too much costs its pass one restart, and then it is read', async () => {
  const desk = await withProjects(250)
  desk.vault.instead = (page, { url }) =>
    page === 2 && url.includes('per_page=100') ? { status: 504 } : undefined
  await passOver(desk)
  expect(await desk.types()).toHaveLength(250)
  expect(sizesOf(desk).slice(0, 8)).toEqual([100, 100, 100, 25, 100, 100, 100, 25])
  expect(new Set(sizesOf(desk).slice(8))).toEqual(new Set([25]))
})

it('many shares at once are reported in several chunks, and copies of the project do not pile up', async () => {
  const desk = await withProjects(1)
  const [project] = desk.projects as [FakeProject]
  await desk.pass()
  for (let who = 1; who <= 2500; who++)
    project.shares.push({ kind: 'user', who, level: 'VIEW', since: desk.vault.stamp() })
  await desk.later()
  const raws = (await desk.raws()).slice(1)
  expect(raws).toHaveLength(2500)
  expect(raws.filter((raw) => raw.includes('"project":{')).length).toBeLessThan(5)
  expect(sorted(foldRecords(await desk.records()))).toEqual(sorted(foldedTruth(desk.vault)))
})

it('an id that is twice in a pass with two contents is compared once a pass, by the copy that comes first', async () => {
  const desk = await withProjects(1)
  const [project] = desk.projects as [FakeProject]
  desk.vault.strays = [desk.vault.text({ ...project, files: 7 })]
  await desk.pass()
  await desk.later(3)
  expect(await desk.types()).toEqual(['project_listed'])
})

it('a separate level for each share blocks the source, and only its page is requested again', async () => {
  const desk = await withProjects(300)
  for (const [n, project] of desk.projects.entries())
    for (let who = 0; who < 5; who++) desk.vault.share(project, who, `level ${n} ${who}`)
  const errors: Error[] = []
  while (errors.length < 4) errors.push(...[await desk.step()].filter((error) => error !== undefined))
  expect(errors.at(-1)).toMatchObject({ code: 'misconfigured', action: 'block' })
  expect(errors.at(-1)?.message).toContain('more than 1000 different permission levels')
  expect(desk.vault.requests.slice(-2).map((query) => /^page=(\d+)/.exec(query)?.[1])).toEqual(['3', '3'])
  expect(openedCursor(desk).levels).toHaveLength(1000)
})

it('more than the inventory can keep blocks the source, and says what to do; with a key that sees less it resumes', async () => {
  const desk = await withProjects(300)
  for (const project of desk.projects) project.name += '語'.repeat(240)
  const { cursor } = desk
  const opened = openVaultCursor(cursor, 0, 'acme')
  for (let n = 0; n < 4800; n++) {
    const raw = Buffer.from(JSON.stringify({ id: `old ${n}`, name: '語'.repeat(256) }))
    expect([...new Comparison(opened).changes({ id: `old ${n}`, raw }, () => false)]).toHaveLength(1)
  }
  desk.cursor = closeVaultCursor(opened)
  const errors: Error[] = []
  while (errors.length < 4) errors.push(...[await desk.step()].filter((error) => error !== undefined))
  const [error] = errors
  expect(desk.vault.requests.at(-1)).not.toContain('page=1&')
  expect(desk.vault.requests.at(-1)).toBe(desk.vault.requests.at(-2))
  expect(error).toMatchObject({ code: 'misconfigured', action: 'block' })
  expect(error?.message).toMatch(/workspace acme exceeds 4 MiB at \d+ projects.*use a key that sees fewer/)
  for (const project of desk.projects.slice(10)) desk.vault.projects.delete(project.id)
  await desk.pass()
  await desk.later(2)
  expect(openedCursor(desk).projects.size).toBe(10)
})

it('a page over the element limit, projects or not, blocks the source, and nothing of it is reported', async () => {
  const desk = await withProjects(2)
  for (const stray of ['1', '{"id":"a"}']) {
    desk.vault.strays = Array.from({ length: 30_001 }, () => stray)
    const error = await desk.step()
    expect(error).toMatchObject({ code: 'misconfigured', action: 'block' })
    expect(error?.message).toContain('more than 30000 elements')
  }
  expect(await desk.types()).toEqual([])
  desk.vault.strays = []
  await desk.pass()
  expect(await desk.types()).toEqual(['project_listed', 'project_listed'])
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
  const desk = await withProjects(50, { source: { clock } })
  const read = async () => {
    for await (const part of desk.source.read(undefined, stop.signal)) expect(part.entries.count).toBe(50)
  }
  await driven(desk.clock, read())
  expect(turns).toBeGreaterThanOrEqual(100)
  last = turns + 10
  await expect(driven(desk.clock, read())).rejects.toMatchObject({ code: 'aborted' })
  expect(turns).toBe(last)
})

it('a long id is kept and reported as its beginning and its hash, and recognized', async () => {
  const desk = await openVaultDesk()
  const id = `${'x'.repeat(900)}1`
  const kept = storedId(id)
  const project = desk.vault.add('one', { id })
  desk.vault.add('other', { id: `${'x'.repeat(900)}2` })
  desk.vault.share(project, 1)
  await desk.pass()
  await desk.restart()
  desk.vault.touch(project)
  desk.vault.share(project, 2)
  await desk.later()
  desk.vault.projects.delete(id)
  await desk.later(2)
  const told = (await desk.records()).filter((record) => record.project_id === kept)
  expect(told.map(({ type }) => type.replace('vault:', ''))).toEqual([
    'project_listed',
    'project_updated',
    'user_share_added',
    'project_deleted',
  ])
  expect(told[2]).not.toHaveProperty('vault_folder_id')
  expect(kept).toHaveLength(64)
  expect(storedId(kept)).toBe(kept)
  expect(desk.cursor).not.toContain('x'.repeat(65))
})

it('a cursor that was written with long ids is read with the short ones', async () => {
  const desk = await withProjects(1)
  await desk.pass()
  const long = 'y'.repeat(100)
  const opened = openVaultCursor((desk.cursor ?? '').replace(idOf(1), long), 0, 'acme')
  expect([...opened.projects.keys()]).toEqual([storedId(long)])
  expect(opened.projects.get(storedId(long))?.id).toBe(storedId(long))
})

it.each([
  [10, 6, true],
  [10, 5, false],
  [40, 10, false],
])('of %d projects %d that are gone at once are reported with a warning: %s', async (count, gone, warned) => {
  const desk = await withProjects(count)
  await desk.pass()
  for (const { id } of desk.projects.slice(0, gone)) desk.vault.projects.delete(id)
  await desk.later(2)
  expect((await desk.types()).filter((type) => type === 'project_deleted')).toHaveLength(gone)
  const lines = desk.log.lines.filter((line) => line.includes('no longer listed for this key'))
  expect(lines).toHaveLength(warned ? 1 : 0)
  if (warned) expect(lines[0]).toContain(`{"gone":${gone},"of":${count}}`)
})

it('in a single run one pass is enough, and two if a project is missing', async () => {
  const desk = await withProjects(4, { source: { once: true } })
  await desk.pass()
  expect(desk.source.plan(desk.cursor).caughtUp).toBe(true)
  desk.vault.projects.delete(idOf(4))
  await desk.restart()
  expect(desk.source.plan(desk.cursor).caughtUp).toBe(false)
  await desk.pass()
  expect(desk.source.plan(desk.cursor).caughtUp).toBe(false)
  await desk.pass()
  expect(desk.source.plan(desk.cursor).caughtUp).toBe(true)
  expect((await desk.types()).slice(4)).toEqual(['project_deleted'])
})

it('the list is requested by name, each pass from the other end, under the rate limit', async () => {
  const desk = await withProjects(30, { limit: 10 })
  desk.vault.manner.cap = 2
  const from = desk.clock.now()
  await desk.pass()
  expect(desk.vault.requests).toHaveLength(16)
  expect(desk.clock.now() - from).toBeGreaterThanOrEqual(MINUTE)
  await desk.later()
  expect(desk.vault.requests[0]).toBe('page=1&per_page=100&sort_by=name&sort_order=asc')
  expect(desk.vault.requests[16]).toBe('page=1&per_page=100&sort_by=name&sort_order=desc')
})

/** Passes over 15,000 shares: all work, which took 21 s beside a load of 15. */
const MANY_SHARES = { timeout: 90_000 }

it(
  'a project with ten shares takes less than 300 bytes of the cursor, which is written less often the larger it is',
  MANY_SHARES,
  async () => {
    const desk = await withProjects(1500)
    for (const [i, project] of desk.projects.entries())
      for (let who = 0; who < 10; who++)
        project.shares.push({ kind: 'user', who: (i + who * 37) % 500, level: 'VIEW', since: project.made })
    await desk.pass()
    const bytes = desk.cursor?.length ?? 0
    expect(bytes).toBeLessThan(1500 * 300)
    expect(openedCursor(desk).projects.size).toBe(1500)
    desk.clock.advance(desk.clock.now() + 6 * HOUR)
    const writes = await writesOf(desk)
    expect(writes).toBe(Math.floor(15 / Math.ceil(bytes / 2 ** 17)) + 1)
  },
)

it(
  'a failed request costs no page that was read before it and is in no cursor yet',
  MANY_SHARES,
  async () => {
    const desk = await withProjects(1500)
    for (const [i, project] of desk.projects.entries())
      for (let who = 0; who < 10; who++)
        project.shares.push({ kind: 'user', who: (i + who * 37) % 500, level: 'VIEW', since: project.made })
    await desk.pass()
    desk.clock.advance(desk.clock.now() + 6 * HOUR)
    const { cursor } = desk
    await desk.step()
    await desk.step()
    expect(desk.cursor).toBe(cursor)
    desk.vault.elsewhere = async () => {
      throw new ConnectorError('unreachable', 'nobody there')
    }
    expect(await desk.step()).toMatchObject({ code: 'unreachable' })
    desk.vault.elsewhere = undefined
    const before = desk.vault.requests.length
    await desk.step()
    expect(desk.vault.requests.slice(before).map((query) => new URLSearchParams(query).get('page'))).toEqual([
      '3',
    ])
  },
)

/** How often the next pass writes the cursor. */
async function writesOf(desk: VaultDesk): Promise<number> {
  let writes = 0
  for (const before = desk.reporter.caughtUps; desk.reporter.caughtUps === before;) {
    const { cursor } = desk
    await desk.step()
    if (cursor !== desk.cursor) writes++
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
    const desk = await withProjects(1)
    desk.cursor = text
    const opening = () => desk.source.plan(desk.cursor)
    expect(opening).toThrow(expect.objectContaining({ code: 'journal_corrupt', action: 'exit' }) as Error)
    expect(opening).toThrow(`cursor for vault.projects of workspace acme ${state}`)
    expect(opening).not.toThrow('secret')
  },
)
