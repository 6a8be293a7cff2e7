// What an area of the API is to the mock's router: siblings, each with its paths, none knowing another.
import type { Area, Key } from './keys.ts'
import type { Reply } from './replies.ts'
import type { FaultName, Switches } from './switches.ts'
import type { NewEntry, Workspace } from './workspace.ts'

/** One request that found its endpoint, key and place in the rate limit. */
export interface Call {
  readonly endpoint: string
  readonly method: string
  readonly path: string
  /** of the path, decoded */
  readonly params: Readonly<Record<string, string>>
  readonly query: URLSearchParams
  readonly headers: Readonly<Record<string, string>>
  /** As it came; empty when there was none. */
  readonly body: Uint8Array
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
  /** Undefined when the path is not of this area: see `routeTable`. */
  readonly find: RouteTable
  answer(call: Call): Reply
}

/** What an area keeps of a workspace, made when it is first wanted. */
export function perWorkspace<T extends object>(make: (workspace: Workspace) => T) {
  const made = new WeakMap<Workspace, T>()
  return (workspace: Workspace): T => {
    let state = made.get(workspace)
    if (!state) made.set(workspace, (state = make(workspace)))
    return state
  }
}

/** The entry that says of a call who made it, from where and with what. */
export function traceOf(call: Call, type: string, data?: unknown): NewEntry {
  const { key, headers, switches, now } = call
  const sent = headers['user-agent'] ?? ''
  return {
    type,
    user: key.user,
    ip: key.ip,
    userAgent: switches.user_agent === 'sent' ? sent : 'api-client',
    visibleAt: now + switches.latency + switches.self_audit_after,
    ...(data === undefined ? {} : { data }),
  }
}

/** Reading writes: the entry that a call leaves in the audit log. What was asked never sees its own entry. */
export function leaveTrace(call: Call, type: string, data?: unknown): void {
  if (call.switches.self_audit !== 'off') call.workspace.add(traceOf(call, type, data), call.now, 'self')
}

// Methods and path patterns of an area, to endpoint names and path parameters.

interface Found {
  readonly endpoint: string
  /** of the path, decoded */
  readonly params: Readonly<Record<string, string>>
}

interface Line {
  readonly endpoint: string
  readonly method: string
  readonly pattern: RegExp
}

function lineOf([route, endpoint]: [string, string]): Line {
  const [method = '', path = ''] = route.split(' ')
  const source = path.replaceAll('.', '\\.').replace(/\{(\w+)\}/g, '(?<$1>[^/]+)')
  return { endpoint, method, pattern: new RegExp(`^${source}$`) }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

interface RouteTable {
  (method: string, path: string): Found | undefined
  /** their names, each once */
  readonly endpoints: readonly string[]
}

/** `GET /path/{param}` to an endpoint's name. The first that fits wins. */
export function routeTable(routes: Readonly<Record<string, string>>): RouteTable {
  const lines = Object.entries(routes).map(lineOf)
  const find = (method: string, path: string): Found | undefined => {
    for (const line of lines) {
      if (line.method !== method) continue
      const match = line.pattern.exec(path)
      if (!match) continue
      const params = Object.entries(match.groups ?? {}).map(([name, value]) => [name, decoded(value)])
      return { endpoint: line.endpoint, params: Object.fromEntries(params) as Record<string, string> }
    }
    return undefined
  }
  return Object.assign(find, { endpoints: [...new Set(Object.values(routes))] })
}
