// The questions of `validate --connect`, with the mock as the API and a receiver of the test's own.
import { afterEach, describe, expect, test } from 'vitest'
import { checkConnections } from '../../../src/connections.ts'
import { never, openHouse, refuseToken, reply } from './house.ts'

let house: ReturnType<typeof openHouse> | undefined
afterEach(() => house?.remove())

type HouseOptions = NonNullable<Parameters<typeof openHouse>[0]>

async function check(options: HouseOptions, instance?: string) {
  house = openHouse(options)
  const results = await checkConnections(house.config, house.outside, new AbortController().signal, instance)
  return results.map(({ what, ok, message }) => `${ok ? 'ok' : 'FAIL'} ${what}: ${message}`)
}

test('where all answer, each is told as right, and no journal is opened', async () => {
  const results = await check({})
  expect(results[0]).toBe('ok acme: audit log API: answers, accepts the key')
  expect(results[1]).toMatch(/^ok archive: .*out\.ndjson: can be written$/)
  expect(results).toHaveLength(2)
})

test('an empty log is no fault', async () => {
  expect((await check({ entries: 0 }))[0]).toBe(
    'ok acme: audit log API: answers, accepts the key, and knows no entry yet',
  )
})

test('a refused key and a refused token are faults, each with what to do', async () => {
  const results = await check({ key: 'another-key', receiver: refuseToken })
  expect(results[0]).toMatch(/^FAIL acme: audit log API: .*401: the API key was refused/)
  expect(results.filter((line) => line.startsWith('FAIL siem'))).not.toEqual([])
  expect(results.join()).not.toMatch(/planted|another-key/)
})

test('what never answers has failed in time, and the rest is told', async () => {
  const results = await check({ api: never, receiver: never })
  expect(results).toContain('FAIL acme: API: no answer within 25 s')
  expect(results.filter((line) => line.startsWith('FAIL siem'))).toHaveLength(1)
  expect(results.filter((line) => line.startsWith('ok archive'))).toHaveLength(1)
})

test('asks under the name of the daemon that runs, so that it finds the request as its own', async () => {
  const agents: string[] = []
  const api: NonNullable<Parameters<typeof openHouse>[0]>['api'] = async ({ headers }) => {
    agents.push(headers['user-agent'] ?? '')
    return reply(200, {})
  }
  await check({ api }, 'abc123')
  expect(agents).toEqual(['auditferry/0.0.0 (instance abc123)'])
})

describe('every area that is switched on is asked', () => {
  const paths: string[] = []
  const answering =
    (status: (path: string) => number): NonNullable<HouseOptions['api']> =>
    async ({ url }) => {
      const path = new URL(url).pathname
      paths.push(path)
      return reply(status(path), {})
    }
  const all = { history: { usage: true, query: true }, vault: { projects: true } }
  afterEach(() => void (paths.length = 0))

  test('with one small request each, and what answers is told as right', async () => {
    const results = await check({ api: answering(() => 200), workspace: all })
    expect(paths.toSorted()).toEqual([
      ...['/api/v1/logs/audit/latest', '/api/v1/vault/workspace/projects'],
      ...['/api/v2/history/query', '/api/v2/history/usage'],
    ])
    expect(results.slice(0, 4)).toEqual([
      'ok acme: audit log API: answers, accepts the key',
      'ok acme: history API (usage, v2): answers, accepts the key',
      'ok acme: history API (query, v2): answers, accepts the key',
      'ok acme: vault API (projects): answers, accepts the key',
    ])
  })

  test('where v2 is not there, v1 is named; where a permission may lack, which', async () => {
    const api = answering((path) => (path.includes('history') ? 404 : path.includes('vault') ? 403 : 200))
    const results = await check({ api, workspace: all })
    expect(results[1]).toMatch(/^FAIL acme: history API .*404.*set history\.version: v1/)
    expect(results[3]).toMatch(/^FAIL acme: vault API .*403.*'View workspace projects'/)
  })
})
