// The checks of `validate --connect`, with the mock as the API and a receiver of the test's own.
import { afterEach, describe, expect, test } from 'vitest'
import { checkConnections } from '../../../src/app/checks.ts'
import { ConnectorError } from '../../../src/core/errors.ts'
import type { HttpReply } from '../../../src/contracts/platform.ts'
import { Secret } from '../../../src/core/secret.ts'
import { never, openDaemonRig, refuseToken, reply } from './daemon-rig.ts'

let daemonRig: ReturnType<typeof openDaemonRig> | undefined
afterEach(() => daemonRig?.remove())

type DaemonRigOptions = NonNullable<Parameters<typeof openDaemonRig>[0]>

async function check(options: DaemonRigOptions, instance?: string) {
  daemonRig = openDaemonRig(options)
  const results = await checkConnections(
    daemonRig.config,
    daemonRig.environment,
    new AbortController().signal,
    instance,
  )
  return results.map(({ what, ok, message }) => `${ok ? 'ok' : 'FAIL'} ${what}: ${message}`)
}

test('where everything answers, each check passes, and no journal is opened', async () => {
  const results = await check({})
  expect(results[0]).toBe('ok acme: audit log API: answers, accepts the key')
  expect(results[1]).toMatch(/^ok archive: .*out\.ndjson: can be written$/)
  expect(results).toHaveLength(2)
})

test('an empty log is no error', async () => {
  expect((await check({ entries: 0 }))[0]).toBe(
    'ok acme: audit log API: answers, accepts the key, has no entries yet',
  )
})

test('a refused key and a refused token are errors, each with what to do', async () => {
  const results = await check({ key: 'another-key', receiver: refuseToken })
  expect(results[0]).toMatch(/^FAIL acme: audit log API: .*401: the API key was refused/)
  expect(results.filter((line) => line.startsWith('FAIL siem'))).not.toEqual([])
  expect(results.join()).not.toMatch(/planted|another-key/)
})

test.each([
  ['file', (): string => 'another', 'put a valid key into /run/secrets/key; no restart is needed'],
  [
    'environment',
    (): string => 'another',
    'set a valid key in the environment variable that api_key names, and restart',
  ],
  ['configuration', undefined, 'set a valid api_key in the configuration'],
] as const)('the fix of a refused key names where the key comes from: %s', async (place, reread, advice) => {
  daemonRig = openDaemonRig({ key: 'another-key' })
  const [workspace] = daemonRig.config.workspaces
  const api_key = new Secret('another')
  if (reread) api_key.follow(reread, '', place, place === 'file' ? '/run/secrets/key' : undefined)
  const config = { ...daemonRig.config, workspaces: workspace ? [{ ...workspace, api_key }] : [] }
  const [result] = await checkConnections(config, daemonRig.environment, new AbortController().signal)
  expect(result?.message).toContain(`the API key was refused: ${advice}`)
})

test('a check that never answers fails in time, and the others are reported', async () => {
  const results = await check({ api: never, receiver: never })
  expect(results).toContain('FAIL acme: API: no answer within 25 s')
  expect(results.filter((line) => line.startsWith('FAIL siem'))).toHaveLength(1)
  expect(results.filter((line) => line.startsWith('ok archive'))).toHaveLength(1)
})

test('an address that refuses appears once in its line', async () => {
  const refused = new ConnectorError('unreachable', 'siem.example.com:8088 refused the connection')
  const results = await check({ receiver: () => Promise.reject(refused) })
  const lines = results.filter((line) => line.startsWith('FAIL siem'))
  expect(lines).not.toEqual([])
  for (const line of lines) expect(line.split('siem.example.com:8088')).toHaveLength(2)
})

test('asks under the name of the running daemon, so that it recognizes the request as its own', async () => {
  const agents: string[] = []
  const api: NonNullable<Parameters<typeof openDaemonRig>[0]>['api'] = async ({ headers }) => {
    agents.push(headers['user-agent'] ?? '')
    return reply(200, {})
  }
  await check({ api }, 'abc123')
  expect(agents).toEqual(['auditferry/0.0.0 (instance abc123)'])
})

