// No single answer of a list makes a project deleted, shortens the inventory, or dates a record into the future.
import { expect, test } from 'vitest'
import { driven, HOUR, MINUTE } from '../../app/desk.ts'
import { idOf, openedCursor, withProjects } from './desk.ts'

test('a 404 on page 1 blocks, and reports no deletion however often it comes', async () => {
  const desk = await withProjects(3)
  await desk.pass()
  desk.vault.instead = (page) => (page === 1 ? { status: 404 } : undefined)
  for (let i = 0; i < 6; i++) {
    await driven(desk.clock, desk.clock.sleep(6 * HOUR))
    expect(await desk.step()).toMatchObject({ action: 'block' })
  }
  expect(await desk.types()).toHaveLength(3)
  desk.vault.instead = () => undefined
  await desk.later(3)
  expect(await desk.types()).toHaveLength(3)
})

test('a page in the middle of the list that is empty by mistake is requested once more', async () => {
  const desk = await withProjects(250)
  let mistakes = 0
  const text =
    '{"response":{"content":{"pagination":{"page":2,"per_page":100,"total":250,"total_pages":3},"projects":[]}}}'
  desk.vault.instead = (page) => (page === 2 && mistakes++ === 0 ? { text } : undefined)
  await desk.pass()
  expect(await desk.types()).toHaveLength(250)
  expect(desk.vault.requests.map((query) => /^page=(\d+)/.exec(query)?.[1])).toEqual(
    expect.arrayContaining(['1', '2', '2', '3']),
  )
  expect(mistakes).toBe(2)
})

test.each([MINUTE, 10 * HOUR])(
  'a timestamp of the API %d ms in the future is not the record’s time',
  async (ahead) => {
    const desk = await withProjects(1)
    const [project] = desk.projects
    await desk.pass()
    if (!project) throw new Error('no project')
    project.files++
    project.updated = desk.vault.stamp(desk.clock.now() + 6 * HOUR + ahead)
    await desk.later()
    const told = (await desk.records()).at(-1)
    expect(told?.type).toBe('vault:project_updated')
    expect(told?.timestamp).toBe(told?.seen_at)
  },
)

test('a project that could never be read is not reported as deleted when it goes: it was never reported', async () => {
  const desk = await withProjects(3, { source: { maxDepth: 6 } })
  desk.vault.written = (each) =>
    each.id === idOf(2)
      ? desk.vault.text(each).replace('{', '{"deep":[[[[[[[[1]]]]]]]],')
      : desk.vault.text(each)
  await desk.pass()
  expect(openedCursor(desk).projects.has(idOf(2))).toBe(true)
  desk.vault.projects.delete(idOf(2))
  await desk.later(4)
  expect(openedCursor(desk).projects.has(idOf(2))).toBe(false)
  expect(await desk.types()).toEqual(['project_listed', 'project_listed'])
})
