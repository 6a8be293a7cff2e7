// The audit log area: pages from an id, search by time, earliest and latest, and the entry that
// each such read leaves.
import { DAY_MS } from '../core/time.ts'
import { leaveTrace, routeTable } from './area.ts'
import type { AreaRoutes, Call } from './area.ts'
import { arranged, documented, emptyPage, failure, json } from './replies.ts'
import type { Page, Reply } from './replies.ts'
import { below, chanceOf, dice, mix } from './random.ts'

const YEAR_MS = 365 * DAY_MS
const MAX_TAKE = 1000
const INVALID = 'Invalid query input'
const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

const OPEN = Buffer.from('[')
const CLOSE = Buffer.from(']')

/** White space that JSON allows between elements, used occasionally. */
const spacings = [', ', ',\n', ' ,\r\n  ']

function whole(value: string | null): number | undefined {
  return value !== null && /^\d{1,12}$/.test(value) ? Number(value) : undefined
}

function typeOf(call: Call): string | undefined {
  const type = call.query.get('log_type')
  return type === null || type === '' ? undefined : type
}

function shuffled(page: Page, seed: number): Page {
  const random = dice(seed)
  const order = Array.from({ length: page.count }, (_, i) => i)
  for (let i = order.length - 1; i > 0; i--) {
    const j = below(random, i + 1)
    const moved = order[i] as number
    order[i] = order[j] as number
    order[j] = moved
  }
  return arranged(page, order)
}

function twice(page: Page): Page {
  return arranged(page, Array.from({ length: page.count }, (_, i) => (i % 4 === 0 ? [i, i] : [i])).flat())
}

/** Applies the faults to a correct page. */
function bent(call: Call, honest: Page): Page {
  const { struck, workspace, key } = call
  const repeated = struck.has('repeated_page') ? workspace.lastPages.get(key) : undefined
  if (honest.count > 0) workspace.lastPages.set(key, honest)
  if (struck.has('empty_page')) return emptyPage
  let page = repeated ?? honest
  if (struck.has('shuffled_page')) page = shuffled(page, mix(call.seed, call.ordinal))
  if (struck.has('duplicated')) page = twice(page)
  return page
}

const nothing: Reply = { ...json(204, []), headers: {} }

function gone(call: Call): Reply {
  const { gone: answer } = call.switches
  switch (answer) {
    case '404':
      return failure(404, 'Not found')
    case '410':
      return failure(410, 'Gone')
    case '400':
    case '422':
      return failure(Number(answer), INVALID)
    case 'empty':
      return json(200, [OPEN, CLOSE])
    case '204':
      return nothing
  }
}

function listed(call: Call): Reply {
  const { query, switches, now, workspace } = call
  const from = query.get('from')
  if (from === null || from === '' || !query.has('take')) return failure(400, documented.audit[400])
  const take = whole(query.get('take'))
  if (!uuid.test(from) || take === undefined || take < 1 || take > MAX_TAKE) return failure(400, INVALID)
  if (call.struck.has('purged')) workspace.purgeThrough(from)
  const honest = workspace.list(from.toLowerCase(), {
    take: switches.page_cap > 0 ? Math.min(take, switches.page_cap) : take,
    inclusive: switches.from === 'inclusive',
    type: typeOf(call),
    now,
  })
  if (!honest) return gone(call)
  const page = bent(call, honest)
  if (page.count === 0 && switches.none === '204') return nothing
  const odd = chanceOf(call.seed, call.ordinal) * 20 * spacings.length
  const body = [OPEN, page.joined(spacings[Math.floor(odd)] ?? ','), CLOSE]
  return { ...json(200, body), page, show: (at) => page.show('page', at) }
}

function none(call: Call, wrapped: boolean): Reply {
  switch (call.switches.none) {
    case '404':
      return failure(404, 'Not found')
    case 'null':
      return json(200, [Buffer.from(wrapped ? '{"log":null}' : 'null')])
    case 'empty_object':
      return json(200, [Buffer.from('{}')])
    case 'empty_body':
      return json(200, [])
    case '204':
      return nothing
  }
}

function one(call: Call, page: Page, where: 'search' | 'earliest' | 'latest', wrapped: boolean): Reply {
  if (page.count === 0) return none(call, wrapped)
  const entry = page.element(0)
  const body = wrapped ? [Buffer.from('{"log":'), entry, Buffer.from('}')] : [entry]
  return { ...json(200, body), page, show: (at) => page.show(where, at) }
}

function searched(call: Call): Reply {
  const given = call.query.get('time')
  if (given === null || given === '') return failure(400, documented.audit[400])
  const time = whole(given)
  if (time === undefined || time * 1000 < call.now - YEAR_MS) return failure(400, INVALID)
  const page = call.workspace.firstFrom(time * 1e6, call.now, typeOf(call))
  return one(call, page, 'search', call.switches.search_body === 'wrapped')
}

function reply(call: Call): Reply {
  const { workspace, now, switches } = call
  switch (call.endpoint) {
    case 'search':
      return searched(call)
    case 'earliest':
      return one(call, workspace.firstFrom(-Infinity, now, typeOf(call)), 'earliest', true)
    case 'latest':
      return one(call, workspace.latest(now, typeOf(call)), 'latest', switches.latest_body === 'wrapped')
    default:
      return listed(call)
  }
}

export const auditArea: AreaRoutes = {
  area: 'audit',
  find: routeTable({
    'GET /api/v1/logs/audit': 'page',
    'GET /api/v1/logs/audit/search': 'search',
    'GET /api/v1/logs/audit/earliest': 'earliest',
    'GET /api/v1/logs/audit/latest': 'latest',
  }),
  answer: (call) => {
    const answer = reply(call)
    if (call.switches.self_audit !== 'pages' || call.endpoint === 'page')
      leaveTrace(call, 'api:audit_log_fetch')
    return answer
  },
}
