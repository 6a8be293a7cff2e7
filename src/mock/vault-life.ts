// The vault of one workspace over time: changes by its people, through the API, and by tests.
import type { Random } from '../core/clock.ts'
import { DAY_US } from '../core/time.ts'
import {
  PROJECTS,
  drawPerson,
  keyedBy,
  projectId,
  projectName,
  projectOf,
  reviewTableId,
  reviewTableName,
  reviewTableOf,
  userOf,
} from './people.ts'
import { below, dice, mix, pick, streamSeed, uuidStream } from './random.ts'
import type { Switches } from './switches.ts'
import type { Doing } from './traffic.ts'
import { doAs, moves } from './vault-people.ts'
import type { Named, Surroundings } from './vault-people.ts'
import { projectName as looseName, renderProject, someFile } from './vault-project.ts'
import type { Identities, Project, VaultFile } from './vault-project.ts'
import { VaultState, deedsOf } from './vault-state.ts'
import type { Deed } from './vault-state.ts'

interface VaultSettings {
  readonly seed: number
  readonly domain: string
  readonly switches: Switches
  /** before the first entry of the traffic */
  readonly beforeUs: number
  /** number of projects at the start */
  readonly projects: number | undefined
}

/** The ground truth about a listed project. */
export interface MockProject {
  readonly id: string
  readonly name: string
  /** deleted; it leaves the listing soon */
  readonly deleting: boolean
  readonly raw: Uint8Array
}

/** The processing state of a file (spec §3). */
type FileStatus = 'uploaded' | 'processing' | 'ready_to_query'

export class Vault {
  readonly state: VaultState
  readonly #settings: VaultSettings
  readonly #identities: Identities
  readonly #partners: readonly number[]
  readonly #standing: ReadonlySet<string>
  readonly #trafficDeed: ReturnType<typeof deedsOf>
  readonly #askedDeed: ReturnType<typeof deedsOf>
  #asked = 0

  constructor(settings: VaultSettings) {
    const { seed, beforeUs, projects: count = STARTING } = settings
    const own = streamSeed(seed, 'vault')
    const users = uuidStream(own, 'user')
    const workspaceId = 1000 + (mix(own, 0) % 8000)
    this.#settings = settings
    this.#identities = { workspaceId, userId: (user) => users.at(streamSeed(own, user)) }
    this.#partners = Array.from({ length: 6 }, (_, n) => 9000 + (mix(own, n + 1) % 1000))
    this.#trafficDeed = deedsOf(own, 'traffic')
    this.#askedDeed = deedsOf(own, 'asked')
    this.state = new VaultState(workspaceId)
    this.#standing = start(this.state, {
      seed,
      count,
      beforeUs,
      around: { someone: this.#someone, partners: this.#partners },
    })
  }

  readonly #someone = (random: Random) => userOf(drawPerson(random), this.#settings.domain)

  /** Applies an entry of the traffic. Call it once per entry, in order. */
  note({ entry, number, person }: Doing): void {
    if (!moves(entry.type)) return
    this.state.settle(entry.atUs)
    const deed = this.#trafficDeed(number, entry.atUs, userOf(person, this.#settings.domain))
    const told = doAs(entry.type, this.state, deed, { ...this.#around(), named: this.#named(entry.id) })
    if (told) entry.about = JSON.stringify(told)
  }

  #named(entryId: string): Named | undefined {
    const n = projectOf(entryId)
    const project = this.state.project(projectId(this.#settings.seed, n))
    if (!project) return undefined
    return { project, reviewId: reviewTableId(n, keyedBy(entryId, 2)), reviewTitle: reviewTableOf(entryId) }
  }

  #around(): Omit<Surroundings, 'named'> {
    return {
      standing: this.#standing,
      someone: this.#someone,
      partners: this.#partners,
      deletionUs: this.#settings.switches.deletion_takes * 1000,
    }
  }

  /** A change without an entry of the traffic: through the API, or manual. */
  deed(atUs: number, user: string): Deed {
    return this.#askedDeed(this.#asked++, atUs, user)
  }

  delete(deed: Deed, project: Project): void {
    this.state.delete(deed, project, deed.atUs + this.#around().deletionUs)
  }

  /** The bytes in the listing. */
  render(project: Project): Buffer {
    return renderProject(project, this.#identities)
  }

  shown(): MockProject[] {
    return this.state.listed().map((project) => ({
      id: project.id,
      name: project.name,
      deleting: project.goneUs !== undefined,
      raw: this.render(project),
    }))
  }

  statusOf(file: VaultFile, nowUs: number): FileStatus {
    const { uploaded_for, processing_for } = this.#settings.switches
    const waited = (nowUs - file.queuedUs) / 1000
    if (waited < uploaded_for * file.pace) return 'uploaded'
    return waited < (uploaded_for + processing_for) * file.pace ? 'processing' : 'ready_to_query'
  }
}

// The initial projects of a workspace: those that all areas name, then some that come and go.

/** age of the oldest project at the start */
const PAST_DAYS = 400

/** Default number of projects. */
const STARTING = PROJECTS + 8

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

/** Fills an empty vault; returns the ids of the permanent projects. */
function start(state: VaultState, settings: StartSettings): Set<string> {
  const { seed, count, beforeUs, around } = settings
  const own = streamSeed(seed, 'vault start')
  const deedOf = deedsOf(own, 'start')
  const standing = new Set<string>()
  const ages = Array.from({ length: count }, (_, n) => mix(own, n) / 2 ** 32).sort((a, b) => b - a)
  for (const [n, age] of ages.entries()) {
    const random = dice(mix(own, -n - 1))
    const madeUs = Math.floor(beforeUs - (1 + age * PAST_DAYS) * DAY_US)
    /** this part of the time between its creation and the start */
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
