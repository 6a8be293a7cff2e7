// An area of the API as the mock's router sees it: areas are siblings with their own paths, and do
// not know each other.
import type { Area, Key } from './keys.ts'
import type { Reply } from './replies.ts'
import type { FaultName, Switches } from './switches.ts'
import type { NewEntry, Workspace } from './workspace.ts'

/** One request with its endpoint and key, admitted by the rate limit. */
export interface Call {
  readonly endpoint: string
  readonly method: string
  readonly path: string
  /** of the path, decoded */
  readonly params: Readonly<Record<string, string>>
  readonly query: URLSearchParams
  readonly headers: Readonly<Record<string, string>>
  /** As received; empty if there is none. */
  readonly body: Uint8Array
  /** epoch ms, by the server's clock */
  readonly now: number
  /** of all requests, from 1 */
  readonly ordinal: number
  readonly workspace: Workspace
  readonly key: Key
  readonly switches: Switches
  /** the `page` faults that apply to it */
  readonly struck: ReadonlySet<FaultName>
  /** for choices within a fault */
  readonly seed: number
}

export interface AreaRoutes {
  readonly area: Area
  /** Undefined if the path is not in this area: see `routeTable`. */
  readonly find: RouteTable
  answer(call: Call): Reply
}

/** An area's data for a workspace, created at the first use. */
export function perWorkspace<T extends object>(make: (workspace: Workspace) => T) {
  const made = new WeakMap<Workspace, T>()
  return (workspace: Workspace): T => {
    let state = made.get(workspace)
    if (!state) made.set(workspace, (state = make(workspace)))
    return state
  }
}

/** The audit entry of a call: who made it, from where and with which client. */
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

/** Reads leave an entry in the audit log. A response never contains its own entry. */
export function leaveTrace(call: Call, type: string, data?: unknown): void {
  if (call.switches.self_audit !== 'off') call.workspace.add(traceOf(call, type, data), call.now, 'self')
}

// Maps methods and path patterns of an area to endpoint names and path parameters.

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

/** Maps `GET /path/{param}` to the name of an endpoint. The first match wins. */
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
