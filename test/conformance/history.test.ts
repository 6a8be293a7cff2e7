// The history (specification §2.3, §2.4, §4.2), sentence by sentence.
import { describe, expect, it } from 'vitest'
import { DAY, days, email, seconds, SECOND, served, START, uuid } from './served.ts'
import type { Fields, Served } from './served.ts'

const paths = ['v2/history/usage', 'v2/history/query', 'v1/history/usage', 'v1/history/query'] as const
const v2 = ['usage', 'query'] as const

const range = (from: number, to: number) => `?start_time=${seconds(from)}&end_time=${seconds(to)}`

async function eventsOf(
  context: Served,
  path: string,
  from = START - 4 * DAY,
  to = START,
): Promise<Fields[]> {
  const body = (await context.get(`/api/${path}${range(from, to)}`)) as Fields[] | { events: Fields[] }
  return 'events' in body ? body.events : body
}

/** Read once. */
const read = new Map<string, Promise<Fields[]>>()
function all(path: (typeof paths)[number]): Promise<Fields[]> {
  let events = read.get(path)
  if (!events) read.set(path, (events = served({ traffic: days }).then((context) => eventsOf(context, path))))
  return events
}

const errorOf = (heard: { status: number; json(): unknown }) => [
  heard.status,
  (heard.json() as Fields)['error'],
]

const usageFields = [
  'unique_usage_id',
  'utc_time',
  'user',
  'product_surface_area',
  'subsurface',
  'access_point',
  'action',
  'cm_id',
  'parent_thread_id',
  'source',
  'playbook_name',
  'review_table_name',
  'space_name',
  'vault_project_name',
  'workflow_name',
  'metadata',
]
const queryFields = ['query', 'response', 'feedback_comments', 'feedback_sentiments', 'link']

describe('§2.3 history usage event, v2', () => {
  it('§2.3 every field is there', async () => {
    const events = await all('v2/history/usage')
    expect(events.length).toBeGreaterThan(200)
    for (const event of events) expect(Object.keys(event).sort()).toEqual([...usageFields].sort())
  })

  it('§2.3 unique_usage_id: a UUID, unique per usage event', async () => {
    const ids = (await all('v2/history/usage')).map((event) => event['unique_usage_id'])
    for (const id of ids) expect(id).toMatch(uuid)
    expect(new Set(ids).size).toBe(ids.length)
  })

  it('§2.3 utc_time: YYYY-MM-DD HH:MM:SS, in UTC', async () => {
    for (const event of await all('v2/history/usage')) {
      expect(event['utc_time']).toMatch(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/)
      const at = Date.parse(`${(event['utc_time'] as string).replace(' ', 'T')}Z`)
      expect(at).toBeGreaterThanOrEqual(START - 4 * DAY)
      expect(at).toBeLessThan(START)
    }
  })

  it('§2.3 user: an e-mail', async () => {
    for (const event of await all('v2/history/usage')) expect(event['user']).toMatch(email)
  })

  it('§2.3 product_surface_area: one of its seven values', async () => {
    const met = new Set((await all('v2/history/usage')).map((event) => event['product_surface_area']))
    const documented = ['ASSISTANT', 'VAULT', 'PLAYBOOK', 'WORKFLOW', 'WORD', 'MAIL', 'DRAFT']
    for (const area of met) expect(documented).toContain(area)
    expect(met.size).toBeGreaterThan(4)
  })

  it('§2.3 subsurface: one value, or several joined by a comma and a space in one string', async () => {
    const documented = [
      'ASSISTANT_THREAD',
      'ASSISTANT_THREAD_FOLLOWUP',
      'REVIEW_TABLE',
      'WORKFLOW_PUBLISHED',
      'WORKFLOW_TEST',
    ]
    const texts = (await all('v2/history/usage')).map((event) => event['subsurface'] as string)
    for (const value of new Set(texts.flatMap((text) => (text === '' ? [] : text.split(', ')))))
      expect(documented).toContain(value)
    expect(texts.some((text) => text.includes(', '))).toBe(true)
  })

  it('§2.3 access_point, action, cm_id and source: strings', async () => {
    for (const event of await all('v2/history/usage'))
      for (const name of ['access_point', 'action', 'cm_id', 'source'])
        expect(event[name]).toEqual(expect.any(String))
  })

  it('§2.3 parent_thread_id: an integer', async () => {
    for (const event of await all('v2/history/usage'))
      expect(Number.isInteger(event['parent_thread_id'])).toBe(true)
  })

  it('§2.3 resource names: strings, empty when not applicable', async () => {
    const names = ['playbook_name', 'review_table_name', 'space_name', 'vault_project_name', 'workflow_name']
    for (const name of names) {
      const values = (await all('v2/history/usage')).map((event) => event[name])
      for (const value of values) expect(value).toEqual(expect.any(String))
      expect(values).toContain('')
      expect(values.some((value) => value !== '')).toBe(true)
    }
  })

  it('§2.3 metadata: an object, which may be empty', async () => {
    for (const event of await all('v2/history/usage'))
      expect(Object.prototype.toString.call(event['metadata'])).toBe('[object Object]')
  })
})