describe('every enabled area is checked', () => {
  const paths: string[] = []
  const answering =
    (status: (path: string) => number): NonNullable<DaemonRigOptions['api']> =>
    async ({ url }) => {
      const path = new URL(url).pathname
      paths.push(path)
      return reply(status(path), emptyOf(path))
    }
  const all = { history: { usage: true, query: true }, vault: { projects: true } }
  afterEach(() => void (paths.length = 0))

  test('with one small request each, and an area that answers passes', async () => {
    const results = await check({ api: answering(() => 200), workspace: all })
    expect(paths.toSorted()).toEqual([
      ...['/api/v1/logs/audit/latest', '/api/v1/vault/workspace/projects'],
      ...['/api/v2/history/query', '/api/v2/history/usage'],
    ])
    expect(results.slice(0, 4)).toEqual([
      'ok acme: audit log API: answers, accepts the key, has no entries yet',
      'ok acme: history API (usage, v2): answers, accepts the key',
      'ok acme: history API (query, v2): answers, accepts the key',
      'ok acme: vault API (projects): answers, accepts the key',
    ])
  })

  test('a missing v2 names v1, a missing permission names the permission', async () => {
    const api = answering((path) => (path.includes('history') ? 404 : path.includes('vault') ? 403 : 200))
    const results = await check({ api, workspace: all })
    expect(results[1]).toMatch(/^FAIL acme: history API .*404.*set history\.version: v1/)
    expect(results[3]).toMatch(/^FAIL acme: vault API .*403.*'View workspace projects'/)
  })
})

function emptyOf(path: string): unknown {
  if (path.includes('/vault/')) return { response: { content: { projects: [] } } }
  if (path.includes('/history/')) return path.includes('/v1/') ? [] : { events: [] }
  return {}
}

describe('an answer is checked by the reader that will receive it', () => {
  const entry = { id: '5f0c', timestamp: '2026-01-31T00:00:00Z', type: 'auth:login' }
  const right = 'answers, accepts the key'

  async function answered(area: '/audit/' | '/history/' | '/vault/', answer: HttpReply, version = 'v2') {
    const api: DaemonRigOptions['api'] = async ({ url }) => {
      const path = new URL(url).pathname
      return path.includes(area) ? answer : reply(200, emptyOf(path))
    }
    const history = { version, usage: true, query: false }
    const results = await check({ api, workspace: { history, vault: { projects: true } } })
    const at = { '/audit/': 0, '/history/': 1, '/vault/': 2 }[area]
    expect(results.toSpliced(at, 1).join()).not.toMatch(/FAIL/)
    return (results[at] ?? '').replace(/ acme: .*? API( \(.*?\))?:/, '')
  }

  test.each([
    ['bare', entry],
    ['under log', { log: entry }],
    ['without a readable time', { id: '5f0c', type: 'auth:login' }],
  ])('an entry of the audit log is accepted %s', async (_, body) => {
    expect(await answered('/audit/', reply(200, body))).toBe(`ok ${right}`)
  })

  test.each([
    ['null', reply(200, null)],
    ['an empty object', reply(200, {})],
    ['nothing under log', reply(200, { log: null })],
    ['204', { ...reply(204, {}), body: nothing() }],
    ['an empty body', { ...reply(200, {}), body: nothing() }],
  ])('an empty audit log may be %s', async (_, answer) => {
    expect(await answered('/audit/', answer)).toBe(`ok ${right}, has no entries yet`)
  })

  test.each([404, 410])('and %s, where `search` exists', async (status) => {
    const api: DaemonRigOptions['api'] = async ({ url }) => reply(url.includes('/search') ? 400 : status, {})
    expect((await check({ api }))[0]).toBe(
      'ok acme: audit log API: answers, accepts the key, has no entries yet',
    )
  })

  test.each([
    ['/audit/', 'v2', { status: 'ok' }, 'one entry'],
    ['/audit/', 'v2', { log: { status: 'ok' } }, 'one entry'],
    ['/audit/', 'v2', [entry], 'one entry'],
    ['/audit/', 'v2', 'hello', 'one entry'],
    ['/history/', 'v2', { status: 'ok' }, 'an array under "events"'],
    ['/history/', 'v2', [], 'an object'],
    ['/history/', 'v1', { events: [] }, 'an array'],
    ['/vault/', 'v2', { projects: [] }, 'response.content.projects'],
  ] as const)('JSON that %s (%s) cannot be is an error: %j', async (area, version, body, wanted) => {
    const reported = await answered(area, reply(200, body), version)
    expect(reported).toMatch(/^FAIL GET \/api\/v\d\/[a-z/]+: .* an unexpected format: .*check base_url/)
    expect(reported).toContain(wanted)
    expect(reported.includes('and history.version')).toBe(area === '/history/')
  })

  test.each([
    ['v2', { events: [{ unique_usage_id: 'u1', utc_time: '2026-01-31T00:00:00Z' }] }],
    ['v1', [{ Task: 'assist', timestamp: '2026-01-31T00:00:00Z' }]],
  ])('the history is accepted in the shape of its version %s', async (version, body) => {
    expect(await answered('/history/', reply(200, body), version)).toBe(`ok ${right}`)
  })
})

async function* nothing(): AsyncGenerator<Uint8Array> {}
