// The audit area: what is documented, and each switch for what is not.
import { describe, expect, it } from 'vitest'
import type { ConnectorError } from '../../../src/core/errors.ts'
import { addMany, bearer, START, context } from './stage.ts'

const UNKNOWN = '01234567-89ab-4cde-8f01-23456789abcd'
const error = (text: string) => (JSON.parse(text) as { error: string }).error
const DAY = 86_400_000

describe('a page', () => {
  it('goes forward in time from the cursor, oldest first, and ends empty', async () => {
    const { mock, page } = context()
    const ids = addMany(mock, 25)
    expect(await page(ids[0] ?? '', 10)).toEqual(ids.slice(1, 11))
    expect(await page(ids[10] ?? '', 1000)).toEqual(ids.slice(11))
    expect(await page(ids[24] ?? '')).toEqual([])
  })

  it('includes the cursor’s own entry if the switch says so', async () => {
    const { mock, page } = context({ switches: { from: 'inclusive' } })
    const ids = addMany(mock, 3)
    expect(await page(ids[1] ?? '')).toEqual(ids.slice(1))
  })

  it('needs `from` and a `take` of 1 to 1000', async () => {
    const { mock, ask } = context()
    const [id = ''] = addMany(mock, 1)
    for (const query of ['', '?take=10', `?from=${id}`, '?from=&take=3']) {
      const { status, text } = await ask(query)
      expect([status, error(text)]).toEqual([400, 'Missing required filters'])
    }
    for (const take of ['0', '1001', '-1', '1.5', 'all'])
      expect((await ask(`?from=${id}&take=${take}`)).status).toBe(400)
    expect((await ask('?from=not-a-uuid&take=10')).status).toBe(400)
    expect((await ask(`?from=${id}&take=1000`)).status).toBe(200)
  })

  it('is capped below `take` if the switch says so', async () => {
    const { mock, page } = context({ switches: { page_cap: 7 } })
    const ids = addMany(mock, 20)
    expect(await page(ids[0] ?? '', 10)).toEqual(ids.slice(1, 8))
  })

  it('holds only entries of exactly the requested `log_type`', async () => {
    const { mock, ask } = context()
    const [id = ''] = addMany(mock, 2)
    const login = mock.add({ type: 'auth:login' })
    const { text } = await ask(`?from=${id}&take=10&log_type=auth:login`)
    expect((JSON.parse(text) as { id: string }[]).map((entry) => entry.id)).toEqual([login.id])
    expect((await ask(`?from=${id}&take=10&log_type=auth`)).text).toBe('[]')
  })

  it('shows a late entry in order of time', async () => {
    const { clock, mock, page } = context()
    const [first = ''] = addMany(mock, 1)
    const late = mock.add({ at: START - 500, visibleAt: START + 60_000 })
    const newer = mock.add()
    expect(await page(first)).toEqual([newer.id])
    clock.pass(60_000)
    expect(await page(first)).toEqual([late.id, newer.id])
    expect(await page(newer.id)).toEqual([])
  })

  it.each([
    ['404', 404],
    ['400', 400],
    ['empty', 200],
  ] as const)('from a purged or unknown entry answers as its switch says: %s', async (gone, status) => {
    const { mock, ask, page } = context({ switches: { gone } })
    const ids = addMany(mock, 3)
    expect(await page(ids[0] ?? '')).toHaveLength(2)
    mock.purge([ids[0] ?? ''])
    for (const from of [ids[0] ?? '', UNKNOWN]) {
      const answer = await ask(`?from=${from}&take=10`)
      expect(answer.status).toBe(status)
      if (status === 200) expect(answer.text).toBe('[]')
      else expect(error(answer.text)).toEqual(expect.any(String))
    }
    expect(await page(ids[1] ?? '')).toEqual([ids[2]])
  })

  it('loses entries older than the retention', async () => {
    const { clock, mock, ask, page } = context({ switches: { retention: 60_000, gone: '404' } })
    const ids = addMany(mock, 30)
    expect(await page(ids[0] ?? '')).toHaveLength(29)
    clock.pass(45_500)
    expect((await ask(`?from=${ids[0] ?? ''}&take=10`)).status).toBe(404)
    expect(mock.entries().filter(({ purged }) => purged)).toHaveLength(16)
  })
})

