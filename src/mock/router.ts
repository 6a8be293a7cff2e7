// Processes one request in the mock: path, key, permission, limit, faults, then the area.
import { ConnectorError } from '../core/errors.ts'
import type { AreaRoutes } from './area.ts'
import { assistantArea } from './assistant.ts'
import { auditArea } from './audit.ts'
import type { FaultBoard } from './faults.ts'
import { historyArea } from './history.ts'
import { mayCall } from './keys.ts'
import type { Area, Key, KeyOptions, Limits } from './keys.ts'
import { documented, failure, text } from './replies.ts'
import type { Reply } from './replies.ts'
import type { OpenRecord } from './requests.ts'
import type { FaultName, Switches } from './switches.ts'
import { vaultArea } from './vault.ts'
import type { Workspace } from './workspace.ts'

/** Areas are siblings: a new one is one more line here. */
const areas: readonly AreaRoutes[] = [auditArea, historyArea, vaultArea, assistantArea]

interface RouterDeps {
  readonly seed: number
  readonly workspaces: readonly Workspace[]
  readonly limits: Limits
  readonly switches: Switches
  readonly board: FaultBoard
}

interface Asked {
  readonly method: string
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
  /** epoch ms, by the server's clock */
  readonly now: number
  readonly ordinal: number
}

interface Caller {
  readonly workspace: Workspace
  readonly key: Key
}

function callerOf(workspaces: readonly Workspace[], authorization: string | undefined): Caller | undefined {
  const [, secret] = /^Bearer (\S+)$/i.exec(authorization ?? '') ?? []
  if (secret === undefined) return undefined
  for (const workspace of workspaces) {
    const key = workspace.keys.find((candidate) => candidate.secret === secret)
    if (key) return { workspace, key }
  }
  return undefined
}

function limited(deps: RouterDeps, asked: Asked, caller: Caller, area: Area, record: OpenRecord) {
  const minute = caller.workspace.minuteOf(area, caller.key)
  const waitMs = minute.refuses(deps.limits[area], asked.now)
  if (waitMs === undefined || deps.switches.count_refused === 'yes') {
    minute.count(asked.now)
    record.counted = true
  }
  return waitMs === undefined ? undefined : tooMany(area, deps.switches, asked.now, waitMs)
}

function tooMany(area: Area, switches: Switches, now: number, waitMs: number): Reply {
  const seconds = Math.max(1, Math.ceil(waitMs / 1000))
  if (switches.retry_after === 'none') return failure(429, documented[area][429])
  const date = new Date(Math.ceil((now + waitMs) / 1000) * 1000).toUTCString()
  return failure(429, documented[area][429], {
    'retry-after': switches.retry_after === 'date' ? date : String(seconds),
  })
}

/** The answer of a fault of kind `instead`. */
function insteadOf(fault: FaultName, area: Area, asked: Asked, switches: Switches): Reply {
  switch (fault) {
    case 'storm_429':
      return tooMany(area, switches, asked.now, 30_000)
    case 'unauthorized':
      return failure(401, documented[area][401])
    case 'forbidden':
      return failure(403, 'Forbidden')
    case 'redirect': {
      const moved = text(302, {})
      return {
        ...moved,
        headers: { ...moved.headers, location: 'https://elsewhere.invalid/api/v1/logs/audit' },
      }
    }
    default:
      return failure(500, documented[area][500])
  }
}

/** Fills `record` on the way. */
export function route(deps: RouterDeps, asked: Asked, record: OpenRecord): Reply {
  const { pathname, searchParams } = new URL(asked.url, 'http://mock.invalid')
  const target = areas
    .map((routes) => ({ routes, found: routes.find(asked.method, pathname) }))
    .find(({ found }) => found !== undefined)
  const caller = callerOf(deps.workspaces, asked.headers['authorization'])
  if (!caller) return failure(401, documented[target?.routes.area ?? 'audit'][401])
  const { workspace, key } = caller
  record.workspace = workspace.name
  record.key = key.user
  if (!target?.found) return failure(404, 'Not found')
  const { area } = target.routes
  const { endpoint, params } = target.found
  record.area = area
  record.endpoint = endpoint
  if (!mayCall(key, area, endpoint)) return failure(403, 'Forbidden')
  const refused = limited(deps, asked, caller, area, record)
  if (refused) return refused
  const [instead] = deps.board.striking('instead', asked.ordinal, asked.now)
  if (instead) {
    record.faults = [instead]
    return insteadOf(instead, area, asked, deps.switches)
  }
  const page = deps.board.striking('page', asked.ordinal, asked.now)
  record.faults = page
  workspace.advance(asked.now)
  return target.routes.answer({
    endpoint,
    method: asked.method,
    path: pathname,
    params,
    query: searchParams,
    headers: asked.headers,
    body: asked.body,
    now: asked.now,
    ordinal: asked.ordinal,
    workspace,
    key,
    switches: deps.switches,
    struck: new Set(page),
    seed: deps.seed,
  })
}

// API keys in command line syntax: `name:secret` or `name:secret:permission,permission`.

/** Possible permissions of a key: whole areas, and single endpoints of them. @internal for tests */
export const permissionWords: readonly string[] = areas.flatMap(({ area, find }) => [
  area,
  ...find.endpoints.map((endpoint) => `${area}.${endpoint}`),
])

const SHAPE = 'expected name:secret or name:secret:permission,permission'

/**
 * `domain` is that of the workspace's addresses: the name becomes the user of the calls. Throws ConnectorError `config_invalid`
 * with the valid form, without the secret.
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
