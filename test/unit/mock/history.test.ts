// The history area: events that agree with the audit
// log, ranges per switch, content that changes later.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { questionTypes } from '../../../src/mock/history-event.ts'
import { call, history } from './caller.ts'
import { START, context } from './stage.ts'

const HOUR = 3_600_000
const DAY = 24 * HOUR
const limits = { history: 0 }
const traffic = { entriesPerHour: 60, since: START - 3 * DAY }

const second = (atUs: number) =>
  new Date(Math.floor(atUs / 1e6) * 1000).toISOString().slice(0, 19).replace('T', ' ')
const parsed = (raw: Uint8Array) => JSON.parse(Buffer.from(raw).toString()) as Record<string, unknown>

describe('history events', () => {
  it.each([
    ['traffic', { traffic }],
    ['a backlog', { traffic: { ...traffic, backlog: 8000 } }],
  ])('of %s match the audit entries one to one, by user and second', async (_, options) => {
    const { mock } = context({ ...options, limits, seed: 5 })
    mock.add({ type: 'api:create_query', user: 'bot@acme.example', at: START - HOUR })
    const asks = mock.entries().filter(({ type }) => questionTypes.includes(type))
    const of = (entry: { atUs: number; raw: Uint8Array }) =>
      `${second(entry.atUs)} ${String(parsed(entry.raw)['user'])}`
    const usage = await history(mock, 'v2/history/usage', START - 4 * DAY, START)
    const said = usage.map((event) => `${String(event['utc_time'])} ${String(event['user'])}`)
    expect(asks.length).toBeGreaterThan(500)
    expect(said.sort()).toEqual(asks.map(of).sort())
    const query = await history(mock, 'v2/history/query', START - 4 * DAY, START)
    const silent = asks.filter(({ type }) => type === 'user:create_playbook').length
    expect(query).toHaveLength(asks.length - silent)
    const ids = new Set(usage.map((event) => event['unique_usage_id']))
    expect(ids.size).toBe(usage.length)
    expect(query.every((event) => ids.has(event['unique_usage_id']))).toBe(true)
  })

  it('come from every kind of question: product, add-ins, vault, playbooks and the API', () => {
    const named =
      'user:create_query api:create_query user:word_add_in_ask user:word_add_in_docx_drafting user:word_redact user:mail_add_in_ask user:create_vault_review_query user:rerun_vault_review_queries user:semantic_search_with_vault_folder user:review_playbook_document user:create_playbook'
    expect(questionTypes).toEqual(expect.arrayContaining(named.split(' ')))
    const { mock } = context({ limits })
    for (const type of [...questionTypes, 'auth:login', 'user:fetch_history', 'api:history_fetch'])
      mock.add({ type })
    const kinds = (kind: string) => mock.history().filter((event) => event.kind === kind).length
    expect([kinds('usage'), kinds('query')]).toEqual([questionTypes.length, questionTypes.length - 1])
  })

  it('have every documented field with its type, and a query event agrees with its usage event', async () => {
    const { mock } = context({ traffic: { ...traffic, exotic: 0.3 }, limits })
    const usage = await history(mock, 'v2/history/usage', START - DAY, START)
    const query = await history(mock, 'v2/history/query', START - DAY, START)
    const strings =
      'utc_time user product_surface_area subsurface access_point action cm_id source playbook_name review_table_name space_name vault_project_name workflow_name'
    for (const event of usage) {
      for (const name of strings.split(' ')) expect(event[name]).toEqual(expect.any(String))
      expect(event['unique_usage_id']).toMatch(
        /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
      )
      expect(event['parent_thread_id']).toSatisfy(Number.isSafeInteger)
      expect(event['metadata']).toEqual(expect.any(Object))
      expect(Object.keys(event)).toHaveLength(16)
    }
    const byId = new Map(usage.map((event) => [event['unique_usage_id'], event]))
    for (const event of query) {
      expect(event).toMatchObject(byId.get(event['unique_usage_id']) ?? {})
      for (const name of ['query', 'response', 'feedback_comments', 'feedback_sentiments', 'link'])
        expect(event[name]).toEqual(expect.any(String))
      expect(Object.keys(event)).toHaveLength(21)
    }
  })

  it('cover every surface and subsurface, joined ones too, with some long texts and odd spellings', async () => {
    const { mock } = context({ traffic: { ...traffic, entriesPerHour: 200, exotic: 0.2 }, limits })
    const { text } = await call(mock, `/api/v2/history/query?start_time=${(START - 2 * DAY) / 1000}`)
    for (const word of 'ASSISTANT VAULT PLAYBOOK WORKFLOW WORD MAIL DRAFT'.split(' '))
      expect(text).toContain(`"${word}"`)
    for (const word of [
      'ASSISTANT_THREAD_FOLLOWUP',
      'REVIEW_TABLE',
      'WORKFLOW_TEST',
      'ASSISTANT_THREAD, WORKFLOW_PUBLISHED',
    ])
      expect(text).toContain(`"${word}"`)
    for (const piece of ['{\r\n\t"', '9007199254740993', 'unique\\u005fusage', '🦀', 'مرحبا', '\\ud800'])
      expect(text).toContain(piece)
    const { events } = JSON.parse(text) as { events: { response: string }[] }
    expect(Math.max(...events.map(({ response }) => response.length))).toBeGreaterThan(10_000)
  })

  it('are the same for a seed, whatever requests were made', async () => {
    const whole = context({ seed: 7, traffic, limits })
    const expected = whole.mock
      .history()
      .map(({ versions }) => Buffer.from(versions[0]?.raw ?? []).toString())
    expect(expected.length).toBeGreaterThan(500)
    await fc.assert(
      fc.asyncProperty(fc.array(fc.integer({ min: 1, max: 12 * HOUR }), { maxLength: 8 }), async (steps) => {
        const { clock, mock } = context({ seed: 7, traffic, limits })
        clock.set(traffic.since)
        for (const step of steps) {
          clock.set(Math.min(START, clock.now() + step))
          await history(mock, 'v2/history/usage', clock.now() - step, clock.now())
        }
        clock.set(START)
        const made = mock.history().map(({ versions }) => Buffer.from(versions[0]?.raw ?? []).toString())
        expect(made).toEqual(expected)
      }),
      { numRuns: 5 },
    )
  })

  it('of adjacent windows add up to the whole, none twice', async () => {
    const { mock } = context({ traffic, limits, switches: { history_order: 'ascending' } })
    const whole = await history(mock, 'v2/history/usage', START - 2 * DAY, START)
    const pieces = []
    for (let at = START - 2 * DAY; at < START; at += 5 * HOUR)
      pieces.push(...(await history(mock, 'v2/history/usage', at, Math.min(START, at + 5 * HOUR))))
    expect(pieces).toEqual(whole)
  })

  it('come in no order, unless the switch says so', async () => {
    const { mock } = context({ traffic, limits })
    const times = async () =>
      (await history(mock, 'v2/history/usage', START - DAY, START)).map((event) => String(event['utc_time']))
    const [one, two] = [await times(), await times()]
    expect(one).not.toEqual(two)
    expect([...one].sort()).toEqual([...two].sort())
    mock.setSwitches({ history_order: 'ascending' })
    expect(await times()).toEqual([...one].sort())
  })
})

