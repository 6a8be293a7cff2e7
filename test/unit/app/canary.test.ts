// The canary through the whole daemon against the mock: from the prompt to each sink, every stage that is on, and none that is off.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { openApp, type App } from '../../../src/app/app.ts'
import { configSchema } from '../../../src/config/schema.ts'
import type { Transport } from '../../../src/contracts/platform.ts'
import { openDaemonRig, reply, until } from './daemon-rig.ts'

let daemonRig: ReturnType<typeof openDaemonRig> | undefined
let app: App | undefined
afterEach(async () => {
  await app?.stop()
  daemonRig?.remove()
  daemonRig = app = undefined
})

interface Given {
  readonly history?: object
  readonly audit?: false | object
  readonly sinks?: readonly object[]
  readonly once?: boolean
  readonly api?: Transport
}

async function start({ history, audit, sinks = [], once = false, api }: Given) {
  const own = (daemonRig ??= openDaemonRig({ entries: 3, ...(api ? { api } : {}) }))
  own.mock.setSwitches({ self_audit: 'all' })
  const { folder, environment } = own
  const path = (name: string) => join(folder, name)
  const config = configSchema.parse({
    journal: { path: path('a.db') },
    workspaces: [
      {
        ...{ name: 'acme', base_url: 'https://api.example.com', api_key: 'acme-key' },
        ...(audit === false ? {} : { audit: { interval: '1s', lookback: '0s', ...audit } }),
        ...(history ? { history } : {}),
        canary: { enabled: true, interval: '1m' },
        rate_limits: { audit: 1000, history: 1000 },
      },
    ],
    sinks: [
      { name: 'archive', type: 'file', path: path('a') },
      { name: 'queries', type: 'file', path: path('q'), sources: ['history.query'] },
      { name: 'logins', type: 'file', path: path('l'), types: ['auth:*'] },
      ...sinks.map((sink, n) => ({ name: `other-${n}`, type: 'file', path: path(`other-${n}`), ...sink })),
    ],
  })
  const opened = await openApp(config, environment, { once })
  app = opened
  void opened.run()
  const reported = async (name: string) =>
    [
      ...(await opened.metrics.render()).matchAll(
        new RegExp(`^auditferry_canary_${name}\\{(.*)\\} (.*)$`, 'gm'),
      ),
    ].map(
      ([, labels = '', value]) =>
        `${labels.replace(/workspace="acme",?/, '').replace(/stage="|"|sink="/g, '')} ${value}`,
    )
  const stages = async () => (await reported('seconds')).map((line) => line.replace(/ .*$/, '')).toSorted()
  return { opened, config, reported, stages, bytes: (name: string) => readFileSync(path(name), 'utf8') }
}

async function whole(running: Awaited<ReturnType<typeof start>>): Promise<void> {
  for (let tries = 0; tries < 600; tries++) {
    const [last = ' 0'] = await running.reported('last_success_timestamp_seconds')
    if (Number(last.trim()) > 0) return
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  throw new Error(`it did not come back: ${(await running.reported('seconds')).join(', ')}`)
}

test('each stage that is on is measured, up to every sink that takes one of its traces', async () => {
  const running = await start({ history: { interval: '1s', start: 'latest', query: true } })
  await whole(running)
  expect(await running.stages()).toEqual([
    ...['audit', 'delivered,archive', 'delivered,queries', 'query', 'request', 'usage'],
  ])
  expect(await running.reported('missing')).toHaveLength(5)
  expect((await running.reported('missing')).every((line) => line.endsWith(' 0'))).toBe(true)
  const [, nonce = ''] = /canary (c[0-9a-f]{20})\)/.exec(running.bytes('a')) ?? expect.fail('no trace')
  expect(running.bytes('q')).toContain(nonce)
  const source = running.opened.registry
    .status()
    .workspaces[0]?.sources.find(({ name }) => name === 'assistant')
  expect(source).toMatchObject({ state: 'idle', error: null })
  expect((daemonRig?.lines ?? []).map(({ sentence }) => sentence).join()).not.toContain('canary')
})

