// What is easily lost at the edge of a page or a pass: quarantine beside other chunks, the end of the list, names that are not needed any more.
import { expect, it } from 'vitest'
import { HOUR } from '../../app/audit-harness.ts'
import { idOf, listed, openedCursor, openVaultHarness, type VaultHarness } from './harness.ts'

async function quarantined({ journal }: VaultHarness): Promise<string[]> {
  const kept = await journal.quarantined({})
  const raws = await Promise.all(kept.map(({ id }) => journal.quarantinedRaw(id)))
  return raws.map((raw) => Buffer.from(raw ?? []).toString())
}

it('a malformed element on a page whose cursor is not written yet is still quarantined', async () => {
  const harness = await openVaultHarness()
  for (let i = 0; i < 600; i++) harness.vault.add(`${String(i).padStart(4, '0')}${'x'.repeat(252)}`)
  await harness.pass()
  expect(harness.cursor?.length).toBeGreaterThan(2 ** 17)
  harness.clock.advance(harness.clock.now() + 6 * HOUR)
  harness.vault.strays = ['{"name":"nobody"}']
  await harness.pass('forgiven')
  expect(await quarantined(harness)).toEqual(harness.vault.strays)
})

it('a malformed element alone on the last page is quarantined once it came beside projects, from the other end', async () => {
  const harness = await openVaultHarness()
  const project = harness.vault.text(harness.vault.add('one'))
  const pages = {
    asc: [listed(project), listed('{"n":1}')],
    desc: [listed('{"n":1}', project)],
  }
  harness.vault.instead = (page, { url }) => pages[url.endsWith('asc') ? 'asc' : 'desc'][page - 1] ?? listed()
  await harness.pass('forgiven')
  expect(await quarantined(harness)).toEqual(['{"n":1}'])
  expect(await harness.types()).toEqual(['project_listed'])
})

it('pages of projects that cannot be read, but have ids, are not the end of the list', async () => {
  const harness = await openVaultHarness({ source: { maxDepth: 6 } })
  const unreadable = (n: number) => `{"id":"${idOf(n)}","deep":[[[[[[[[1]]]]]]]]}`
  const last = harness.vault.add('last', { id: idOf(9) })
  const pages = [1, 2, 3].map((n) => listed(unreadable(n)))
  harness.vault.instead = (page) =>
    pages[page - 1] ?? (page === 4 ? listed(harness.vault.text(last)) : listed())
  await harness.pass()
  expect(await harness.types()).toEqual(['project_listed'])
  expect(await quarantined(harness)).toHaveLength(3)
})

it('at its end a pass reports how far it has seen, by the server’s clock', async () => {
  const harness = await openVaultHarness()
  harness.vault.add('one')
  await harness.pass()
  const seenUs = Math.floor(harness.clock.now() / 1_000) * 1_000_000
  expect([harness.reporter.headUs, harness.reporter.cursorUs]).toEqual([seenUs, seenUs])
})

it('users and workspaces that no share names any more are forgotten at the end of a pass, and the others stay known', async () => {
  const harness = await openVaultHarness()
  const [gone, kept] = [harness.vault.add('gone'), harness.vault.add('kept')]
  harness.vault.share(gone, 1, 'EDIT')
  harness.vault.share(kept, 2, 'VIEW')
  await harness.pass()
  expect(openedCursor(harness)).toMatchObject({ levels: ['EDIT', 'VIEW'], principals: { length: 2 } })
  gone.shares = []
  await harness.later()
  expect(openedCursor(harness)).toMatchObject({ levels: ['VIEW'], principals: { length: 1 } })
  const before = (await harness.types()).length
  await harness.later()
  expect(await harness.types()).toHaveLength(before)
})

it('if the last page repeats behind the end and there is no total, a deletion is still proven', async () => {
  const harness = await openVaultHarness()
  Object.assign(harness.vault.manner, { cap: 2, total: 'none', beyond: 'last_page_again' })
  for (const name of ['a', 'b', 'c', 'd', 'e', 'f']) harness.vault.add(name)
  await harness.pass()
  harness.vault.projects.delete(idOf(3))
  await harness.later(3)
  expect((await harness.types()).slice(6)).toEqual(['project_deleted'])
})

it.each([
  ['its total came beside its projects, whatever the empty page behind them says', 'true', 1],
  ['there was no total: the other pass must have seen the same', 'none', 0],
] as const)(
  'a project that is missing in two passes, of which the second sees a new one: %s',
  async (_, total, reported) => {
    const harness = await openVaultHarness()
    harness.vault.manner.total = total
    harness.vault.instead = (page) =>
      page > 1 && total === 'true'
        ? { text: '{"response":{"content":{"pagination":{"total":0},"projects":[]}}}' }
        : undefined
    for (const name of ['a', 'b', 'c', 'd']) harness.vault.add(name)
    await harness.pass()
    harness.vault.projects.delete(idOf(2))
    await harness.later()
    harness.vault.add('new')
    await harness.later()
    expect((await harness.types()).filter((type) => type === 'project_deleted')).toHaveLength(reported)
  },
)

it('in a single run two passes are enough, also if it stays unproven that a project is gone', async () => {
  const harness = await openVaultHarness({ source: { once: true } })
  for (const name of ['a', 'b', 'c', 'd']) harness.vault.add(name)
  await harness.pass()
  harness.vault.projects.delete(idOf(2))
  harness.vault.manner.total = 'too_high'
  await harness.restart()
  const isDone = () => harness.source.plan(harness.cursor).caughtUp
  await harness.pass()
  expect(isDone()).toBe(false)
  await harness.pass()
  expect(isDone()).toBe(true)
  expect(await harness.types()).toHaveLength(4)
})
