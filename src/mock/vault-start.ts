// The projects that a workspace has before anybody asks: those that all areas name, then some that come and go.
import { DAY_US } from '../model/time.ts'
import { below, dice, mix, pick, streamSeed } from './random.ts'
import { projectId, projectName, PROJECTS, reviewTableId, reviewTableName } from './resources.ts'
import { projectName as looseName, someFile } from './vault-names.ts'
import type { Project } from './vault-project.ts'
import { deedsOf } from './vault-deed.ts'
import type { Deed } from './vault-deed.ts'
import type { VaultState } from './vault-state.ts'
import type { Surroundings } from './vault-people.ts'

/** how long before the beginning the oldest was made */
const PAST_DAYS = 400

/** How many there are unless told. */
export const STARTING = PROJECTS + 8

interface StartSettings {
  readonly seed: number
  readonly count: number
  readonly beforeUs: number
  readonly around: Pick<Surroundings, 'someone' | 'partners'>
}

function share(state: VaultState, project: Project, deed: Deed, { around }: StartSettings): void {
  const random = dice(deed.seed ^ 1)
  for (let left = below(random, 6); left > 0; left--) {
    const user = around.someone(random)
    if (user !== project.creator) state.share(deed, project, { user }, random() < 0.6 ? 'VIEW' : 'EDIT')
  }
  if (random() < 0.3)
    state.share(deed, project, { workspace: pick(random, around.partners) }, random() < 0.8 ? 'VIEW' : 'EDIT')
}

/** Fills an empty vault; the ids of the standing projects. */
export function start(state: VaultState, settings: StartSettings): Set<string> {
  const { seed, count, beforeUs, around } = settings
  const own = streamSeed(seed, 'vault start')
  const deedOf = deedsOf(own, 'start')
  const standing = new Set<string>()
  const ages = Array.from({ length: count }, (_, n) => mix(own, n) / 2 ** 32).sort((a, b) => b - a)
  for (const [n, age] of ages.entries()) {
    const random = dice(mix(own, -n - 1))
    const madeUs = Math.floor(beforeUs - (1 + age * PAST_DAYS) * DAY_US)
    /** so far between its making and the beginning */
    const later = (part: number) => Math.floor(madeUs + (beforeUs - madeUs) * part)
    const user = around.someone(random)
    const deed = (kind: number, atUs: number) => deedOf(n * 8 + kind, atUs, user)
    const named = n < PROJECTS
    const knowledgeBase = random() < 0.2
    const name = named ? projectName(n) : looseName(random, knowledgeBase)
    const spelling = random() < 0.06 ? 'indented' : random() < 0.06 ? 'escaped' : 'compact'
    const given = { ...(named ? { id: projectId(seed, n) } : {}), name, knowledgeBase, spelling } as const
    const project = state.create(deed(0, madeUs), given)
    if (named) standing.add(project.id)
    const files = Array.from({ length: below(random, 14) }, () => someFile(random))
    if (files.length > 0) state.upload(deed(1, later(0.2 + 0.5 * random())), project, files)
    share(state, project, deed(2, later(0.75)), settings)
    for (let table = below(random, 3); named && files.length > 0 && table > 0; table--)
      state.addReview(
        deed(2 + table, later(0.8)),
        project,
        reviewTableName(n, table - 1),
        reviewTableId(n, table - 1),
      )
    project.queries += below(random, 60)
  }
  return standing
}
