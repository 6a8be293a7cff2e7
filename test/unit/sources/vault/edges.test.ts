// What is easily lost at the edge of a page or a pass: quarantine beside other chunks, the end of the list, names that are not needed any more.
import { expect, it } from 'vitest'
import { HOUR } from '../../app/desk.ts'
import { idOf, listed, openedCursor, openVaultDesk, type VaultDesk } from './desk.ts'

async function quarantined({ journal }: VaultDesk): Promise<string[]> {
  const kept = await journal.quarantined({})
  const raws = await Promise.all(kept.map(({ id }) => journal.quarantinedRaw(id)))
  return raws.map((raw) => Buffer.from(raw ?? []).toString())
}

it('a malformed element on a page whose cursor is not written yet is still quarantined', async () => {
  const desk = await openVaultDesk()
  for (let i = 0; i < 600; i++) desk.vault.add(`${String(i).padStart(4, '0')}${'x'.repeat(252)}`)
  await desk.pass()
  expect(desk.cursor?.length).toBeGreaterThan(2 ** 17)
  desk.clock.advance(desk.clock.now() + 6 * HOUR)
  desk.vault.strays = ['{"name":"nobody"}']
  await desk.pass('forgiven')
  expect(await quarantined(desk)).toEqual(desk.vault.strays)
})

it('a malformed element alone on the last page is quarantined once it came beside projects, from the other end', async () => {
  const desk = await openVaultDesk()
  const project = desk.vault.text(desk.vault.add('one'))
  const pages = {
    asc: [listed(project), listed('{"n":1}')],
    desc: [listed('{"n":1}', project)],
  }
  desk.vault.instead = (page, { url }) => pages[url.endsWith('asc') ? 'asc' : 'desc'][page - 1] ?? listed()
  await desk.pass('forgiven')
  expect(await quarantined(desk)).toEqual(['{"n":1}'])
  expect(await desk.types()).toEqual(['project_listed'])
})

it('pages of projects that cannot be read, but have ids, are not the end of the list', async () => {
  const desk = await openVaultDesk({ source: { maxDepth: 6 } })
  const unreadable = (n: number) => `{"id":"${idOf(n)}","deep":[[[[[[[[1]]]]]]]]}`
  const last = desk.vault.add('last', { id: idOf(9) })
  const pages = [1, 2, 3].map((n) => listed(unreadable(n)))
  desk.vault.instead = (page) => pages[page - 1] ?? (page === 4 ? listed(desk.vault.text(last)) : listed())
  await desk.pass()
  expect(await desk.types()).toEqual(['project_listed'])
  expect(await quarantined(desk)).toHaveLength(3)
})

it('at its end a pass reports how far it has seen, by the server’s clock', async () => {
  const desk = await openVaultDesk()
  desk.vault.add('one')
  await desk.pass()
  const seenUs = Math.floor(desk.clock.now() / 1_000) * 1_000_000
  expect([desk.reporter.headUs, desk.reporter.cursorUs]).toEqual([seenUs, seenUs])
})

it('users and workspaces that no share names any more are forgotten at the end of a pass, and the others stay known', async () => {
  const desk = await openVaultDesk()
  const [gone, kept] = [desk.vault.add('gone'), desk.vault.add('kept')]
  desk.vault.share(gone, 1, 'EDIT')
  desk.vault.share(kept, 2, 'VIEW')
  await desk.pass()
  expect(openedCursor(desk)).toMatchObject({ levels: ['EDIT', 'VIEW'], principals: { length: 2 } })
  gone.shares = []
  await desk.later()
  expect(openedCursor(desk)).toMatchObject({ levels: ['VIEW'], principals: { length: 1 } })
  const before = (await desk.types()).length
  await desk.later()
  expect(await desk.types()).toHaveLength(before)
})

it('if the last page repeats behind the end and there is no total, a deletion is still proven', async () => {
  const desk = await openVaultDesk()
  Object.assign(desk.vault.manner, { cap: 2, total: 'none', beyond: 'last_page_again' })
  for (const name of ['a', 'b', 'c', 'd', 'e', 'f']) desk.vault.add(name)
  await desk.pass()
  desk.vault.projects.delete(idOf(3))
  await desk.later(3)
  expect((await desk.types()).slice(6)).toEqual(['project_deleted'])
})

it.each([
  ['its total came beside its projects, whatever the empty page behind them says', 'true', 1],
  ['there was no total: the other pass must have seen the same', 'none', 0],
] as const)(
  'a project that is missing in two passes, of which the second sees a new one: %s',
  async (_, total, told) => {
    const desk = await openVaultDesk()
    desk.vault.manner.total = total
    desk.vault.instead = (page) =>
      page > 1 && total === 'true'
        ? { text: '{"response":{"content":{"pagination":{"total":0},"projects":[]}}}' }
        : undefined
    for (const name of ['a', 'b', 'c', 'd']) desk.vault.add(name)
    await desk.pass()
    desk.vault.projects.delete(idOf(2))
    await desk.later()
    desk.vault.add('new')
    await desk.later()
    expect((await desk.types()).filter((type) => type === 'project_deleted')).toHaveLength(told)
  },
)

it('in a single run two passes are enough, also if it stays unproven that a project is gone', async () => {
  const desk = await openVaultDesk({ source: { once: true } })
  for (const name of ['a', 'b', 'c', 'd']) desk.vault.add(name)
  await desk.pass()
  desk.vault.projects.delete(idOf(2))
  desk.vault.manner.total = 'too_high'
  await desk.restart()
  const isDone = () => desk.source.plan(desk.cursor).caughtUp
  await desk.pass()
  expect(isDone()).toBe(false)
  await desk.pass()
  expect(isDone()).toBe(true)
  expect(await desk.types()).toHaveLength(4)
})
