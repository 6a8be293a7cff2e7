// What an area of the API is to the mock's router: siblings, each with its paths, none knowing another.
import type { Area, Key } from './keys.ts'
import type { Reply } from './replies.ts'
import type { FaultName, Switches } from './switches.ts'
import type { Workspace } from './workspace.ts'

/** One request that found its endpoint, key and place in the rate limit. */
export interface Call {
  readonly endpoint: string
  readonly query: URLSearchParams
  readonly headers: Readonly<Record<string, string>>
  /** epoch ms, by the server's clock */
  readonly now: number
  /** of all requests, from 1 */
  readonly ordinal: number
  readonly workspace: Workspace
  readonly key: Key
  readonly switches: Switches
  /** the `page` faults that strike it */
  readonly struck: ReadonlySet<FaultName>
  /** for choices within a fault */
  readonly seed: number
}

export interface AreaRoutes {
  readonly area: Area
  /** The endpoint's name for a path, undefined when it is not of this area. */
  endpoint(method: string, path: string): string | undefined
  answer(call: Call): Reply
}
