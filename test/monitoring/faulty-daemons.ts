// Two real daemons with every fault around them: one whose APIs fail, one whose receivers do.
import { createSocket } from 'node:dgram'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { listenMock } from '../../src/mock/listen.ts'
import type { Listening } from '../../src/mock/listen.ts'
import { openMock } from '../../src/mock/mock.ts'
import type { Mock } from '../../src/mock/mock.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { answerHec, FakeHec } from '../fakes/hec.ts'
import { openHecServer } from '../fakes/hec-server.ts'
import type { HecListener } from '../fakes/hec-server.ts'
import { freePort, HOST, until } from '../integration/receivers/ports.ts'
import { startProcess } from '../integration/receivers/process.ts'
import type { Running } from '../integration/receivers/program.ts'
import type { Target } from './prometheus.ts'

const KEY = 'the-first-key'
const FRESH_KEY = 'the-next-key'
const main = join(import.meta.dirname, '../../src/main.ts')
/** A few entries a second. */
const trafficFrom = (since: number) => ({ entriesPerHour: 36_000, rhythm: 'steady' as const, since })
/** The journal of the second daemon has room for some seconds of traffic, and not for the burst on top of it. */
const JOURNAL_BYTES = '32KiB'
const BURST_ENTRIES = 16
const LONGEST_MESSAGE = 4_000

export interface Setup {
  readonly targets: readonly Target[]
  /** All sources have been read and all sinks have delivered. */
  inOrder(): Promise<void>
  /** What each daemon exposes. */
  metrics(): Promise<readonly string[]>
  /** All faults at once. */
  spoil(): Promise<void>
  mendKey(): void
  mendConfig(): void
  /** The second daemon is gone. */
  leave(): Promise<void>
  close(): Promise<void>
}

interface Api extends Listening {
  readonly mock: Mock
}

async function openApi(name: string): Promise<Api> {
  const limits = { audit: 0, history: 0, vault: 0, assistant: 0 }
  const traffic = trafficFrom(systemClock.now() - 60_000)
  const mock = openMock({ clock: systemClock, workspaces: [{ name, keys: [{ key: KEY }] }], traffic, limits })
  return { mock, ...(await listenMock(mock, { port: 0, host: HOST })) }
}

const audited = (folder: string, name: string, { url }: Api) => ({
  name,
  base_url: url,
  api_key: `\${file:${keyFile(folder, name)}}`,
  audit: { interval: '2s', start: 'latest', lookback: '0s' },
  rate_limits: { audit: 6_000 },
})

const keyFile = (folder: string, workspace: string): string => join(folder, `${workspace}.key`)

interface Daemon {
  readonly port: number
  readonly config: string
  readonly text: string
  metrics(): Promise<string>
  stop(): Promise<void>
}

async function startDaemon(
  folder: string,
  parts: { workspaces: { name: string }[]; sinks: object[]; maxBytes: string },
): Promise<Daemon> {
  const { workspaces, sinks, maxBytes } = parts
  mkdirSync(folder)
  for (const { name } of workspaces) writeFileSync(keyFile(folder, name), KEY, { mode: 0o600 })
  const [config, port] = [join(folder, 'config.yaml'), await freePort()]
  const journal = { path: join(folder, 'journal.db'), max_bytes: maxBytes }
  const text = stringify({ journal, workspaces, sinks, server: { listen: `${HOST}:${port}` } })
  writeFileSync(config, text)
  const args = ['run', '--config', config]
  const running: Running = startProcess(
    [process.execPath, main],
    {},
    { args, folder, port: { number: port, protocol: 'tcp' } },
  )
  await until('the daemon', async () => {
    const ended = await running.ended()
    if (ended !== undefined) throw new Error(`the daemon has ended: ${ended}`)
    return running.listening()
  })
  const metrics = async () => (await fetch(`http://${HOST}:${port}/metrics`)).text()
  return { port, config, text, metrics, stop: () => running.stop('SIGTERM') }
}

const shows = (daemon: Daemon, pattern: RegExp) =>
  until(String(pattern), async () => pattern.test(await daemon.metrics()))

const none = (text: string, pattern: RegExp): boolean => !pattern.test(text)
const neverRead = /^auditferry_source_last_success_timestamp_seconds\{.*\} 0$/m
const neverDelivered = /^auditferry_sink_last_success_timestamp_seconds\{.*\} 0$/m