describe('the ends of a range', () => {
  const path = (query: string) => `/api/v2/history/usage?${query}`
  const s = START / 1000

  it.each([
    ['inclusive', 'exclusive', [0, 1]],
    ['inclusive', 'inclusive', [0, 1, 2]],
    ['exclusive', 'exclusive', [1]],
    ['exclusive', 'inclusive', [1, 2]],
  ] as const)('start %s and end %s', async (history_start, history_end, seen) => {
    const { clock, mock } = context({
      limits,
      switches: { history_start, history_end, history_order: 'ascending' },
    })
    clock.set(START + DAY)
    const ids = [0, 1, 2].map((n) => mock.add({ at: START + n * 1000 + 700 }).id)
    await call(mock, path(`start_time=${s}&end_time=${s + 2}`))
    const shown = mock
      .history()
      .filter(({ kind, versions }) => kind === 'usage' && versions[0]?.shownBy.length)
    expect(shown.map(({ entryId }) => entryId)).toEqual(seen.map((n) => ids[n]))
  })

  it('may not be later than now if the switch says so', async () => {
    const { clock, mock } = context({ limits, switches: { history_future_end: 'refused' } })
    clock.set(START + DAY)
    const end = s + DAY / 1000
    expect((await call(mock, path(`start_time=${s}&end_time=${end}`))).status).toBe(200)
    expect((await call(mock, path(`start_time=${s}&end_time=${end + 1}`))).status).toBe(400)
  })

  it('may be in milliseconds', async () => {
    const { clock, mock } = context({ limits, switches: { history_unit: 'ms' } })
    clock.set(START + DAY)
    for (const n of [0, 1, 2]) mock.add({ at: START + n * 1000 })
    const count = async (from: number, to: number) => {
      const { text } = await call(mock, path(`start_time=${from}&end_time=${to}`))
      return (JSON.parse(text) as { events: unknown[] }).events.length
    }
    expect(await count(START, START + 2000)).toBe(2)
    expect(await count(START + 1, START + 2001)).toBe(2)
    expect(await count(START, START + 1)).toBe(1)
  })

  it.each([
    ['', 400, 'Missing start_time'],
    ['end_time=1', 400, 'Missing start_time'],
    ['start_time=', 400, 'Missing start_time'],
    ['start_time=yesterday', 400, 'Invalid start_time'],
    ['start_time=-1', 400, 'Invalid start_time'],
    [`start_time=${s}&end_time=soon`, 400, 'Invalid end_time'],
    [`start_time=${s}&end_time=${s - 1}`, 400, 'end_time is before start_time'],
    [`start_time=${s - 31 * 86_400}&end_time=${s}`, 400, 'Range exceeds 30 days'],
    [`start_time=${s - 31 * 86_400}`, 400, 'Range exceeds 30 days'],
  ])('%s answers %i, %s', async (query, status, message) => {
    const { mock } = context({ limits })
    const reply = await call(mock, path(query))
    expect([reply.status, JSON.parse(reply.text)]).toEqual([status, { error: message }])
  })

  it('exactly 30 days, the future and an empty range are valid', async () => {
    const { mock } = context({ limits })
    for (const query of [
      `start_time=${s - 30 * 86_400}&end_time=${s}`,
      `start_time=${s + 9999}&end_time=${s + 99_999}`,
      `start_time=${s}&end_time=${s}`,
    ])
      expect(await call(mock, path(query))).toMatchObject({ status: 200, text: '{"events":[]}' })
  })

  it('a missing end means now, unless the switch requires an end', async () => {
    const { mock } = context({ limits })
    mock.add({ at: START })
    expect((await call(mock, path(`start_time=${s}`))).text).toContain('unique_usage_id')
    mock.setSwitches({ history_end_time: 'required' })
    const refused = await call(mock, path(`start_time=${s}`))
    expect([refused.status, refused.text]).toEqual([400, '{"error":"Missing end_time"}'])
  })
})

