// The audit log area: pages from an id, search by time, earliest and latest.
import { DAY_MS } from '../core/time.ts'
import { inMemory, json, replyOf, separatorOf } from './answer.ts'
import type { Reply } from './answer.ts'
import { faultyPage, pageOrRepeated, refused } from './call.ts'
import type { AreaRoutes, Call, Endpoint } from './call.ts'
import { joinedBytes, showAll } from './entry.ts'
import type { Entry, ShownIn, View } from './entry.ts'
import { chanceOf } from './random.ts'
import type { Switches } from './switches.ts'

const YEAR_MS = 365 * DAY_MS
const MAX_TAKE = 1000
const INVALID = 'Invalid query input'
const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

function integerIn({ query }: Call, name: string): number | undefined {
  const value = query.get(name)
  return value !== null && /^\d{1,12}$/.test(value) ? Number(value) : undefined
}

function viewOf({ query, now }: Call): View {
  return { now, type: query.get('log_type') || undefined }
}

const nothing: Reply = { ...json(204), headers: {} }

/** What a page answers whose `from` is unknown or purged. */
function gone(call: Call): Reply {
  const { gone: answer } = call.switches
  if (answer === '204') return nothing
  if (answer === 'empty') return json(200, '[]')
  return refused(call, Number(answer), answer === '400' || answer === '422' ? INVALID : undefined)
}

function listed(call: Call): Reply {
  const { query, switches, workspace } = call
  const from = query.get('from') ?? ''
  if (from === '' || !query.has('take')) return refused(call, 400)
  const take = integerIn(call, 'take')
  if (!uuid.test(from) || take === undefined || take < 1 || take > MAX_TAKE)
    return refused(call, 400, INVALID)
  if (call.struck.has('purged')) workspace.purgeThrough(from)
  const most = switches.page_cap > 0 ? Math.min(take, switches.page_cap) : take
  const correct = workspace.pageFrom(from.toLowerCase(), switches.from === 'inclusive', most, viewOf(call))
  if (!correct) return gone(call)
  const page = faultyPage(call, pageOrRepeated(call, correct))
  if (page.length === 0 && switches.none === '204') return nothing
  const separator = separatorOf(chanceOf(call.seed, call.ordinal))
  return replyWith(page, 'page', ['[', ']'], separator)
}

function replyWith(
  page: readonly Entry[],
  where: ShownIn,
  [open, close]: readonly [string, string],
  separator = ',',
): Reply {
  const pieces = [Buffer.from(open), joinedBytes(page, separator), Buffer.from(close)]
  const again = () => Buffer.concat([Buffer.from(','), joinedBytes(page, ',')])
  const body = page.length === 0 ? inMemory(pieces) : inMemory(pieces, again)
  return { ...replyOf(200, body), elements: page.length, show: (at) => showAll(page, where, at) }
}

function one(call: Call, found: readonly Entry[], where: ShownIn, form: 'wrapped' | 'bare'): Reply {
  const isWrapped = form === 'wrapped'
  if (found.length > 0) return replyWith(found, where, isWrapped ? ['{"log":', '}'] : ['', ''])
  switch (call.switches.none) {
    case '404':
      return refused(call, 404)
    case 'null':
      return json(200, isWrapped ? '{"log":null}' : 'null')
    case 'empty_object':
      return json(200, '{}')
    case 'empty_body':
      return json(200)
    case '204':
      return nothing
  }
}

function searched(call: Call): Reply {
  if (!call.query.get('time')) return refused(call, 400)
  const time = integerIn(call, 'time')
  if (time === undefined || time * 1000 < call.now - YEAR_MS) return refused(call, 400, INVALID)
  const found = call.workspace.ledger.firstFrom(time * 1e6, viewOf(call))
  return one(call, found, 'search', call.switches.search_body)
}

function earliest(call: Call): Reply {
  return one(call, call.workspace.ledger.firstFrom(-Infinity, viewOf(call)), 'earliest', 'wrapped')
}

function latest(call: Call): Reply {
  return one(call, call.workspace.ledger.latest(viewOf(call)), 'latest', call.switches.latest_body)
}

const FETCH = 'api:audit_log_fetch'

/** An endpoint whose calls the switch `self_audit` may leave out of the log. */
const lookup = (name: string, answer: Endpoint['answer']): Endpoint => ({
  name,
  answer,
  trace: ({ self_audit }: Switches) => (self_audit === 'pages' ? undefined : FETCH),
})

export const auditArea: AreaRoutes = {
  area: 'audit',
  endpoints: {
    'GET /api/v1/logs/audit': { name: 'page', answer: listed, trace: () => FETCH },
    'GET /api/v1/logs/audit/search': lookup('search', searched),
    'GET /api/v1/logs/audit/earliest': lookup('earliest', earliest),
    'GET /api/v1/logs/audit/latest': lookup('latest', latest),
  },
}
