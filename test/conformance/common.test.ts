// What holds in every area (specification §5 to §9), sentence by sentence.
import { describe, expect, it } from 'vitest'
import { vaultFields, vaultPaths } from '../../src/core/api.ts'
import { audit, days, HOUR, MINUTE, projects, seconds, served, START, UNKNOWN } from './served.ts'
import type { Fields, Heard, Sent, Served } from './served.ts'

const history = `/api/v2/history/usage?start_time=${seconds(START - HOUR)}&end_time=${seconds(START)}`
const historyV1 = history.replace('v2', 'v1')
const completion = { method: 'POST', body: '{"prompt":"A"}', contentType: 'application/json' } as const

interface Good {
  readonly area: 'audit' | 'history' | 'vault' | 'assistant'
  readonly path: string
  readonly sent?: Sent
}

/** A good request of each area. */
const areas: readonly Good[] = [
  { area: 'audit', path: `${audit}/latest` },
  { area: 'history', path: history },
  { area: 'vault', path: projects },
  { area: 'assistant', path: '/api/v2/completion', sent: completion },
]

const errorOf = (heard: Heard) => [heard.status, (heard.json() as Fields)['error']]
const some = { traffic: days } as const

describe('§5 authentication', () => {
  it.each(areas)(
    '§5 $area: `Authorization: Bearer <API_KEY>` is carried by every request',
    async ({ path, sent }) => {
      const { ask } = await served(some)
      expect((await ask(path, sent)).status).toBeLessThan(300)
      for (const authorization of [undefined, '', 'acme-key', 'Basic YWNtZS1rZXk='])
        expect((await ask(path, { ...sent, authorization })).status).toBe(401)
    },
  )

  it.each(areas)(
    '§5 §7 $area: an invalid key fails with 401 and its message',
    async ({ area, path, sent }) => {
      const { ask } = await served(some)
      const message = area === 'assistant' ? 'Invalid API key provided' : 'Unauthorized'
      expect(errorOf(await ask(path, { ...sent, authorization: 'Bearer wrong' }))).toEqual([401, message])
    },
  )

  const withKeys = (permissions: readonly string[]) =>
    served({ ...some, workspaces: [{ name: 'acme', keys: [{ key: 'acme-key', permissions }] }] })

  it('§5 the audit log requires a permission of its own', async () => {
    const path = `${audit}?from=${UNKNOWN}&take=10`
    expect((await (await withKeys(['history', 'vault', 'assistant'])).ask(path)).status).toBe(403)
    expect((await (await withKeys(['audit'])).ask(path)).status).toBe(404)
  })

  it('§5 §4.3 the projects listing requires a permission of its own', async () => {
    const others = ['audit', 'history', 'assistant', 'vault.metadata', 'vault.files']
    expect((await (await withKeys(others)).ask(projects)).status).toBe(403)
    expect((await (await withKeys(['vault.projects'])).ask(projects)).status).toBe(201)
  })

  it('§5 a rotated key is worth nothing, the new one what the old one was; the rotation is recorded', async () => {
    const { ask, mock } = await served(some)
    mock.rotateKey('acme-key', 'fresh-key')
    expect((await ask(projects)).status).toBe(401)
    const authorization = 'Bearer fresh-key'
    expect((await ask(projects, { authorization })).status).toBe(201)
    const latest = await ask(`${audit}/latest?log_type=api:token_mgmt_rotate`, { authorization })
    expect(latest.json()).toMatchObject({ log: { type: 'api:token_mgmt_rotate' } })
  })
})

/** The last entry of the audit log that tells of an API call. */
async function lastOf(context: Served, type: string) {
  const heard = await context.ask(`${audit}/latest?log_type=${type}`)
  return heard.status === 200 ? (heard.json() as { log: Fields }).log : undefined
}

