// Privileged content through the whole daemon: each sink's own bytes are checked.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { openApp, type App } from '../../../src/app/app.ts'
import { configSchema } from '../../../src/config/schema.ts'
import type { Stream } from '../../../src/contracts/source.ts'
import { part, spec } from '../../contract/journal-parts.ts'
import { openDaemonRig, until } from './daemon-rig.ts'

const TEXT = 'privileged words'

let daemonRig: ReturnType<typeof openDaemonRig> | undefined
let app: App | undefined
afterEach(async () => {
  await app?.stop()
  daemonRig?.remove()
  daemonRig = app = undefined
})

async function start(sinks: readonly object[]) {
  const own = (daemonRig ??= openDaemonRig({ entries: 0 }))
  const { folder, environment } = own
  const config = configSchema.parse({
    journal: { path: join(folder, 'a.db') },
    workspaces: [{ name: 'acme', base_url: 'https://api.example.com', api_key: 'acme-key', audit: {} }],
    sinks: sinks.map((sink, index) => ({ type: 'file', path: join(folder, `${index}.ndjson`), ...sink })),
  })
  const opened = await openApp(config, environment, { once: false })
  app = opened
  void opened.run()
  const sinkAt = (index: number) => opened.registry.status().sinks[index] ?? expect.fail()
  return {
    opened,
    sinkAt,
    bytes: (index: number) => readFileSync(join(folder, `${index}.ndjson`), 'utf8'),
    append: (stream: Partial<Stream>, ...ns: number[]) =>
      opened.journal.append(
        part(
          ns.map((n) => spec(n, { body: TEXT, type: 'query' })),
          { stream: { workspace: 'acme', source: 'audit', ...stream } },
        ),
      ),
    settled: () =>
      until(() => sinks.every((_, index) => sinkAt(index).pending_entries === 0), 'all is settled'),
  }
}

test('query events reach only the sinks that name history.query, and only as they may see them', async () => {
  const name = (n: number) => `sink-${n}`
  const running = await start([
    { name: name(0) },
    { name: name(1), sources: ['audit', 'history.usage', 'vault.projects'] },
    { name: name(2), sources: ['history.query'] },
    {
      name: name(3),
      sources: ['history.query'],
      format: 'envelope',
      redact: [{ fields: ['body'], with: 'drop' }],
    },
    { name: name(4), sources: ['history.query'], format: 'cef', deny: { type: ['query'] } },
  ])
  await running.append({ source: 'history.query' }, 1, 2)
  await running.append({ source: 'history.usage' }, 3)
  await running.settled()
  expect([0, 1].map((n) => running.bytes(n).match(/"id"/g)?.length)).toEqual([1, 1])
  expect(running.bytes(2).match(new RegExp(TEXT, 'g'))).toHaveLength(2)
  expect(running.bytes(3)).not.toContain(TEXT)
  expect(running.bytes(3).match(/"entry":/g)).toHaveLength(2)
  expect(running.sinkAt(4).accepted_entries).toBe(0)
  expect(
    (await running.opened.metrics.render()).includes(
      'sink_entries_total{sink="sink-4",outcome="filtered"} 3',
    ),
  ).toBe(true)
})

test('a missing hash key blocks its sink alone, which sends nothing until the key exists and logs no content', async () => {
  daemonRig = openDaemonRig({ entries: 0 })
  const keyFile = join(daemonRig.folder, 'hash-key')
  const running = await start([
    { name: 'hashed', redact: [{ fields: ['body'], with: 'hash', key_file: keyFile }] },
    { name: 'plain' },
  ])
  await running.append({}, 1, 2)
  await until(
    () => running.sinkAt(1).pending_entries === 0 && running.sinkAt(0).state === 'blocked',
    'one is held',
  )
  expect(running.sinkAt(0)).toMatchObject({ pending_entries: 2, error: { code: 'misconfigured' } })
  expect(running.sinkAt(0).error?.message).toContain(keyFile)
  expect(() => running.bytes(0)).toThrow('ENOENT')
  writeFileSync(keyFile, `${'planted-key-'.repeat(4)}\n`)
  await running.settled()
  expect(running.bytes(0).match(/"body":"hmac-sha256:[0-9a-f]{64}"/g)).toHaveLength(2)
  expect(running.bytes(0) + JSON.stringify([daemonRig.lines, running.opened.registry.status()])).not.toMatch(
    /privileged|planted-key/,
  )
})

test('without history.query: true a workspace requests no query text, whatever a sink names; with it the text reaches the sinks that name it', async () => {
  for (const query of [false, true]) {
    const asked = new Set<string>()
    const own: ReturnType<typeof openDaemonRig> = openDaemonRig({
      entries: 0,
      api: (request, signal) => {
        asked.add(new URL(request.url).pathname)
        return own.mock.transport(request, signal)
      },
    })
    daemonRig = own
    for (let i = 1; i <= 3; i++) own.mock.add({ at: own.clock.now() - i * 60_000, type: 'user:create_query' })
    const path = (name: string) => join(own.folder, name)
    const config = configSchema.parse({
      journal: { path: path('a.db') },
      workspaces: [
        {
          ...{ name: 'acme', base_url: 'https://api.example.com', api_key: 'acme-key', audit: {} },
          history: { interval: '1s', start: '2d', query },
          rate_limits: { history: 1000 },
        },
      ],
      sinks: [
        { name: 'plain', type: 'file', path: path('plain') },
        { name: 'named', type: 'file', path: path('named'), sources: ['history.usage', 'history.query'] },
        {
          ...{ name: 'cut', type: 'file', path: path('cut'), sources: ['history.query'] },
          redact: [{ fields: ['query', 'response'], with: 'drop' }],
        },
      ],
    })
    const running = await openApp(config, own.environment, { once: true })
    app = running
    void running.run()
    await until(() => running.singleRun() === 'done', 'all is delivered')
    const lines = (name: string) => {
      const text = existsSync(path(name)) ? readFileSync(path(name), 'utf8') : ''
      return {
        events: text.match(/"unique_usage_id"/g)?.length ?? 0,
        texts: text.match(/"(query|response)" ?:/g)?.length ?? 0,
      }
    }
    expect(asked.has('/api/v2/history/query')).toBe(query)
    expect(asked.has('/api/v2/history/usage')).toBe(true)
    const read = query ? 3 : 0
    expect([lines('plain'), lines('named'), lines('cut')]).toEqual([
      { events: 3, texts: 0 },
      { events: 3 + read, texts: 2 * read },
      { events: read, texts: 0 },
    ])
    await running.stop()
    own.remove()
  }
})