describe('§2.4 history query event, v2', () => {
  it('§2.4 all fields of the usage event, and its own five', async () => {
    const events = await all('v2/history/query')
    expect(events.length).toBeGreaterThan(100)
    for (const event of events)
      expect(Object.keys(event).sort()).toEqual([...usageFields, ...queryFields].sort())
  })

  it('§2.4 query and response: full texts', async () => {
    for (const event of await all('v2/history/query'))
      for (const name of ['query', 'response']) expect((event[name] as string).length).toBeGreaterThan(0)
  })

  it('§2.4 feedback: empty when there is none', async () => {
    const events = await all('v2/history/query')
    for (const name of ['feedback_comments', 'feedback_sentiments']) {
      for (const event of events) expect(event[name]).toEqual(expect.any(String))
      expect(events.some((event) => event[name] === '')).toBe(true)
    }
  })

  it('§2.4 link: a URL', async () => {
    for (const event of await all('v2/history/query'))
      expect(URL.canParse(event['link'] as string)).toBe(true)
  })

  it('§1 usage events are metadata only: no prompt and no answer', async () => {
    for (const event of await all('v2/history/usage'))
      for (const name of queryFields) expect(event).not.toHaveProperty(name)
  })
})

describe('§4.2 history APIs', () => {
  it.each(v2)('§4.2 v2 %s: an object {events: [...]}', async (kind) => {
    const context = await served({ traffic: days })
    expect(await context.get(`/api/v2/history/${kind}${range(START - DAY, START)}`)).toEqual({
      events: expect.any(Array) as unknown,
    })
  })

  it.each(v2)('§4.2 v1 %s: a flat array', async (kind) => {
    const events = await all(`v1/history/${kind}`)
    expect(Array.isArray(events)).toBe(true)
    expect(events.length).toBeGreaterThan(100)
  })

  it('§2.4 v1 rows have the fields that are named: Task, Client Matter #, Documents, email, timestamp, source', async () => {
    for (const row of await all('v1/history/query'))
      for (const name of ['Task', 'Client Matter #', 'Documents', 'email', 'timestamp', 'source'])
        expect(row).toHaveProperty([name])
  })

  it.each(paths)('§4.2 §7 %s: `start_time` is required', async (path) => {
    const { ask } = await served()
    expect(errorOf(await ask(`/api/${path}?end_time=${seconds(START)}`))).toEqual([400, 'Missing start_time'])
  })

  it.each(paths)('§4.2 %s: only events of the range', async (path) => {
    const context = await served({ traffic: days })
    const [from, to] = [START - 2 * DAY, START - DAY]
    const events = await eventsOf(context, path, from, to)
    expect(events.length).toBeGreaterThan(20)
    for (const event of events) {
      const text = (event['utc_time'] ?? event['timestamp']) as string
      const at = Date.parse(`${text.replace(' ', 'T')}Z`)
      expect(at).toBeGreaterThanOrEqual(from - SECOND)
      expect(at).toBeLessThan(to + SECOND)
    }
  })

  it.each(paths)('§4.2 %s: two halves of a range hold what the whole holds', async (path) => {
    const context = await served({ traffic: days })
    const [from, middle, to] = [START - 2 * DAY, START - DAY, START]
    const texts = async (a: number, b: number) =>
      (await eventsOf(context, path, a, b)).map((event) => JSON.stringify(event))
    const halves = [...(await texts(from, middle)), ...(await texts(middle, to))]
    expect(halves.sort()).toEqual((await texts(from, to)).sort())
  })

  it.each(paths)('§4.2 §8 %s: the range may span at most 30 days', async (path) => {
    const { ask } = await served()
    expect((await ask(`/api/${path}${range(START - 30 * DAY, START)}`)).status).toBe(200)
    expect((await ask(`/api/${path}${range(START - 30 * DAY - SECOND, START)}`)).status).toBe(400)
  })

  it('§1 the history is of the whole workspace: whoever asks gets the events of all its users, and of no other', async () => {
    const context = await served({ traffic: days, workspaces: [{ name: 'acme' }, { name: 'beta' }] })
    const users = (await eventsOf(context, 'v2/history/usage')).map((event) => event['user'])
    expect(new Set(users).size).toBeGreaterThan(10)
    for (const user of users) expect(user).toMatch(/@acme\.example$/)
  })

  it('§6 usage events, query events and audit entries tell of the same deeds', async () => {
    const usage = new Set((await all('v2/history/usage')).map((event) => event['unique_usage_id']))
    for (const event of await all('v2/history/query')) expect(usage).toContain(event['unique_usage_id'])
  })
})

describe('§9 history versions', () => {
  it('§9 v2 tells a new thread from a follow-up', async () => {
    const texts = (await all('v2/history/usage')).map((event) => event['subsurface'] as string)
    expect(texts.some((text) => text.split(', ').includes('ASSISTANT_THREAD'))).toBe(true)
    expect(texts.some((text) => text.split(', ').includes('ASSISTANT_THREAD_FOLLOWUP'))).toBe(true)
  })

  it('§9 v2 may not be there yet: its paths answer 404 or 403, v1 is as before', async () => {
    for (const status of ['404', '403'] as const) {
      const { ask } = await served({ switches: { history_v2: status } })
      const query = range(START - DAY, START)
      expect((await ask(`/api/v2/history/usage${query}`)).status).toBe(Number(status))
      expect((await ask(`/api/v1/history/usage${query}`)).status).toBe(200)
    }
  })
})