describe('§6 events', () => {
  const recorded: readonly { call: string; type: string; path: string; sent?: Sent }[] = [
    { call: 'audit log page', type: 'api:audit_log_fetch', path: `${audit}?from=${UNKNOWN}&take=10` },
    { call: 'audit log search', type: 'api:audit_log_fetch', path: `${audit}/search?time=${seconds(START)}` },
    { call: 'history fetch, v2 usage', type: 'api:history_fetch', path: history },
    { call: 'history fetch, v2 query', type: 'api:history_fetch', path: history.replace('usage', 'query') },
    { call: 'history fetch, v1', type: 'api:history_fetch', path: historyV1 },
    { call: 'vault list', type: 'api:vault_list_projects', path: projects },
    {
      call: 'vault metadata',
      type: 'api:vault_get_metadata',
      path: vaultPaths.metadata.replace('{project_id}', UNKNOWN),
    },
    {
      call: 'vault delete file',
      type: 'api:vault_delete_file',
      path: vaultPaths.file.replace('{file_id}', UNKNOWN),
      sent: { method: 'DELETE' },
    },
    {
      call: 'vault delete project',
      type: 'api:vault_delete_project',
      path: vaultPaths.project.replace('{project_id}', UNKNOWN),
      sent: { method: 'DELETE' },
    },
    { call: 'query creation', type: 'api:create_query', path: '/api/v2/completion', sent: completion },
  ]

  it.each(recorded)('§6 a call is itself recorded: $call as $type', async ({ type, path, sent }) => {
    const context = await served()
    const userAgent = 'Conformance/2 (instance 7)'
    await context.ask(path, { ...sent, userAgent })
    const entry = context.mock.entries().find((each) => each.type === type)
    const bytes = Buffer.from(entry?.raw ?? '{}').toString()
    const first = { type, user: 'siem@acme.example', user_agent: userAgent }
    expect(JSON.parse(bytes)).toMatchObject(first)
    if (type !== 'api:audit_log_fetch') expect(await lastOf(context, type)).toEqual(JSON.parse(bytes))
  })

  it('§6 a call is itself recorded: vault upload as api:vault_upload_files', async () => {
    const context = await served()
    const body = new FormData()
    body.append(vaultFields.projectId, context.mock.projects()[0]?.id ?? '')
    body.append(vaultFields.filePaths, '')
    body.append(vaultFields.file, new Blob(['text']), 'one.txt')
    expect((await context.ask(vaultPaths.uploadFiles, { method: 'POST', body })).status).toBe(201)
    expect(await lastOf(context, 'api:vault_upload_files')).toMatchObject({ user_agent: 'conformance/1' })
  })

  it('§6 a fetch does not see its own entry; the next one does', async () => {
    const context = await served({ traffic: { entriesPerHour: 0 } })
    const { id: first } = context.mock.add({ at: START - HOUR })
    const page = async () => (await context.get(`${audit}?from=${first}&take=10`)) as Fields[]
    expect(await page()).toEqual([])
    context.clock.pass(1000)
    expect(await page()).toMatchObject([{ type: 'api:audit_log_fetch' }])
  })

  it('§6 a completion leaves an audit entry, a usage event and a query event', async () => {
    const context = await served()
    const sent = { ...completion, body: '{"prompt":"nonce-4711"}' }
    await context.ask('/api/v2/completion', sent)
    context.clock.pass(MINUTE)
    const range = `?start_time=${seconds(START)}&end_time=${seconds(START + MINUTE)}`
    for (const kind of ['usage', 'query']) {
      const { events } = (await context.get(`/api/v2/history/${kind}${range}`)) as { events: Fields[] }
      expect(events).toMatchObject([{ user: 'siem@acme.example' }])
      if (kind === 'query') expect(events).toMatchObject([{ query: 'nonce-4711' }])
    }
    expect(await lastOf(context, 'api:create_query')).toMatchObject({ user: 'siem@acme.example' })
  })
})