describe('search, earliest and latest', () => {
  it('find the entry at or after a second, the first and the last entry', async () => {
    const { mock, ask } = context()
    const ids = addMany(mock, 10)
    const found = async (path: string) =>
      (JSON.parse((await ask(path)).text) as { log: { id: string } }).log.id
    expect(await found('/earliest')).toBe(ids[0])
    expect(await found('/latest')).toBe(ids[9])
    expect(await found(`/search?time=${START / 1000 - 7}`)).toBe(ids[3])
    mock.add({ at: START - 6500, type: 'auth:login', id: UNKNOWN })
    expect(await found(`/search?time=${START / 1000 - 6}`)).toBe(ids[4])
    expect(await found(`/search?time=${START / 1000 - 9}&log_type=auth:login`)).toBe(UNKNOWN)
    expect(await found('/latest?log_type=auth:login')).toBe(UNKNOWN)
  })

  it('wrap the entry if the switch says so; earliest always does', async () => {
    const { mock, ask } = context({ switches: { search_body: 'bare', latest_body: 'bare' } })
    const entry = mock.add()
    const raw = Buffer.from(entry.raw).toString()
    expect((await ask('/latest')).text).toBe(raw)
    expect((await ask(`/search?time=${START / 1000}`)).text).toBe(raw)
    expect((await ask('/earliest')).text).toBe(`{"log":${raw}}`)
  })

  it.each([
    ['404', 404, '{"error":"Not found"}'],
    ['null', 200, '{"log":null}'],
    ['empty_object', 200, '{}'],
    ['empty_body', 200, ''],
    ['204', 204, ''],
  ] as const)('of an empty workspace answer as their switch says: %s', async (none, status, body) => {
    const { ask } = context({ switches: { none } })
    for (const path of ['/latest', '/earliest', `/search?time=${START / 1000}`]) {
      const answer = await ask(path)
      expect([answer.status, answer.text]).toEqual([status, body])
    }
  })

  it('refuse a time that is missing, malformed or more than a year ago', async () => {
    const { mock, ask } = context()
    mock.add()
    const status = async (query: string) => (await ask(`/search${query}`)).status
    expect(await status('')).toBe(400)
    expect(await status('?time=yesterday')).toBe(400)
    expect(await status(`?time=${START / 1000 - 366 * 86_400}`)).toBe(400)
    expect(await status(`?time=${START / 1000 - 364 * 86_400}`)).toBe(200)
  })
})

describe('reads leave entries', () => {
  it('one per read, visible to the next read and not to the same one', async () => {
    const { mock, ask, page, clock } = context({ switches: { self_audit: 'all' } })
    const [id = ''] = addMany(mock, 1)
    expect(await page(id)).toEqual([])
    const [fetch = ''] = await page(id)
    const entry = mock.entries().find((candidate) => candidate.id === fetch)
    expect(JSON.parse(Buffer.from(entry?.raw ?? []).toString())).toMatchObject({
      type: 'api:audit_log_fetch',
      user: 'siem@acme.example',
      ip: '203.0.113.5',
      user_agent: 'tester/1',
      data: {},
    })
    clock.pass(1)
    await ask('/latest')
    expect(mock.entries().filter(({ origin }) => origin === 'self')).toHaveLength(3)
  })

  it('in an order that never changes once served, also with traffic', async () => {
    const { mock, page, clock } = context({
      switches: { self_audit: 'all' },
      traffic: { entriesPerHour: 20_000, since: START - 60_000 },
    })
    clock.pass(60_000)
    let from = mock.entries()[0]?.id ?? ''
    const served = [from]
    for (let poll = 0; poll < 400; poll++) {
      const ids = await page(from)
      served.push(...ids)
      from = ids.at(-1) ?? from
      clock.pass(poll % 3)
    }
    const all = mock.entries().map(({ id }) => id)
    expect(served).toEqual(all.slice(0, served.length))
    expect(served.length).toBeGreaterThan(all.length - 60)
  })

  it('late, with a generic agent, or for pages only, if the switches say so', async () => {
    const { mock, ask, page, clock } = context({
      switches: { self_audit: 'pages', self_audit_after: 5000, user_agent: 'generic' },
    })
    const [id = ''] = addMany(mock, 1)
    await ask('/latest')
    await page(id)
    expect(await page(id)).toEqual([])
    clock.pass(5000)
    const seen = await page(id)
    expect(seen).toHaveLength(2)
    const entry = mock.entries().find((candidate) => candidate.id === seen[0])
    expect(Buffer.from(entry?.raw ?? []).toString()).toContain('"user_agent":"api-client"')
  })
})

