// `auditferry demo`: the mock API with live traffic, the real daemon and a file sink, on this machine alone. No account, nothing to configure.
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { configSchema } from '../config/schema.ts'
import type { Config } from '../config/schema.ts'
import { listenMock } from '../mock/listen.ts'
import { openMock } from '../mock/mock.ts'
import { ConnectorError } from '../model/errors.ts'
import { systemClock } from '../ops/clock.ts'
import { realOutside } from './outside.ts'
import { runDaemon } from './run.ts'
import type { World } from './world.ts'

const KEY = 'demo-key'
/** A workspace of some size in mid-afternoon. */
const ENTRIES_PER_HOUR = 3_600
/** What was there before: so that something flows at once. */
const BACKLOG = 3_000

export interface DemoOptions {
  readonly data: string
  readonly listen: string
}

function demoConfig(baseUrl: string, folder: string, listen: string): Config {
  return configSchema.parse({
    journal: { path: join(folder, 'auditferry.db'), max_bytes: '256MiB' },
    workspaces: [{ name: 'demo', base_url: baseUrl, api_key: KEY, audit: { interval: '3s', sweep: '1h' } }],
    sinks: [{ name: 'archive', type: 'file', path: join(folder, 'entries.ndjson') }],
    server: { listen },
    log: { level: 'warn' },
  })
}

/** Runs until the signal. What an earlier demo left in its own folder is removed first: its mock's entries are gone with it. */
export async function demo(world: World, options: DemoOptions): Promise<number> {
  const folder = join(options.data, 'demo')
  rmSync(folder, { recursive: true, force: true })
  const mock = openMock({
    clock: systemClock,
    seed: systemClock.now(),
    workspaces: [{ name: 'demo', keys: [{ key: KEY }] }],
    traffic: { entriesPerHour: ENTRIES_PER_HOUR, backlog: BACKLOG },
  })
  const api = await listenMock(mock, { port: 0, host: '127.0.0.1' })
  const tell = (page: string) =>
    world.stdout(`
Auditferry demo: a mock workspace, the real daemon, a file. Nothing leaves this machine.

  status page   ${page}
  entries       ${join(folder, 'entries.ndjson')}      (tail -f it)
  metrics       ${page}metrics
  mock API      ${api.url}

Stop the daemon with kill -9 and start it on your own configuration next: see README.md. Ctrl-C ends the demo.
`)
  try {
    return await runOn(options.listen)
  } catch (error) {
    // The demo should not fail because something else has the usual port.
    if (!(error instanceof ConnectorError) || !/in use/.test(error.message)) throw error
    return await runOn('127.0.0.1:0')
  } finally {
    await api.close()
  }

  function runOn(listen: string): Promise<number> {
    const config = demoConfig(api.url, folder, listen)
    return runDaemon(config, realOutside(config, world), world, tell)
  }
}
