// A test bench for the built program: the mock API and a HEC receiver behind real sockets, a file sink and a journal in a temporary folder.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync, existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { listenMock } from '../../src/mock/listen.ts'
import { openMock } from '../../src/mock/mock.ts'
import type { Mock } from '../../src/mock/mock.ts'
import type { Faults, Switches } from '../../src/mock/switches.ts'
import type { TrafficOptions } from '../../src/mock/traffic.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { FakeHec, listenHec } from '../fakes/hec.ts'
import type { HecOptions } from '../fakes/hec.ts'

const API_KEY = 'api-key-that-nobody-may-see'
const HEC_TOKEN = 'hec-token-that-nobody-may-see'
export const secrets = [API_KEY, HEC_TOKEN]

export interface StageOptions {
  readonly seed?: number | undefined
  readonly traffic: TrafficOptions
  readonly switches?: Partial<Switches>
  readonly faults?: Faults
  readonly batchEntries?: number | undefined
  /** more of the journal's settings */
  readonly journal?: Readonly<Record<string, unknown>>
  /** where the journal is; absent: in a file */
  readonly postgres?: Readonly<Record<string, unknown>> | undefined
  readonly compression?: 'gzip' | 'none'
  /** more of the workspace's audit section */
  readonly audit?: Readonly<Record<string, unknown>>
  /** what else the workspace reads: its history and vault sections */
  readonly areas?: Readonly<Record<string, unknown>>
  /** more of the file sink's settings */
  readonly archive?: Readonly<Record<string, unknown>>
  /** how a receiver acknowledges; absent: it does not */
  readonly receiver?: HecOptions
  /** more of the HEC sink's settings */
  readonly splunk?: Readonly<Record<string, unknown>>
  /** only the file sink */
  readonly withoutHec?: boolean
  /** the token that the receiver knows, if it is not ours */
  readonly hecToken?: string
  /** a front before API and receiver: its address, by the server's own */
  readonly front?: (before: 'api' | 'hec', url: string) => Promise<string>
  /** sinks beside file and receiver */
  readonly further?: readonly Readonly<Record<string, unknown>>[]
}

export interface Stage {
  readonly folder: string
  readonly mock: Mock
  readonly hec: FakeHec
  readonly config: string
  /** of each life: with PostgreSQL it names the replica, and a folder of its own */
  readonly env: Readonly<Record<string, string>>
  /** Its journal is: then `run --once` is refused. */
  readonly inPostgres: boolean
  readonly file: string
  /** the file's bytes; none if there is no file yet */
  written(): Buffer
  close(): Promise<void>
}

const direct = (_: string, url: string): Promise<string> => Promise.resolve(url)

export async function openStage(options: StageOptions): Promise<Stage> {
  const { seed = 1, traffic, switches = {}, faults = {}, audit = {}, hecToken = HEC_TOKEN } = options
  const { front = direct, further = [], postgres } = options
  const folder = mkdtempSync(join(tmpdir(), 'auditferry-e2e-'))
  const mock = openMock({
    clock: systemClock,
    seed,
    workspaces: [{ name: 'acme', keys: [{ key: API_KEY }] }],
    traffic,
    switches,
    faults,
    limits: { audit: 0, history: 0, vault: 0 },
  })
  const hec = new FakeHec({
    tokens: { [hecToken]: { acks: options.receiver !== undefined } },
    ...options.receiver,
  })
  const api = await listenMock(mock, { port: 0, host: '127.0.0.1' })
  const receiver = await listenHec(hec, { port: 0 })
  const out = (name: string) => join(folder, `out/${name}.ndjson`)
  const file = out('entries')
  // The file of a replica has to be named so.
  const path = postgres ? out('${env:HOSTNAME}') : file
  const env: Record<string, string> = postgres ? { HOSTNAME: 'entries', TMPDIR: join(folder, 'tmp') } : {}
  mkdirSync(join(folder, 'tmp'))
  const keyFile = join(folder, 'api-key')
  writeFileSync(keyFile, `${API_KEY}\n`)
  const batch = { max_entries: options.batchEntries ?? 1000, linger: '50ms' }
  const splunk = {
    name: 'splunk',
    type: 'splunk_hec',
    url: await front('hec', receiver.url),
    token: HEC_TOKEN,
    compression: options.compression ?? 'gzip',
    ...options.splunk,
    batch,
  }
  const config = join(folder, 'auditferry.yaml')
  // JSON is YAML. The limit is far above the requests: each death costs a sixth of it for a minute.
  const written = {
    journal: {
      ...(postgres ? { postgres } : { path: join(folder, 'state/auditferry.db') }),
      ...options.journal,
    },
    workspaces: [
      {
        name: 'acme',
        base_url: await front('api', api.url),
        api_key: `\${file:${keyFile}}`,
        audit: { activity: 'high', interval: '1s', ...audit },
        ...options.areas,
        rate_limits: { audit: 60_000, history: 60_000, vault: 60_000 },
      },
    ],
    sinks: [
      { name: 'archive', type: 'file', path, batch, ...options.archive },
      ...(options.withoutHec === true ? [] : [splunk]),
      ...further,
    ],
    server: { listen: '127.0.0.1:0' },
  }
  writeFileSync(config, JSON.stringify(written, null, 2))
  return {
    folder,
    mock,
    hec,
    ...{ config, env, file },
    inPostgres: postgres !== undefined,
    written: () => (existsSync(file) ? readFileSync(file) : Buffer.alloc(0)),
    close: async () => {
      await api.close()
      await receiver.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
