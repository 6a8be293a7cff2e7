// Random histories of a workspace, changed between any two requests of a pass, with crashes and errors in between: the records match what exists.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { ConnectorError } from '../../../../src/core/errors.ts'
import type { Journal } from '../../../../src/contracts/journal.ts'
import { withMethods } from '../../../fakes/with-methods.ts'
import { HOUR } from '../../app/audit-harness.ts'
import { foldedTruth, foldRecords, openVaultHarness, sorted } from './harness.ts'
import type { FakeProject, Manner, VaultHarness } from './harness.ts'

type Act =
  | { readonly do: 'read' | 'wait' | 'crash' | 'append_lost' | 'append_fails' | 'api_fails' | 'add' }
  | { readonly do: 'touch' | 'delete' | 'flag'; readonly which: number }
  | { readonly do: 'rename'; readonly which: number; readonly name: number }
  | { readonly do: 'share' | 'unshare'; readonly which: number; readonly who: number; readonly level: string }

const which = fc.nat(30)
const acts = fc.array(
  fc.oneof(
    { weight: 12, arbitrary: fc.constant({ do: 'read' } as const) },
    {
      weight: 1,
      arbitrary: fc.constantFrom(
        { do: 'wait' },
        { do: 'crash' },
        { do: 'append_lost' },
        { do: 'append_fails' },
        { do: 'api_fails' },
      ),
    },
    { weight: 2, arbitrary: fc.constant({ do: 'add' } as const) },
    { weight: 4, arbitrary: fc.record({ do: fc.constantFrom('touch', 'delete', 'delete', 'flag'), which }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('rename'), which, name: fc.nat(99) }) },
    {
      weight: 3,
      arbitrary: fc.record({
        ...{ do: fc.constantFrom('share', 'share', 'unshare'), which, who: fc.nat(3) },
        level: fc.constantFrom('VIEW', 'EDIT'),
      }),
    },
  ),
  { minLength: 10, maxLength: 150 },
)

const manners = (
  totals: readonly Manner['total'][],
  ties: readonly Manner['ties'][] = ['stable'],
): fc.Arbitrary<Manner> =>
  fc.record({
    cap: fc.integer({ min: 1, max: 4 }),
    total: fc.constantFrom(...totals),
    beyond: fc.constantFrom('empty', 'not_found', 'last_page_again'),
    shuffled: fc.boolean(),
    ties: fc.constantFrom(...ties),
  })

/** A journal that a test can make fail before or after the transaction, as a crash does. */
function frail(state: { lost: number; fails: number }) {
  return (journal: Journal): Journal =>
    withMethods(journal, {
      append: async (part) => {
        if (state.fails > 0 && state.fails-- > 0)
          throw new ConnectorError('disk_full', 'as the test wants it')
        const appended = await journal.append(part)
        if (state.lost > 0 && state.lost-- > 0)
          throw new ConnectorError('disk_failed', 'as the test wants it')
        return appended
      },
    })
}

function act(harness: VaultHarness, action: Act): void {
  const { vault } = harness
  if (action.do === 'add') vault.add(`name ${vault.projects.size % 7}`)
  if (!('which' in action)) return
  const all = [...vault.projects.values()]
  const project: FakeProject | undefined = all[action.which % Math.max(1, all.length)]
  if (!project) return
  switch (action.do) {
    case 'touch':
      vault.touch(project)
      return
    case 'delete':
      vault.projects.delete(project.id)
      return
    case 'flag':
      project.flag = !project.flag
      return
    case 'rename':
      project.name = `name ${action.name}`
      return
    case 'share':
      vault.share(project, action.who, action.level, action.who % 2 === 0 ? 'user' : 'workspace')
      return
    case 'unshare':
      project.shares = project.shares.filter(({ who }) => who !== action.who)
  }
}

async function live(manner: Manner, history: readonly Act[]): Promise<VaultHarness> {
  const state = { lost: 0, fails: 0 }
  const harness = await openVaultHarness({ journal: frail(state) })
  const { vault, clock } = harness
  Object.assign(vault.manner, manner)
  for (let i = 0; i < 8; i++) vault.add(`name ${i}`)
  const alive = new Set(vault.projects.keys())
  let reported = 0
  const look = async () => {
    const records = await harness.records()
    for (const { type, project_id: id } of records.slice(reported))
      if (type === 'vault:project_deleted')
        expect(vault.projects.has(id), 'is told as deleted and is there').toBe(false)
    reported = records.length
  }
  for (const action of history) {
    clock.advance(clock.now() + 1_500)
    act(harness, action)
    for (const id of vault.projects.keys()) alive.add(id)
    if (action.do === 'wait') clock.advance(clock.now() + 6 * HOUR)
    if (action.do === 'append_lost') state.lost = 1
    if (action.do === 'append_fails') state.fails = 1
    if (action.do === 'api_fails') {
      vault.instead = () => ({ status: 500 })
      await harness.step()
      vault.instead = () => undefined
    }
    if (action.do === 'crash') await harness.restart()
    if (action.do !== 'read' || harness.source.plan(harness.cursor).dueAt > clock.now() + HOUR) continue
    // What a failed append left on the disk only the next process knows.
    if (await harness.step()) await harness.restart()
    await look()
  }
  state.lost = 0
  state.fails = 0
  await harness.restart()
  await harness.later(4)
  await look()
  return harness
}

const slices = { numRuns: 40 }

it('the records, applied in order, are what exists; each project is reported once, and no existing one as deleted', async () => {
  await fc.assert(
    fc.asyncProperty(manners(['true']), acts, async (manner, history) => {
      const harness = await live(manner, history)
      const records = await harness.records()
      expect(sorted(foldRecords(records))).toEqual(sorted(foldedTruth(harness.vault)))
      expect(new Set(records.map(({ id }) => id)).size).toBe(records.length)
      for (const kind of ['project_deleted', 'project_created', 'project_listed']) {
        const ids = records.filter(({ type }) => type === `vault:${kind}`).map((record) => record.project_id)
        expect(new Set(ids).size).toBe(ids.length)
      }
    }),
    slices,
  )
})

it('the same holds if the pagination is missing or makes no sense, as long as no project moves by its own rename', async () => {
  await fc.assert(
    fc.asyncProperty(manners(['none', 'of_page']), acts, async (manner, history) => {
      const harness = await live(
        { ...manner, ties: 'stable' },
        history.filter((action) => action.do !== 'rename'),
      )
      expect(sorted(foldRecords(await harness.records()))).toEqual(sorted(foldedTruth(harness.vault)))
    }),
    slices,
  )
})

it('whatever moves, no existing project is reported as deleted, and none as created that existed before the first pass', async () => {
  await fc.assert(
    fc.asyncProperty(manners(['true', 'too_high'], ['stable', 'chance']), acts, async (manner, history) => {
      const harness = await live(manner, history)
      const records = await harness.records()
      // Throws if one is reported that never existed, or twice.
      foldRecords(records)
      const began = Math.min(...records.map(({ seen_at: at }) => Date.parse(at)))
      for (const { type, project } of records)
        if (type === 'vault:project_created')
          expect(
            Date.parse(`${(project as unknown as { created_at: string }).created_at}Z`),
          ).toBeGreaterThanOrEqual(began)
    }),
    slices,
  )
})