/** Another request under the key's user is an entry too, and none of ours. */
async function fetchAsSomebodyElse({ url }: Api): Promise<void> {
  const headers = { authorization: `Bearer ${KEY}`, 'user-agent': 'somebody/1.0' }
  const reply = await fetch(`${url}/api/v1/logs/audit/latest`, { headers })
  if (!reply.ok) throw new Error(`the mock refused: ${reply.status}`)
  await reply.arrayBuffer()
}

/** Takes datagrams and drops them. */
async function openRelay(): Promise<{ readonly port: number; close(): void }> {
  const socket = createSocket('udp4')
  await new Promise<void>((resolve) => socket.bind(0, HOST, resolve))
  return { port: socket.address().port, close: () => void socket.close() }
}

async function openReceivers(folder: string) {
  const hec = new FakeHec()
  const server: HecListener = await openHecServer((request) => answerHec(hec, request, systemClock), {
    port: 0,
  })
  const [api, relay] = [await openApi('delta'), await openRelay()]
  const home = join(folder, 'delivering')
  const siem = { name: 'siem', type: 'splunk_hec', url: server.url, token: 'test-token', acks: false }
  const short = { max_message_bytes: LONGEST_MESSAGE, oversize: 'dead_letter' }
  const daemon = await startDaemon(home, {
    workspaces: [audited(home, 'delta', api)],
    sinks: [siem, { name: 'relay', type: 'syslog', address: `udp://${HOST}:${relay.port}`, ...short }],
    maxBytes: JOURNAL_BYTES,
  })
  return { server, relay, api, daemon }
}

async function openReading(folder: string) {
  const [acme, beta, gamma] = [await openApi('acme'), await openApi('beta'), await openApi('gamma')]
  const home = join(folder, 'reading')
  const daemon = await startDaemon(home, {
    workspaces: [audited(home, 'acme', acme), audited(home, 'beta', beta), audited(home, 'gamma', gamma)],
    sinks: [{ name: 'archive', type: 'file', path: join(home, 'entries.ndjson') }],
    maxBytes: '1GiB',
  })
  const mendKey = () => writeFileSync(keyFile(home, 'acme'), FRESH_KEY)
  return { acme, beta, gamma, daemon, mendKey }
}

export async function openSetup(folder: string): Promise<Setup> {
  const [reading, delivering] = await Promise.all([openReading(folder), openReceivers(folder)])
  const daemons = [reading.daemon, delivering.daemon]
  const apis = [reading.acme, reading.beta, reading.gamma, delivering.api]
  const metrics = () => Promise.all(daemons.map((daemon) => daemon.metrics()))
  return {
    targets: [
      { job: 'reading', port: reading.daemon.port },
      { job: 'delivering', port: delivering.daemon.port },
    ],
    metrics,
    inOrder: () =>
      until('all read and delivered', async () => {
        const texts = await metrics()
        return texts.every((text) => none(text, neverRead) && none(text, neverDelivered))
      }),
    spoil: async () => {
      const { acme, beta, gamma, daemon } = reading
      acme.mock.rotateKey(KEY, FRESH_KEY)
      beta.mock.setFault('error_500', 1)
      gamma.mock.setFault('no_id', 0.2)
      await fetchAsSomebodyElse(gamma)
      await shows(daemon, /^auditferry_source_findings_total\{workspace="gamma",.*\} [1-9]/m)
      // The cursor's entry too.
      gamma.mock.purgeBefore(systemClock.now())
      writeFileSync(daemon.config, 'workspaces: none\n')
      delivering.api.mock.add({ data: { text: 'x'.repeat(LONGEST_MESSAGE) } })
      await shows(delivering.daemon, /^auditferry_sink_dead_letters\{sink="relay"\} [1-9]/m)
      await delivering.server.close()
      for (let entry = 0; entry < BURST_ENTRIES; entry++)
        delivering.api.mock.add({ data: { text: 'x'.repeat(LONGEST_MESSAGE / 2) } })
    },
    mendKey: () => reading.mendKey(),
    mendConfig: () => writeFileSync(reading.daemon.config, reading.daemon.text),
    leave: () => delivering.daemon.stop(),
    close: async () => {
      await Promise.all(daemons.map((daemon) => daemon.stop()))
      delivering.relay.close()
      await Promise.all([...apis.map((api) => api.close()), delivering.server.close().catch(() => undefined)])
    },
  }
}
