// The audit log (specification §2.1, §2.2, §4.1), sentence by sentence.
import { describe, expect, it } from 'vitest'
import {
  audit,
  DAY,
  email,
  HOUR,
  MINUTE,
  seconds,
  SECOND,
  served,
  stamp,
  START,
  UNKNOWN,
  uuid,
  days,
} from './served.ts'
import type { Fields, Served } from './served.ts'

interface Entry {
  readonly id: string
  readonly timestamp: string
  readonly type: string
  readonly user: string
  readonly ip: string
  readonly user_agent: string
  readonly data: Fields
}

const quiet = { switches: { self_audit: 'off' } } as const
const busy = { ...quiet, traffic: days }

async function pages(context: Served, filter = '', take = 1000): Promise<Entry[]> {
  const { log } = (await context.get(`${audit}/earliest`)) as { log: Entry }
  const found: Entry[] = filter === '' || filter.endsWith(`=${log.type}`) ? [log] : []
  for (let from = log.id; ;) {
    const page = (await context.get(`${audit}?from=${from}&take=${take}${filter}`)) as Entry[]
    if (page.length === 0) return found
    found.push(...page)
    from = page.at(-1)?.id ?? ''
  }
}

/** Entries at these distances from the start, oldest first. */
function add(context: Served, ages: readonly number[], type = 'auth:login'): string[] {
  return ages.map((age) => context.mock.add({ at: START - age, type }).id)
}

/** Read once: entries do not change. */
let read: Promise<Entry[]> | undefined
const all = () => (read ??= served(busy).then((context) => pages(context)))

const errorOf = (heard: { status: number; json(): unknown }) => [
  heard.status,
  (heard.json() as Fields)['error'],
]

describe('§2.1 audit log entry', () => {
  it('§2.1 id: a UUID, unique', async () => {
    const entries = await all()
    expect(entries.length).toBeGreaterThan(2000)
    for (const { id } of entries) expect(id).toMatch(uuid)
    expect(new Set(entries.map(({ id }) => id)).size).toBe(entries.length)
  })

  it('§2.1 id: usable as the `from` cursor', async () => {
    const context = await served(quiet)
    const ids = add(context, [3 * HOUR, 2 * HOUR, HOUR])
    const page = (await context.get(`${audit}?from=${ids[1] ?? ''}&take=10`)) as Entry[]
    expect(page.map(({ id }) => id)).toEqual([ids[2]])
  })

  it('§2.1 timestamp: ISO 8601 to the microsecond, written without a zone offset', async () => {
    for (const { timestamp } of await all()) {
      expect(timestamp).toMatch(stamp)
      expect(Date.parse(`${timestamp}Z`)).toBeLessThanOrEqual(START)
    }
  })

  it('§2.1 every field is there: type, user (an e-mail), ip and user_agent strings, data an object', async () => {
    for (const entry of await all()) {
      expect(Object.keys(entry).sort()).toEqual(
        ['data', 'id', 'ip', 'timestamp', 'type', 'user', 'user_agent'].sort(),
      )
      for (const text of [entry.type, entry.ip, entry.user_agent]) expect(text).toEqual(expect.any(String))
      expect(entry.user).toMatch(email)
      expect(Object.prototype.toString.call(entry.data)).toBe('[object Object]')
    }
  })

  it('§2.1 data of admin:fetch_workspace_history: begin_date and end_date with offset, num_events an integer', async () => {
    const entries = (await all()).filter(({ type }) => type === 'admin:fetch_workspace_history')
    const zoned = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/
    expect(entries.length).toBeGreaterThan(3)
    for (const { data } of entries) {
      expect(data['begin_date']).toMatch(zoned)
      expect(data['end_date']).toMatch(zoned)
      expect(Number.isInteger(data['num_events'])).toBe(true)
    }
  })

  it('§2.1 data of admin:client_view_workspace_history_item: event_id an integer', async () => {
    const entries = (await all()).filter(({ type }) => type === 'admin:client_view_workspace_history_item')
    expect(entries.length).toBeGreaterThan(3)
    for (const { data } of entries) expect(Number.isInteger(data['event_id'])).toBe(true)
  })

  it('§2.1 entries are immutable: the same bytes whenever and however they are read', async () => {
    const context = await served({ ...busy, traffic: { ...days, exotic: 0.3 } })
    const { log } = (await context.get(`${audit}/earliest`)) as { log: Entry }
    const path = `${audit}?from=${log.id}&take=500`
    const before = (await context.get(path)) as Entry[]
    context.clock.pass(DAY)
    expect(await context.get(path)).toEqual(before)
    const found = (await context.get(
      `${audit}/search?time=${seconds(Date.parse(`${log.timestamp}Z`))}`,
    )) as Fields
    expect(found['log']).toEqual(log)
  })
})

describe('§2.2 audit log types', () => {
  it('§2.2 are written <group>:<action>, in the groups api, auth, admin, user and system', async () => {
    const entries = await all()
    for (const { type } of entries) expect(type).toMatch(/^[a-z]+:[a-z_]+$/)
    const groups = new Set(entries.map(({ type }) => type.split(':')[0]))
    for (const group of ['api', 'auth', 'admin', 'user', 'system']) expect(groups).toContain(group)
  })

  it('§2.2 a workspace sees events of its own users', async () => {
    const context = await served({ ...busy, workspaces: [{ name: 'acme' }, { name: 'beta' }] })
    for (const { user } of await pages(context)) expect(user).toMatch(/@acme\.example$/)
  })
})