describe('keys and limits', () => {
  it('an unknown, missing or rotated key is Unauthorized', async () => {
    const { mock, ask } = context()
    mock.add()
    for (const headers of [{}, { authorization: 'Bearer nobody' }, { authorization: 'acme-key' }]) {
      const { status, text } = await ask('/latest', headers)
      expect([status, error(text)]).toEqual([401, 'Unauthorized'])
    }
    mock.rotateKey('acme-key', 'fresh')
    expect((await ask('/latest')).status).toBe(401)
    expect((await ask('/latest', { authorization: 'Bearer fresh' })).status).toBe(200)
    expect(mock.entries().at(-1)?.type).toBe('api:token_mgmt_rotate')
  })

  it('a key has the permissions it names: an area or one endpoint', async () => {
    const { mock, ask } = context({
      workspaces: [
        {
          name: 'acme',
          keys: [
            { key: 'vault-only', permissions: ['vault'] },
            { key: 'latest-only', permissions: ['audit.latest'] },
          ],
        },
      ],
    })
    mock.add()
    const status = async (path: string, key: string) =>
      (await ask(path, { authorization: `Bearer ${key}` })).status
    expect(await status('/latest', 'vault-only')).toBe(403)
    expect(await status('/latest', 'latest-only')).toBe(200)
    expect(await status('/earliest', 'latest-only')).toBe(403)
  })

  it('requests over the limit in a rolling minute answer 429 and do not count', async () => {
    const { clock, mock, ask } = context({ limits: { audit: 3 } })
    mock.add()
    const status = async () => (await ask('/latest')).status
    expect([await status(), await status()]).toEqual([200, 200])
    clock.pass(30_000)
    expect([await status(), await status(), await status()]).toEqual([200, 429, 429])
    clock.pass(29_999)
    expect(await status()).toBe(429)
    clock.pass(1)
    expect([await status(), await status(), await status()]).toEqual([200, 200, 429])
    expect(mock.requests.map(({ counted }) => counted)).toEqual([
      true,
      true,
      true,
      false,
      false,
      false,
      true,
      true,
      false,
    ])
  })

  it('a refused request counts if the switch says so, and the hint says how long to wait', async () => {
    const { clock, ask, mock } = context({
      limits: { audit: 1 },
      switches: { count_refused: 'yes', retry_after: 'seconds' },
    })
    await ask('/latest')
    clock.pass(20_000)
    const refused = await ask('/latest')
    expect([refused.status, error(refused.text), refused.headers['retry-after']]).toEqual([
      429,
      'Rate limit exceeded',
      '40',
    ])
    clock.pass(45_000)
    expect((await ask('/latest')).status).toBe(429)
    mock.setSwitches({ retry_after: 'date' })
    expect((await ask('/latest')).headers['retry-after']).toMatch(/^Tue, 17 Nov 2026 10:0\d:\d\d GMT$/)
  })

  it.each([
    ['key', 200],
    ['workspace', 429],
  ] as const)('the limit applies per %s if the switch says so', async (rate_scope, status) => {
    const workspaces = [{ name: 'acme', keys: [{ key: 'a' }, { key: 'b' }] }]
    const { mock, ask } = context({ limits: { audit: 1 }, switches: { rate_scope }, workspaces })
    mock.add()
    expect((await ask('/latest', { authorization: 'Bearer a' })).status).toBe(200)
    expect((await ask('/latest', { authorization: 'Bearer b' })).status).toBe(status)
  })

  it('a request counts when it arrives, not when it was sent', async () => {
    const { clock, mock, ask } = context({ limits: { audit: 60 }, switches: { transit: 4000, latency: 250 } })
    mock.add()
    await ask('/latest')
    const [request] = mock.requests
    expect(request?.at).toBeGreaterThan(START)
    expect(request?.at).toBeLessThanOrEqual(START + 4000)
    expect(request?.answeredAt).toBe((request?.at ?? 0) + 250)
    expect(clock.now()).toBe(request?.answeredAt)
  })

  it('other paths and methods answer 404', async () => {
    const { ask, mock } = context()
    expect((await ask('/elsewhere')).status).toBe(404)
    const signal = new AbortController().signal
    const url = 'https://api.example.com/api/v1/logs/audit/latest'
    expect((await mock.transport({ method: 'POST', url, headers: bearer }, signal)).status).toBe(404)
  })

  it('an aborted request throws `aborted`, before the answer and within the body', async () => {
    const { mock, send } = context()
    addMany(mock, 3)
    const gone = new AbortController()
    const reply = await send('/latest', bearer, gone.signal)
    gone.abort()
    const aborted = expect.objectContaining({ code: 'aborted' }) as ConnectorError
    await expect(reply.body[Symbol.asyncIterator]().next()).rejects.toEqual(aborted)
    await expect(send('/latest', bearer, gone.signal)).rejects.toEqual(aborted)
  })
})

