// The vault of one workspace as time passes: what its people did, what was asked through the API, and what tests do to it.
import type { Random } from '../model/clock.ts'
import { drawPerson, userOf } from './people.ts'
import { mix, streamSeed } from './random.ts'
import { keyedBy, projectId, projectOf, reviewTableId, reviewTableOf } from './resources.ts'
import type { Switches } from './switches.ts'
import type { Doing } from './traffic.ts'
import { uuidStream } from './uuids.ts'
import { doAs, moves } from './vault-people.ts'
import type { Named, Surroundings } from './vault-people.ts'
import { renderProject } from './vault-project.ts'
import type { Identities, Project, VaultFile } from './vault-project.ts'
import { start, STARTING } from './vault-start.ts'
import { deedsOf } from './vault-deed.ts'
import type { Deed } from './vault-deed.ts'
import { VaultState } from './vault-state.ts'

interface VaultSettings {
  readonly seed: number
  readonly domain: string
  readonly switches: Switches
  /** before the first entry of the traffic */
  readonly beforeUs: number
  /** how many projects there are from the start */
  readonly projects: number | undefined
}

/** The ground truth of a project that is listed. */
export interface MockProject {
  readonly id: string
  readonly name: string
  /** somebody deleted it; it leaves the listing soon */
  readonly deleting: boolean
  readonly raw: Uint8Array
}

/** How far the processing of a file has come (spec §3). */
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

  /** What an entry of the traffic did. Each is to be told once, in order. */
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

  /** A deed of no entry of the traffic: through the API, or by hand. */
  deed(atUs: number, user: string): Deed {
    return this.#askedDeed(this.#asked++, atUs, user)
  }

  delete(deed: Deed, project: Project): void {
    this.state.delete(deed, project, deed.atUs + this.#around().deletionUs)
  }

  /** The bytes that the listing shows. */
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