describe('§7 errors', () => {
  it.each(areas)('§7 $area: 500 has its message', async ({ area, path, sent }) => {
    const { ask } = await served({ ...some, faults: { error_500: 1 } })
    const message = area === 'assistant' ? 'An internal error occurred' : 'Unexpected server error'
    expect(errorOf(await ask(path, sent))).toEqual([500, message])
  })

  it.each(areas.filter(({ area }) => area !== 'vault'))(
    '§7 $area: 429 has its message',
    async ({ path, sent }) => {
      const { ask } = await served({ ...some, faults: { storm_429: 1 } })
      expect(errorOf(await ask(path, sent))).toEqual([429, 'Rate limit exceeded'])
    },
  )

  const refused: readonly (Good & { message: string })[] = [
    { area: 'audit', path: audit, message: 'Missing required filters' },
    { area: 'history', path: '/api/v2/history/usage', message: 'Missing start_time' },
    {
      area: 'vault',
      path: vaultPaths.uploadFiles,
      sent: { method: 'POST', body: new FormData() },
      message: 'Missing file',
    },
    {
      area: 'assistant',
      path: '/api/v2/completion',
      sent: { ...completion, body: '{}' },
      message: 'Missing prompt parameter',
    },
  ]

  it.each(refused)('§7 $area: 400 has its message', async ({ path, sent, message }) => {
    const { ask } = await served()
    expect(errorOf(await ask(path, sent))).toEqual([400, message])
  })

  it('§7 success: audit 200, history 200 or 201, vault 201, assistant 200', async () => {
    const { ask, mock } = await served(some)
    const statuses = async () => {
      const heard: number[] = []
      for (const { path, sent } of areas) heard.push((await ask(path, sent)).status)
      return heard
    }
    expect(await statuses()).toEqual([200, 200, 201, 200])
    mock.setSwitches({ history_status: '201' })
    expect(await statuses()).toEqual([200, 201, 201, 200])
  })

  it('§7 the body of an error is {error: <message>}, as JSON', async () => {
    const { ask } = await served()
    const failing: (readonly [string, Sent?])[] = [
      [audit],
      [`${projects}?page=0`],
      ['/api/v1/history/usage'],
      [projects, { authorization: 'Bearer wrong' }],
      [vaultPaths.metadata.replace('{project_id}', UNKNOWN)],
      ['/api/v2/completion', { ...completion, body: '{}' }],
    ]
    for (const [path, sent] of failing) {
      const heard = await ask(path, sent)
      expect(heard.status).toBeGreaterThanOrEqual(400)
      expect(heard.headers.get('content-type')).toContain('application/json')
      expect(heard.json()).toEqual({ error: expect.any(String) as unknown })
    }
  })
})

describe('§8 limits', () => {
  it.each([
    ['audit', 60],
    ['history', 60],
    ['vault', 10],
    ['assistant', 20],
  ] as const)('§8 %s: %i requests a minute, and again when a minute has passed', async (area, limit) => {
    const { ask, clock } = await served({ ...some, limits: {} })
    const { path, sent } = areas.find((good) => good.area === area) ?? { path: '' }
    const asked = async () => (await ask(path, sent)).status
    for (let n = 0; n < limit; n++) expect(await asked()).toBeLessThan(300)
    expect(await asked()).toBe(429)
    clock.pass(MINUTE - 1)
    expect(await asked()).toBe(429)
    clock.pass(1)
    expect(await asked()).toBeLessThan(300)
  })

  it('§4.3 §8 all vault operations share one limit', async () => {
    const { ask } = await served({ limits: {} })
    const paths = [
      projects,
      vaultPaths.metadata.replace('{project_id}', UNKNOWN),
      `${vaultPaths.files}?${vaultFields.fileIds}=${UNKNOWN}`,
      vaultPaths.projectFiles.replace('{project_id}', UNKNOWN),
      vaultPaths.reviewTable.replace('{review_table_id}', '1'),
    ]
    for (let n = 0; n < 10; n++) expect((await ask(paths[n % 5] ?? '')).status).not.toBe(429)
    for (const path of paths) expect((await ask(path)).status).toBe(429)
    expect((await ask(vaultPaths.uploadFiles, { method: 'POST' })).status).toBe(429)
    expect((await ask(vaultPaths.file.replace('{file_id}', UNKNOWN), { method: 'DELETE' })).status).toBe(429)
  })

  it('§8 the limit of one area takes nothing from another', async () => {
    const { ask } = await served({ ...some, limits: {} })
    for (let n = 0; n < 11; n++) await ask(projects)
    expect((await ask(projects)).status).toBe(429)
    for (const { area, path, sent } of areas)
      if (area !== 'vault') expect((await ask(path, sent)).status).toBe(200)
  })
})

describe('§9 versioning', () => {
  it.each([
    ['audit', `${audit}/latest`],
    ['vault projects', projects],
    ['history v1', historyV1],
  ])('§9 %s: /api/v1', async (_, path) => {
    const { ask } = await served(some)
    expect((await ask(path)).status).toBeLessThan(300)
    if (path !== historyV1) expect((await ask(path.replace('/v1/', '/v2/'))).status).toBe(404)
  })

  it('§9 history v2 and the completion: /api/v2', async () => {
    const { ask } = await served(some)
    expect((await ask(history)).status).toBe(200)
    expect((await ask('/api/v2/completion', completion)).status).toBe(200)
    expect((await ask('/api/v1/completion', completion)).status).toBe(404)
  })

  it('§9 §2.2 new audit log types may be added at any time: there are some that no document knows', async () => {
    const { mock } = await served({ traffic: { ...days, entriesPerHour: 400 } })
    const types = new Set(mock.entries().map(({ type }) => type))
    expect([...types].filter((type) => type.startsWith('policy:'))).toEqual(['policy:evaluated'])
  })
})
