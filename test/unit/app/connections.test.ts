// The questions of `validate --connect`, with the mock as the API and a receiver of the test's own.
import { afterEach, expect, test } from 'vitest'
import { checkConnections } from '../../../src/connections.ts'
import { never, openHouse, refuseToken, reply } from './house.ts'

let house: ReturnType<typeof openHouse> | undefined
afterEach(() => house?.remove())

async function check(options: Parameters<typeof openHouse>[0], instance?: string) {
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
    'ok acme: audit log API: answers, accepts the key, and knows no entry (404): the log is empty, or base_url leads elsewhere',
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