describe('§4.1 search', () => {
  it('§4.1 search: the entry at `time`, or the first after it', async () => {
    const context = await served(quiet)
    const ids = add(context, [30 * SECOND, 20 * SECOND, 10 * SECOND])
    const at = async (age: number) =>
      ((await context.get(`${audit}/search?time=${seconds(START - age)}`)) as { log: Entry }).log.id
    expect(await at(20 * SECOND)).toBe(ids[1])
    expect(await at(19 * SECOND)).toBe(ids[2])
    expect(await at(HOUR)).toBe(ids[0])
  })

  it('§4.1 search: `time` is required', async () => {
    const { ask } = await served()
    expect(errorOf(await ask(`${audit}/search`))).toEqual([400, 'Missing required filters'])
  })

  it('§4.1 search: `time` is an integer', async () => {
    const { ask } = await served()
    for (const time of ['now', '1.5', '2026-01-01'])
      expect((await ask(`${audit}/search?time=${time}`)).status).toBe(400)
  })

  it('§4.1 §8 search: `time` is at most one year before now', async () => {
    const context = await served(quiet)
    add(context, [400 * DAY, HOUR])
    expect((await context.ask(`${audit}/search?time=${seconds(START - 365 * DAY)}`)).status).toBe(200)
    expect((await context.ask(`${audit}/search?time=${seconds(START - 366 * DAY)}`)).status).toBe(400)
  })

  it('§4.1 search: `log_type` is optional and filters', async () => {
    const context = await served(quiet)
    add(context, [HOUR])
    const [id] = add(context, [MINUTE], 'auth:failed')
    const found = await context.get(`${audit}/search?time=${seconds(START - 2 * HOUR)}&log_type=auth:failed`)
    expect(found).toMatchObject({ log: { id } })
  })
})

describe('§4.1 earliest and latest', () => {
  it('§4.1 earliest: the earliest entry, as an object whose `log` key holds it', async () => {
    const context = await served(quiet)
    const [id] = add(context, [HOUR, MINUTE])
    expect(await context.get(`${audit}/earliest`)).toMatchObject({ log: { id } })
    context.mock.setSwitches({ search_body: 'bare', latest_body: 'bare' })
    expect(await context.get(`${audit}/earliest`)).toMatchObject({ log: { id } })
  })

  it('§4.1 latest: the latest entry', async () => {
    const context = await served(quiet)
    const ids = add(context, [HOUR, MINUTE])
    expect(await context.get(`${audit}/latest`)).toMatchObject({ log: { id: ids[1] } })
  })

  it.each(['earliest', 'latest'])('§4.1 %s: `log_type` is optional and filters', async (which) => {
    const context = await served(quiet)
    add(context, [3 * HOUR])
    const [id] = add(context, [2 * HOUR], 'auth:failed')
    add(context, [HOUR])
    expect(await context.get(`${audit}/${which}?log_type=auth:failed`)).toMatchObject({ log: { id } })
  })
})

describe('§4.1 page', () => {
  it('§4.1 page: `from` is required', async () => {
    const { ask } = await served()
    expect(errorOf(await ask(`${audit}?take=10`))).toEqual([400, 'Missing required filters'])
  })

  it('§4.1 page: `take` is required', async () => {
    const { ask } = await served()
    expect(errorOf(await ask(`${audit}?from=${UNKNOWN}`))).toEqual([400, 'Missing required filters'])
  })

  it('§4.1 page: `from` is a UUID', async () => {
    const { ask } = await served()
    expect((await ask(`${audit}?from=42&take=10`)).status).toBe(400)
  })

  it('§4.1 §8 page: `take` is an integer of at most 1000', async () => {
    const context = await served(busy)
    const { log } = (await context.get(`${audit}/earliest`)) as { log: Entry }
    const ask = (take: string) => context.ask(`${audit}?from=${log.id}&take=${take}`)
    expect((await ask('1000')).json()).toHaveLength(1000)
    for (const take of ['1001', '1.5', 'all']) expect((await ask(take)).status).toBe(400)
  })

  it('§4.1 page: a JSON array going forward in time, oldest first', async () => {
    const stamps = (await all()).map(({ timestamp }) => timestamp)
    expect(stamps).toEqual([...stamps].sort())
  })

  it('§4.1 page: an empty array when no further entries exist', async () => {
    const context = await served(quiet)
    const [id = ''] = add(context, [HOUR])
    const heard = await context.ask(`${audit}?from=${id}&take=10`)
    expect([heard.status, heard.json()]).toEqual([200, []])
  })

  it('§4.1 page: `log_type` filters to entries of exactly that type', async () => {
    const context = await served(busy)
    const wanted = (await pages(context)).filter(({ type }) => type === 'auth:login').map(({ id }) => id)
    const logins = await pages(context, '&log_type=auth:login')
    expect(logins.map(({ id }) => id)).toEqual(wanted)
    expect(await pages(context, '&log_type=auth')).toEqual([])
    expect(await pages(context, '&log_type=AUTH:LOGIN')).toEqual([])
  })

  it.each([1000, 250])(
    '§4.1 pagination: the last id as the next `from`, until an empty array, gives each entry once (take %i)',
    async (take) => {
      const context = await served(busy)
      const ids = (await pages(context, '', take)).map(({ id }) => id)
      expect(ids).toEqual(context.mock.entries().map(({ id }) => id))
    },
  )

  it('§7 a fetch that failed is retried from the same `from` and skips nothing', async () => {
    const context = await served({ ...quiet, faults: { error_500: { nth: [2] }, cut: { nth: [3] } } })
    const ids = add(context, [3 * HOUR, 2 * HOUR, HOUR])
    const path = `${audit}?from=${ids[0] ?? ''}&take=10`
    const before = (await context.ask(path)).text
    expect((await context.ask(path)).status).toBe(500)
    await expect(context.ask(path)).rejects.toThrow()
    expect((await context.ask(path)).text).toBe(before)
  })
})