describe('ground truth', () => {
  it('an entry has the same bytes in every kind of answer, and counts as shown', async () => {
    const { mock, ask, clock } = context({ traffic: { entriesPerHour: 50, exotic: 1, since: START - DAY } })
    clock.pass(1000)
    const [first, second] = mock.entries()
    const last = mock.entries().at(-1)
    expect(first?.shownBy).toEqual([])
    const inside = async (path: string) => (await ask(path)).text
    const raw = (entry: typeof first) => Buffer.from(entry?.raw ?? []).toString()
    expect(await inside('/earliest')).toBe(`{"log":${raw(first)}}`)
    expect(await inside('/latest')).toBe(`{"log":${raw(last)}}`)
    expect(await inside(`?from=${first?.id ?? ''}&take=1`)).toContain(raw(second))
    const after = mock.entries()
    expect([after[0]?.shownBy, after[1]?.shownBy, after.at(-1)?.shownBy]).toEqual([
      ['earliest'],
      ['page'],
      ['latest'],
    ])
    expect(after[1]?.shownAt).toBe(START + 1000)
    expect(after.filter(({ shownBy }) => shownBy.length > 0)).toHaveLength(3)
  })

  it('a body that is not read to its end counts nothing as shown', async () => {
    const { mock, send } = context()
    const [id = ''] = addMany(mock, 3)
    const reply = await send(`?from=${id}&take=10`)
    for await (const piece of reply.body) if (piece.length > 0) break
    expect(mock.entries().some(({ shownBy }) => shownBy.length > 0)).toBe(false)
    expect(mock.requests[0]).toMatchObject({ whole: false, status: 200, elements: 2 })
  })

  it('the server’s clock may differ and may be left out of the answer', async () => {
    const { mock, ask } = context({ switches: { clock_skew_ms: -90_000 } })
    const entry = mock.add()
    expect(entry.atUs).toBe((START - 90_000) * 1000)
    expect((await ask('/latest')).headers['date']).toBe('Tue, 17 Nov 2026 09:58:30 GMT')
    mock.setSwitches({ date_header: 'off' })
    expect((await ask('/latest')).headers['date']).toBeUndefined()
  })

  it('the log of requests is limited', async () => {
    const { mock, ask } = context({ requestLog: 10 })
    for (let i = 0; i < 45; i++) await ask(`/latest?n=${i}`)
    expect(mock.requests.length).toBeLessThanOrEqual(20)
    expect(mock.requests.at(-1)?.target).toBe('/api/v1/logs/audit/latest?n=44')
  })
})
