// A whole daemon in a temporary folder: the real journal, the mock in memory, a receiver and a log of the test's own, time fifteen times as fast.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openApp } from '../../../src/app/app.ts'
import type { Environment } from '../../../src/app/environment.ts'
import { configSchema } from '../../../src/config/schema.ts'
import { openJournal } from '../../../src/journal/sqlite/open.ts'
import { openMock } from '../../../src/mock/mock.ts'
import type { Clock } from '../../../src/core/clock.ts'
import type { Connect, HttpReply, Transport } from '../../../src/contracts/platform.ts'
import type { Journal } from '../../../src/contracts/journal.ts'
import type { Log, LogFields } from '../../../src/core/log.ts'
import { systemClock } from '../../../src/platform/clock.ts'
import { disk } from '../../../src/platform/disk.ts'

const FASTER = 15

export function fastClock(faster = FASTER): Clock {
  const startAt = systemClock.now()
  const zero = systemClock.elapsed()
  const elapsed = () => (systemClock.elapsed() - zero) * faster
  return {
    elapsed,
    now: () => Math.floor(startAt + elapsed()),
    sleep: (ms, signal) => systemClock.sleep(ms / faster, signal),
  }
}

export interface Line {
  readonly sentence: string
  readonly fields: LogFields
}

function logInto(lines: Line[], common: LogFields = {}): Log {
  const say = (sentence: string, fields?: LogFields) =>
    void lines.push({ sentence, fields: { ...common, ...fields } })
  return {
    ...{ debug: say, info: say, warn: say, error: say },
    with: (fields) => logInto(lines, { ...common, ...fields }),
  }
}

export const never = () => new Promise<never>(() => undefined)

export function reply(status: number, body: unknown): HttpReply {
  async function* bytes() {
    yield Buffer.from(JSON.stringify(body))
  }
  return { status, headers: { 'content-type': 'application/json' }, body: bytes() }
}

/** Answers that stall after their head until they are given up; how many there are and were. */
export function stalledAnswers() {
  const seen = { open: 0, left: 0 }
  const answer = (): HttpReply => {
    seen.open++
    const returned = async () => {
      seen.left++
      return { done: true as const, value: undefined }
    }
    const body = { [Symbol.asyncIterator]: () => ({ next: never, return: returned }) }
    return { status: 200, headers: { 'content-type': 'application/json' }, body }
  }
  return { seen, answer }
}

export const refuseToken: Transport = async () => reply(403, { text: 'Invalid token', code: 4 })
/** Answers a probe as healthy; a post gets its answer from the receiver given. */
export const healthy =
  (receiver: Transport): Transport =>
  (request, signal) =>
    request.method === 'GET'
      ? Promise.resolve(reply(200, { text: 'HEC is healthy', code: 17 }))
      : receiver(request, signal)
export const acceptAll: Transport = async () => reply(200, { text: 'Success', code: 0 })

interface DaemonRigOptions {
  readonly entries?: number
  /** what the HEC sink's requests get; without it there is no such sink */
  readonly receiver?: Transport | undefined
  /** what a bucket's requests get, at an endpoint whose name begins with `siem` */
  readonly s3?: Transport
  /** HEC sinks beside that one, `siem-1` and so on, each on a host of its name; they get their answers from it too */
  readonly moreSiems?: number
  /** what the API's requests get; by default the mock answers */
  readonly api?: Transport
  readonly key?: string
  /** more keys of the workspace's configuration */
  readonly workspace?: object
  /** workspaces that are read beside acme, each under the key `<name>-key`: the mock knows none of them */
  readonly others?: readonly string[]
  /** more keys of theirs */
  readonly otherWorkspaces?: object
  readonly maxBytes?: string
  readonly folder?: string
  /** of the app before, whose time continues */
  readonly clock?: Clock
  /** wraps the journal */
  readonly tamper?: (journal: Journal) => Journal
  readonly fileSink?: string
  /** more keys of each sink */
  readonly sinks?: object
  /** the file sink's disk never answers and ignores an abort */
  readonly deadDisk?: boolean
  /** streams that sinks name; absent: none is ever created */
  readonly connect?: Connect
}

export function openDaemonRig(options: DaemonRigOptions = {}) {
  const folder = options.folder ?? mkdtempSync(join(tmpdir(), 'app-'))
  const clock = options.clock ?? fastClock()
  const mock = openMock({ clock, traffic: { entriesPerHour: 0 }, switches: { self_audit: 'off' } })
  for (let i = options.entries ?? 20; i > 0; i--) mock.add({ at: clock.now() - i * 1000 })
  const lines: Line[] = []
  const hec = {
    name: 'siem',
    type: 'splunk_hec',
    url: 'https://siem.example.com:8088',
    token: 'planted-token',
  }
  const workspaceNamed = (name: string, key: string) => ({
    ...{ name, base_url: 'https://api.example.com', api_key: key },
    audit: { interval: '1s', lookback: '0s' },
  })
  const config = configSchema.parse({
    journal: { path: join(folder, 'a.db'), max_bytes: options.maxBytes ?? '1MiB' },
    workspaces: [
      { ...workspaceNamed('acme', options.key ?? 'acme-key'), ...options.workspace },
      ...(options.others ?? []).map((name) => ({
        ...workspaceNamed(name, `${name}-key`),
        ...options.otherWorkspaces,
      })),
    ],
    sinks: [
      {
        name: options.fileSink ?? 'archive',
        type: 'file',
        ...(options.s3 ? {} : { path: join(folder, 'out.ndjson') }),
        ...options.sinks,
      },
      ...(options.receiver ? [{ ...hec, ...options.sinks }] : []),
      ...Array.from({ length: options.moreSiems ?? 0 }, (_, i) => ({
        ...{ ...hec, name: `siem-${i + 1}`, url: `https://siem-${i + 1}.example.com:8088` },
        ...options.sinks,
      })),
    ],
  })
  const send: Transport = (request, signal) =>
    request.url.startsWith('https://siem')
      ? (options.receiver ?? options.s3 ?? never)(request, signal)
      : (options.api ?? mock.transport)(request, signal)
  const environment: Environment = {
    ...{ version: '0.0.0', clock, random: () => 0.5, log: logInto(lines) },
    disk: options.deadDisk ? { ...disk, open: never } : disk,
    network: () => ({ send, close: async () => undefined }),
    ...{ connect: options.connect ?? never, datagrams: never },
    print: async () => undefined,
    gzip: async (bytes) => bytes,
  }
  return {
    ...{ folder, clock, mock, lines, config, environment },
    open: (once: boolean) =>
      openApp(config, environment, { once }, async (wanted) => {
        const journal = await openJournal({ ...wanted, ballastBytes: 0 })
        return options.tamper?.(journal) ?? journal
      }),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  }
}

export async function until(seen: () => boolean, what: string): Promise<void> {
  for (let tries = 0; tries < 500; tries++) {
    if (seen()) return
    await systemClock.sleep(20)
  }
  throw new Error(`waited in vain for: ${what}`)
}
