// No single answer of a list makes a project deleted, shortens the inventory, or dates a record into the future.
import { expect, test } from 'vitest'
import { driven, HOUR, MINUTE } from '../../app/audit-harness.ts'
import { idOf, openedCursor, withProjects } from './harness.ts'

test('a 404 on page 1 blocks, and reports no deletion however often it comes', async () => {
  const harness = await withProjects(3)
  await harness.pass()
  harness.vault.instead = (page) => (page === 1 ? { status: 404 } : undefined)
  for (let i = 0; i < 6; i++) {
    await driven(harness.clock, harness.clock.sleep(6 * HOUR))
    expect(await harness.step()).toMatchObject({ action: 'block' })
  }
  expect(await harness.types()).toHaveLength(3)
  harness.vault.instead = () => undefined
  await harness.later(3)
  expect(await harness.types()).toHaveLength(3)
})

test('a page in the middle of the list that is empty by mistake is requested once more', async () => {
  const harness = await withProjects(250)
  let mistakes = 0
  const text =
    '{"response":{"content":{"pagination":{"page":2,"per_page":100,"total":250,"total_pages":3},"projects":[]}}}'
  harness.vault.instead = (page) => (page === 2 && mistakes++ === 0 ? { text } : undefined)
  await harness.pass()
  expect(await harness.types()).toHaveLength(250)
  expect(harness.vault.requests.map((query) => /^page=(\d+)/.exec(query)?.[1])).toEqual(
    expect.arrayContaining(['1', '2', '2', '3']),
  )
  expect(mistakes).toBe(2)
})

test.each([MINUTE, 10 * HOUR])(
  'a timestamp of the API %d ms in the future is not the record’s time',
  async (ahead) => {
    const harness = await withProjects(1)
    const [project] = harness.projects
    await harness.pass()
    if (!project) throw new Error('no project')
    project.files++
    project.updated = harness.vault.stamp(harness.clock.now() + 6 * HOUR + ahead)
    await harness.later()
    const reported = (await harness.records()).at(-1)
    expect(reported?.type).toBe('vault:project_updated')
    expect(reported?.timestamp).toBe(reported?.seen_at)
  },
)

test('a project that could never be read is not reported as deleted when it goes: it was never reported', async () => {
  const harness = await withProjects(3, { source: { maxDepth: 6 } })
  harness.vault.written = (each) =>
    each.id === idOf(2)
      ? harness.vault.text(each).replace('{', '{"deep":[[[[[[[[1]]]]]]]],')
      : harness.vault.text(each)
  await harness.pass()
  expect(openedCursor(harness).projects.has(idOf(2))).toBe(true)
  harness.vault.projects.delete(idOf(2))
  await harness.later(4)
  expect(openedCursor(harness).projects.has(idOf(2))).toBe(false)
  expect(await harness.types()).toEqual(['project_listed', 'project_listed'])
})
