// A configuration for the mock on a loopback port, with
// three whole past days, and optionally a real daemon.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Sqlite from 'better-sqlite3'
import { runDaemon } from '../../../src/cli/run/daemon.ts'
import { realEnvironment } from '../../../src/cli/shared/environment.ts'
import { run } from '../../../src/cli/run/run.ts'
import { readTextFile } from '../../../src/config/files.ts'
import { loadConfig } from '../../../src/config/load.ts'
import { listenMock } from '../../../src/mock/listen.ts'
import { openMock } from '../../../src/mock/mock.ts'
import { systemClock } from '../../../src/platform/clock.ts'
import { disk } from '../../../src/platform/disk.ts'
import { openContext } from './context.ts'

export const DAY = 86_400_000
export const today = () => Math.floor(systemClock.now() / DAY) * DAY
export const dayText = (ago: number) => new Date(today() - ago * DAY).toISOString().slice(0, 10)

export async function openPastSetup({ start = 'earliest', types = '["*"]' } = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'past-'))
  const mock = openMock({
    ...{ clock: systemClock, traffic: { entriesPerHour: 0 }, limits: { audit: 0 } },
    switches: { self_audit: 'off' },
  })
  // One per hour, and one at each end of each day.
  for (let ago = 3; ago >= 1; ago--) {
    const day = today() - ago * DAY
    mock.add({ at: day, visibleAt: 0 })
    for (let hour = 1; hour < 24; hour++) mock.add({ at: day + hour * 3_600_000, visibleAt: 0 })
    mock.add({ at: day + DAY - 1, visibleAt: 0 })
  }
  const api = await listenMock(mock, { port: 0, host: '127.0.0.1' })
  const path = join(folder, 'a.db')
  const config = join(folder, 'a.yaml')
  const write = (more: { start?: string; keepKeys?: string; limit?: number } = {}) =>
    writeFileSync(
      config,
      `journal: { path: ${path}, dedup_retention: ${more.keepKeys ?? '35d'} }
workspaces: [{ name: acme, base_url: "${api.url}", api_key: acme-key, audit: { start: ${more.start ?? start}, types: ${types}, lookback: 0s }, rate_limits: { audit: ${more.limit ?? 60} } }]
sinks: [{ name: archive, type: file, path: ${folder}/out.ndjson, batch: { linger: 10ms } }]
server: { listen: 127.0.0.1:0 }
log: { level: error }
`,
    )
  write()
  const { context, stop, heard } = openContext()
  const daemons: { stop: AbortController; over: Promise<void> }[] = []
  const stopDaemons = async () => {
    for (const { stop: end, over } of daemons.splice(0)) {
      end.abort()
      await over
    }
  }
  return {
    ...{ folder, mock, config, path, context, stop, heard, write, stopDaemons },
    once: () => run(context, { config, once: true, timeout: '20s' }),
    daemon: async () => {
      const loaded = loadConfig(config, { env: {}, readFile: readTextFile })
      const end = new AbortController()
      const environment = { ...realEnvironment(loaded, context), disk }
      await new Promise<void>((resolve, reject) => {
        const over = runDaemon({ config: loaded, environment }, end.signal, { started: () => resolve() })
        over.catch(reject)
        daemons.push({ stop: end, over })
      })
    },
    /** Bypasses all locks, so only while no process has the journal open. */
    tamper: (statement: string) => {
      const db = new Sqlite(path)
      const { changes } = db.prepare(statement).run()
      db.close()
      return changes
    },
    lines: () =>
      readTextFile(join(folder, 'out.ndjson'))
        .split('\n')
        .filter((line) => line !== ''),
    close: async () => {
      await stopDaemons()
      await api.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
