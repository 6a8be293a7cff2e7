// Processes one request in the mock: path, key, permission, limit, faults, then the area.
import { ConnectorError } from '../core/errors.ts'
import { failure, json } from './answer.ts'
import type { Reply } from './answer.ts'
import { assistantArea } from './assistant.ts'
import { auditArea } from './audit.ts'
import { traceOf } from './call.ts'
import type { AreaRoutes, Endpoint } from './call.ts'
import type { FaultPlans } from './faults.ts'
import { historyArea } from './history.ts'
import type { Area, Key, KeyOptions, Limits } from './keys.ts'
import type { FaultName, Switches } from './switches.ts'
import { vaultArea } from './vault.ts'
import type { Workspace } from './workspace.ts'

/** A new area is one more word here. */
const areas: readonly AreaRoutes[] = [auditArea, historyArea, vaultArea, assistantArea]

interface Route extends Endpoint {
  readonly area: Area
  readonly method: string
  readonly path: RegExp
}

const routes: readonly Route[] = areas.flatMap(({ area, endpoints }) =>
  Object.entries(endpoints).map(([route, endpoint]) => {
    const [method = '', path = ''] = route.split(' ')
    const source = path.replaceAll('.', '\\.').replace(/\{(\w+)\}/g, '(?<$1>[^/]+)')
    return { ...endpoint, area, method, path: new RegExp(`^${source}$`) }
  }),
)

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** The record of a request: the ground truth of rate limits. Instants are by the true clock. */
export interface RequestRecord {
  /** epoch ms: when it arrived, which is when it counted */
  readonly at: number
  /** when its last byte was sent or its connection broke */
  readonly answeredAt: number | undefined
  readonly area: Area | undefined
  readonly endpoint: string | undefined
  /** path and query as sent */
  readonly target: string
  readonly workspace: string | undefined
  /** the user of its key, never the secret */
  readonly key: string | undefined
  /** 0 if the connection was reset before an answer */
  readonly status: number
  /** Whether it counted against the rate limit. */
  readonly counted: boolean
  readonly faults: readonly FaultName[]
  /** elements in the body */
  readonly elements: number
  readonly whole: boolean
}

export type OpenRecord = { -readonly [K in keyof RequestRecord]: RequestRecord[K] }

interface RouterDeps {
  readonly seed: number
  readonly workspaces: readonly Workspace[]
  readonly limits: Limits
  readonly switches: Switches
  readonly plans: FaultPlans
}

interface Arrived {
  readonly method: string
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
  /** epoch ms, by the server's clock */
  readonly now: number
  readonly ordinal: number
}

function callerOf(workspaces: readonly Workspace[], authorization: string | undefined) {
  const [, secret] = /^Bearer (\S+)$/i.exec(authorization ?? '') ?? []
  const all = workspaces.flatMap((workspace) => workspace.keys.map((key) => ({ workspace, key })))
  return all.find(({ key }) => key.secret === secret)
}

function tooMany(area: Area, { retry_after: hint }: Switches, now: number, waitMs: number): Reply {
  const seconds = String(Math.max(1, Math.ceil(waitMs / 1000)))
  const date = new Date(Math.ceil((now + waitMs) / 1000) * 1000).toUTCString()
  const headers = hint === 'none' ? {} : { 'retry-after': hint === 'date' ? date : seconds }
  return failure(area, 429, undefined, headers)
}

/** The refusal above the limit; a refused request counts only if the switch says so. */
function overLimit(
  { limits, switches }: RouterDeps,
  { workspace, key }: { workspace: Workspace; key: Key },
  area: Area,
  now: number,
  record: OpenRecord,
): Reply | undefined {
  const minute = workspace.minuteOf(area, key)
  const waitMs = minute.refuses(limits[area], now)
  record.counted = waitMs === undefined || switches.count_refused === 'yes'
  if (record.counted) minute.count(now)
  return waitMs === undefined ? undefined : tooMany(area, switches, now, waitMs)
}

/** The answer of a fault of kind `instead`. */
function insteadOf(fault: FaultName, area: Area, now: number, switches: Switches): Reply {
  if (fault === 'storm_429') return tooMany(area, switches, now, 30_000)
  if (fault === 'unauthorized') return failure(area, 401)
  if (fault === 'forbidden') return failure(area, 403)
  if (fault !== 'redirect') return failure(area, 500)
  const moved = json(302, '{}')
  return { ...moved, headers: { ...moved.headers, location: 'https://elsewhere.invalid/api/v1/logs/audit' } }
}

/** Fills `record` on the way. */
export function answerTo(deps: RouterDeps, arrived: Arrived, record: OpenRecord): Reply {
  const { seed, switches, plans } = deps
  const { method, headers, body, now, ordinal } = arrived
  const { pathname, searchParams: query } = new URL(arrived.url, 'http://mock.invalid')
  const route = routes.find((candidate) => candidate.method === method && candidate.path.test(pathname))
  const caller = callerOf(deps.workspaces, headers['authorization'])
  if (!caller) return failure(route?.area ?? 'audit', 401)
  const { workspace, key } = caller
  record.workspace = workspace.name
  record.key = key.user
  if (!route) return failure('audit', 404)
  const { area, name } = route
  record.area = area
  record.endpoint = name
  if (![area, `${area}.${name}`].some((word) => key.permissions.has(word))) return failure(area, 403)
  const refusal = overLimit(deps, caller, area, now, record)
  if (refusal) return refusal
  const [instead] = plans.striking('instead', ordinal, now)
  if (instead) {
    record.faults = [instead]
    return insteadOf(instead, area, now, switches)
  }
  const struck = plans.striking('page', ordinal, now)
  record.faults = struck
  workspace.advance(now)
  const found = Object.entries(route.path.exec(pathname)?.groups ?? {})
  const params = Object.fromEntries(found.map(([param, value]) => [param, decoded(value)]))
  const common = { area, params, query, headers, body, now, ordinal, workspace, key, switches, seed }
  const call = { ...common, struck: new Set(struck) }
  const answer = route.answer(call)
  // A response never contains its own entry: it is added afterwards.
  const type = switches.self_audit === 'off' ? undefined : route.trace?.(switches)
  if (type !== undefined) workspace.add(traceOf(call, type), now, 'self')
  return answer
}

/** Possible permissions of a key: whole areas, and single endpoints of them. @internal for tests */
export const permissionWords: readonly string[] = areas.flatMap(({ area, endpoints }) => [
  area,
  ...new Set(Object.values(endpoints).map(({ name }) => `${area}.${name}`)),
])

const SHAPE = 'expected name:secret or name:secret:permission,permission'

/**
 * Reads a key of the command line: the name, at `domain`, becomes the user of the calls. Throws
 * ConnectorError `config_invalid` with the valid form, without the secret.
 */
export function readKey(text: string, domain: string): KeyOptions {
  const match = /^([\w.-]{1,64}):([\x21-\x39\x3b-\x7e]+)(?::([\w.,]*))?$/.exec(text)
  const [, name = '', key = '', words] = match ?? []
  if (!match) throw new ConnectorError('config_invalid', `key: ${SHAPE}`)
  const permissions = words?.split(',').filter((word) => word !== '')
  const unknown = permissions?.find((word) => !permissionWords.includes(word))
  if (unknown !== undefined)
    throw new ConnectorError(
      'config_invalid',
      `key ${name}: no such permission as ${unknown}; there are ${permissionWords.join(', ')}`,
    )
  return { key, user: `${name}@${domain}`, ...(permissions ? { permissions } : {}) }
}