describe('open questions of the history specification', () => {
  const week = `start_time=${START / 1000 - 7 * 86_400}`

  it('v2 may be missing while v1 stays', async () => {
    const { mock } = context({ limits, traffic })
    for (const [history_v2, status] of [
      ['404', 404],
      ['403', 403],
    ] as const) {
      mock.setSwitches({ history_v2 })
      for (const kind of ['usage', 'query']) {
        expect((await call(mock, `/api/v2/history/${kind}?${week}`)).status).toBe(status)
        expect((await call(mock, `/api/v1/history/${kind}?${week}`)).status).toBe(200)
      }
    }
  })

  it('success may be 201, also with a body fault', async () => {
    const { mock } = context({ limits, switches: { history_status: '201' }, faults: { html: { nth: [2] } } })
    expect((await call(mock, `/api/v2/history/usage?${week}`)).status).toBe(201)
    expect((await call(mock, `/api/v2/history/usage?${week}`)).text).toContain('<html>')
  })

  it('v1 is a flat array of rows with the known names, with or without timestamps', async () => {
    const { mock } = context({ limits, traffic: { ...traffic, exotic: 0 } })
    const names = ['timestamp', 'email', 'Task', 'Client Matter #', 'Documents', 'source']
    const rows = await history(mock, 'v1/history/query', START - DAY, START)
    expect(rows.length).toBeGreaterThan(100)
    for (const row of rows) expect(Object.keys(row)).toEqual([...names, 'query', 'response'])
    mock.setSwitches({ history_v1_time: 'off' })
    for (const row of await history(mock, 'v1/history/usage', START - DAY, START))
      expect(Object.keys(row)).toEqual(names.slice(1))
  })

  it('each fetch is an audit entry with the key’s user and the user agent as sent', async () => {
    const { mock } = context({ limits, switches: { self_audit: 'all' } })
    await call(mock, `/api/v2/history/usage?${week}`)
    await call(mock, '/api/v1/history/query')
    const traces = mock.entries().map(({ raw }) => parsed(raw))
    expect(traces).toHaveLength(2)
    for (const trace of traces)
      expect(trace).toMatchObject({
        type: 'api:history_fetch',
        user: 'siem@acme.example',
        user_agent: 'tester/1',
      })
  })

  it('usage and query share 60 requests a minute, apart from the audit log', async () => {
    const { mock, ask } = context({ limits: {} })
    for (let n = 0; n < 60; n++)
      expect((await call(mock, `/api/v2/history/${n % 2 ? 'usage' : 'query'}?${week}`)).status).toBe(200)
    const refused = await call(mock, `/api/v1/history/usage?${week}`)
    expect([refused.status, refused.text]).toEqual([429, '{"error":"Rate limit exceeded"}'])
    expect((await ask('/latest')).status).toBe(404)
  })

  it('a key may lack one of the two', async () => {
    const keys = [{ key: 'acme-key', permissions: ['audit', 'history.usage'] }]
    const { mock } = context({ limits, workspaces: [{ name: 'acme', keys }] })
    expect((await call(mock, `/api/v2/history/usage?${week}`)).status).toBe(200)
    expect((await call(mock, `/api/v2/history/query?${week}`)).status).toBe(403)
    expect((await call(mock, '/api/v2/completion', { method: 'POST' })).status).toBe(403)
    const stranger = await call(mock, `/api/v2/history/usage?${week}`, { key: 'other' })
    expect([stranger.status, stranger.text]).toEqual([401, '{"error":"Unauthorized"}'])
  })
})