test('stages that are off are left out: without history none of its stages is waited for', async () => {
  const running = await start({})
  await whole(running)
  expect(await running.stages()).toEqual(['audit', 'delivered,archive', 'request'])
})

test('a usage event that cannot be identified is not waited for; with the query event it is measured', async () => {
  const history = { interval: '1s', start: 'latest' }
  const alone = await start({ history, audit: false })
  await whole(alone)
  expect(await alone.stages()).toEqual(['request'])
  await alone.opened.stop()
  daemonRig?.remove()
  daemonRig = undefined
  const both = await start({ history: { ...history, query: true }, audit: false })
  await whole(both)
  expect(await both.stages()).toEqual(['delivered,archive', 'delivered,queries', 'query', 'request', 'usage'])
})

/** Sinks in which a trace is expected. */
async function awaited(given: Given): Promise<string[]> {
  const { reported } = await start(given)
  const lines = await reported('missing')
  return lines.flatMap((line) => /^delivered,(\S+)/.exec(line)?.[1] ?? []).toSorted()
}

test('a sink with a type filter has the trace of the audit log if its type passes, and none of the history', async () => {
  const types = ['api:create_query']
  const sinks = [{ types }, { types, sources: ['history.query'] }]
  const history = { interval: '1s', start: 'latest', query: true }
  expect(await awaited({ history, sinks })).toEqual(['archive', 'other-0', 'queries'])
})

test('where the audit log is read without the type of a prompt, no sink has its trace', async () => {
  expect(await awaited({ audit: { types: ['*', '!api:create_query'] } })).toEqual([])
})

test('a single run sends no prompt', async () => {
  const asked: string[] = []
  const api: Transport = (request, signal) => {
    asked.push(request.url)
    return (daemonRig ?? expect.fail()).mock.transport(request, signal)
  }
  const running = await start({ once: true, api })
  await until(() => running.opened.singleRun() === 'done', 'all is delivered')
  expect(asked.length).toBeGreaterThan(0)
  expect(asked.filter((url) => url.includes('completion'))).toEqual([])
  expect(await running.reported('interval_seconds')).toEqual([])
})

test('a key without permission for the assistant is reported, and everything else continues', async () => {
  const api: Transport = (request, signal) =>
    request.url.includes('completion')
      ? Promise.resolve(reply(403, { error: 'planted' }))
      : (daemonRig ?? expect.fail()).mock.transport(request, signal)
  const { opened } = await start({ api })
  const states = () =>
    Object.fromEntries(
      opened.registry.status().workspaces[0]?.sources.map(({ name, state }) => [name, state]) ?? [],
    )
  await until(() => states()['assistant'] === 'blocked', 'it is held')
  await until(() => (opened.registry.status().sinks[0]?.accepted_entries ?? 0) > 2, 'the rest is delivered')
  expect(opened.registry.status().summary).toContain('POST /api/v2/completion answered 403')
  expect(opened.registry.status().summary).not.toContain('planted')
})

test('a blocked source does not keep a prompt from being sent: only its own stage is missing', async () => {
  const asked: string[] = []
  const api: Transport = (request, signal) => {
    asked.push(request.url)
    return request.url.includes('/history/')
      ? Promise.resolve(reply(403, { error: 'planted' }))
      : (daemonRig ?? expect.fail()).mock.transport(request, signal)
  }
  const running = await start({ api, history: { interval: '1s', start: 'latest' } })
  await until(() => asked.some((url) => url.includes('completion')), 'the prompt is sent')
  const isTraced = async () => (await running.stages()).includes('audit')
  for (let tries = 0; tries < 600 && !(await isTraced()); tries++)
    await new Promise((resolve) => setTimeout(resolve, 20))
  expect(await running.stages()).toContain('audit')
  expect(await running.stages()).not.toContain('usage')
})