describe('history that changes later', () => {
  it('some query events get feedback hours later under the same id, with nothing else changed; usage events never change', async () => {
    const { clock, mock } = context({
      seed: 3,
      traffic: { entriesPerHour: 100, since: START, exotic: 0 },
      limits,
    })
    clock.set(START + 8 * HOUR)
    const read = async (kind: string) =>
      new Map(
        (await history(mock, `v2/history/${kind}`, START, START + 8 * HOUR)).map((event) => [
          String(event['unique_usage_id']),
          event,
        ]),
      )
    const before = { usage: await read('usage'), query: await read('query') }
    const gone = new Set<string>()
    for (let day = 1; day <= 5; day++) {
      clock.set(START + 8 * HOUR + day * DAY)
      for (const [id, event] of await read('query')) {
        const old = before.query.get(id) ?? {}
        const { feedback_comments: comments, feedback_sentiments: sentiments, ...rest } = event
        expect(old).toMatchObject(rest)
        if (sentiments !== old['feedback_sentiments'] || comments !== old['feedback_comments']) gone.add(id)
      }
    }
    expect(gone.size).toBeGreaterThan(3)
    expect(gone.size).toBeLessThan(before.query.size / 5)
    expect(await read('usage')).toEqual(before.usage)
    const versions = mock.history().filter(({ kind, versions }) => kind === 'query' && versions.length > 1)
    expect(versions.length).toBeGreaterThanOrEqual(gone.size)
  })

  it('a late event is missing from every answer before its time and in every answer after it', async () => {
    const switches = { history_late_by: 6 * HOUR, history_visible_after: 60_000 }
    const since = START - 2 * HOUR
    const { clock, mock } = context({
      traffic: { entriesPerHour: 400, since },
      limits,
      switches,
      faults: { history_late: 0.3 },
    })
    const ids = async () =>
      (await history(mock, 'v2/history/usage', since, START))
        .map((event) => String(event['unique_usage_id']))
        .sort()
    const truth = () =>
      mock
        .history()
        .filter(
          ({ kind, atUs, visibleAt }) => kind === 'usage' && atUs < START * 1000 && visibleAt <= clock.now(),
        )
    const first = await ids()
    expect(first).toEqual(
      truth()
        .map(({ id }) => id)
        .sort(),
    )
    mock.setFault('history_late', undefined)
    clock.pass(HOUR)
    const second = await ids()
    expect(second).toEqual(
      truth()
        .map(({ id }) => id)
        .sort(),
    )
    expect(second.length).toBeGreaterThan(first.length)
    clock.pass(6 * HOUR)
    const all = mock.history().filter(({ kind, atUs }) => kind === 'usage' && atUs < START * 1000)
    expect(await ids()).toEqual(all.map(({ id }) => id).sort())
    const late = all.map(({ visibleAt, atUs }) => visibleAt - Math.floor(atUs / 1000) - 60_000)
    expect(late.filter((ms) => ms > 0).length / all.length).toBeCloseTo(0.3, 1)
    expect(Math.max(...late)).toBeLessThanOrEqual(6 * HOUR)
  })

  it('a malformed event stays malformed in both versions, and leaves the others unchanged', async () => {
    const since = START - 12 * HOUR
    const quiet = context({ seed: 4, traffic: { entriesPerHour: 200, since }, limits })
    const expected = new Map(quiet.mock.history().map((event) => [`${event.kind} ${event.id}`, event]))
    const names = ['no_id', 'bad_time', 'invalid_utf8', 'not_an_object', 'poison'] as const
    const faults = Object.fromEntries(names.map((name) => [`history_${name}`, 0.02]))
    const { mock } = context({ seed: 4, traffic: { entriesPerHour: 200, since }, limits, faults })
    const text = (raw: Uint8Array | undefined) => Buffer.from(raw ?? []).toString()
    const met = new Set<string | undefined>()
    for (const { id, kind, defect, versions } of mock.history()) {
      const same = text(versions[0]?.raw) === text(expected.get(`${kind} ${id}`)?.versions[0]?.raw)
      expect(same).toBe(defect === undefined)
      met.add(defect)
      if (defect === 'history_no_id')
        expect(parsed(versions[0]?.raw ?? Buffer.alloc(0))).not.toHaveProperty('unique_usage_id')
      if (defect === 'history_bad_time')
        expect(text(versions[0]?.rawV1)).toContain('"the day before yesterday"')
      if (defect === 'history_poison') expect(() => parsed(versions[0]?.rawV1 ?? Buffer.alloc(0))).toThrow()
      if (defect === 'history_invalid_utf8') expect(text(versions[0]?.rawV1)).toContain('caf\ufffd')
    }
    expect(met.size).toBe(names.length + 1)
    await call(mock, `/api/v2/history/usage?start_time=${since / 1000}&end_time=${START / 1000}`)
    const shown = mock.history().filter(({ versions }) => versions.some(({ shownBy }) => shownBy.length > 0))
    expect(new Set(shown.map(({ defect }) => defect))).toEqual(new Set(['history_poison']))
  })

  it('the ground truth has the bytes as served, and which answers served them', async () => {
    const { mock } = context({ seed: 9, traffic: { ...traffic, exotic: 0.2 }, limits })
    for (const path of ['v2/history/usage', 'v2/history/query', 'v1/history/query']) {
      const query = `?start_time=${(START - DAY) / 1000}&end_time=${START / 1000}`
      const { text } = await call(mock, `/api/${path}${query}`)
      const api = path.startsWith('v1') ? 'v1' : 'v2'
      const kind = path.endsWith('usage') ? 'usage' : 'query'
      const events = mock
        .history()
        .filter((event) => event.kind === kind && event.atUs >= (START - DAY) * 1000)
      expect(events.length).toBeGreaterThan(100)
      for (const { versions } of events) {
        const shown = versions.filter(({ shownBy }) => shownBy.includes(api))
        expect(shown).toHaveLength(1)
        expect(text).toContain(Buffer.from((api === 'v2' ? shown[0]?.raw : shown[0]?.rawV1) ?? []).toString())
      }
    }
    const older = mock.history().filter(({ atUs }) => atUs < (START - DAY) * 1000)
    expect(older.every(({ versions }) => versions.every(({ shownBy }) => shownBy.length === 0))).toBe(true)
  })
})
