// Client of the control socket: queries the daemon that uses a journal, as if the journal were open
// here.
import type { SinkDayAccount, KeptDayAccount, PendingStep } from '../contracts/accounts.ts'
import { lstatSync } from 'node:fs'
import { request } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { ConnectorError, errnoOf } from '../core/errors.ts'
import type { ErrorCode } from '../core/errors.ts'
import type { Replayed } from '../contracts/journal.ts'
import type { DeadLetter, QuarantineRecord, Retried } from '../contracts/records.ts'
import type { Compared, Comparing, Job, Jobs, StartedJob } from '../contracts/jobs.ts'
import type { Stream } from '../contracts/source.ts'
import { ownerCalls, ownerFault } from '../core/file-owners.ts'
import { controlPath } from '../journal/sqlite/files.ts'
import type { OperatorJournal, Retry } from './questions.ts'
import type { StatusReport } from '../observability/status.ts'

export interface ControlClient extends OperatorJournal, Comparing {
  readonly jobs: Jobs
  status(): Promise<StatusReport>
  readonly retry: Retry
  /** the name of this daemon's requests in the audit log */
  instance(): Promise<string | undefined>
  metrics(): Promise<string>
  /** The next lines that the sink receives, as far as they come within `waitMs`. */
  tap(sink: string, limit: number, waitMs: number): Promise<readonly Uint8Array[]>
}

const TIMEOUT_MS = 30_000
/** The largest entry is 16 MiB unless the configuration allows more. */
const MAX_REPLY_BYTES = 1024 * 1024 * 1024

export interface RawReply {
  readonly status: number
  readonly bytes: Buffer
}

async function read(reply: IncomingMessage): Promise<RawReply> {
  const pieces: Buffer[] = []
  let length = 0
  for await (const piece of reply as AsyncIterable<Buffer>) {
    length += piece.length
    if (length > MAX_REPLY_BYTES)
      throw new ConnectorError('bad_reply', 'The reply of the daemon is larger than 1 GiB')
    pieces.push(piece)
  }
  return { status: reply.statusCode ?? 0, bytes: Buffer.concat(pieces) }
}

function ask(socketPath: string, method: string, path: string, body?: object): Promise<RawReply> {
  return new Promise((resolve, reject) => {
    const sent = request({
      socketPath,
      method,
      path,
      agent: false,
      timeout: TIMEOUT_MS,
      headers: { host: 'auditferry' },
    })
    sent.once('timeout', () =>
      sent.destroy(
        new ConnectorError(
          'timeout',
          `The daemon at ${socketPath} did not answer within ${TIMEOUT_MS / 1000} s`,
        ),
      ),
    )
    sent.once('error', reject)
    sent.once('response', (reply) => {
      read(reply).then(resolve, reject)
    })
    sent.end(body && JSON.stringify(body))
  })
}

/** No listener: there is no socket, or a killed daemon left it. */
function isNoListener(error: unknown): boolean {
  const code = errnoOf(error)
  return code === 'ENOENT' || code === 'ECONNREFUSED' || code === 'ENOTDIR' || code === 'ENOTSOCK'
}

function explained(error: unknown, socketPath: string): unknown {
  if (error instanceof ConnectorError) return error
  const code = errnoOf(error, 'unknown')
  const why =
    code === 'EACCES' || code === 'EPERM'
      ? 'may not be used by this user: run the command as the user of the daemon'
      : `closed the connection (${code}): the daemon may be stopping, try again`
  return new ConnectorError('unreachable', `The control socket ${socketPath} ${why}`, { cause: error })
}

/** The daemon's error is thrown here again. */
function bytesOf({ status, bytes }: RawReply): Buffer | undefined {
  if (status === 200) return bytes
  if (status === 404) return undefined
  const { code = 'bad_reply', message = `The daemon answered ${status}` } = parse(bytes)
  throw new ConnectorError(code, message)
}

function parse(bytes: Buffer): { code?: ErrorCode; message?: string } {
  try {
    return JSON.parse(bytes.toString()) as { code?: ErrorCode; message?: string }
  } catch {
    return {}
  }
}

/** Undefined: no daemon answers at this journal's socket. */
export async function connectControl(journalPath: string): Promise<ControlClient | undefined> {
  const socketPath = controlPath(journalPath)
  if (socketPath === undefined) return undefined
  const foreign = ownerFault(socketPath, ownerCalls(lstatSync))
  if (foreign !== undefined) throw new ConnectorError('misconfigured', `The control socket ${foreign}`)
  try {
    await ask(socketPath, 'GET', '/instance')
  } catch (error) {
    if (isNoListener(error)) return undefined
    throw explained(error, socketPath)
  }
  return clientOf(async (method, path, body) => {
    try {
      return await ask(socketPath, method, path, body)
    } catch (error) {
      throw explained(error, socketPath)
    }
  })
}

type Exchange = (method: 'GET' | 'POST', path: string, body?: object) => Promise<RawReply>

/** Asks each question by an exchange, over a socket or through the database. */
export function clientOf(ask: Exchange): ControlClient {
  const exchange: (...of: Parameters<Exchange>) => Promise<Buffer | undefined> = async (...of) =>
    bytesOf(await ask(...of))
  const json = async <T>(path: string, body?: object): Promise<T> => {
    const bytes = await exchange(body ? 'POST' : 'GET', path, body)
    if (!bytes)
      throw new ConnectorError(
        'bad_reply',
        'The daemon does not know this request: it may be an older version',
      )
    return JSON.parse(bytes.toString()) as T
  }
  return {
    status: () => json<StatusReport>('/status'),
    instance: async () => (await json<{ instance?: string }>('/instance')).instance,
    metrics: async () => (await json<{ text: string }>('/metrics')).text,
    tap: async (sink, limit, waitMs) => {
      const { lines } = await json<{ lines: readonly string[] }>('/tap', { sink, limit, waitMs })
      return lines.map((line) => Buffer.from(line, 'base64'))
    },
    deadLetters: (query) => json<readonly DeadLetter[]>('/dead-letters', query),
    deadLetterRaw: (id) => exchange('POST', '/dead-letters/raw', { id }),
    retry: (query) => json<Retried>('/dead-letters/retry', query),
    dropDeadLetters: async (query) => (await json<{ count: number }>('/dead-letters/drop', query)).count,
    counts: (range) => json<{ kept: KeptDayAccount[]; delivered: SinkDayAccount[] }>('/counts', range),
    pending: (sink, after) => json<PendingStep>('/pending', { sink, after }),
    storedDays: (after) => json<PendingStep>('/stored-days', { after }),
    jobs: {
      origins: () => json<Stream[]>('/jobs/streams'),
      backfill: (streams, span) => json<StartedJob[]>('/jobs/backfill', { ...streams, ...span }),
      replay: (request) => json<StartedJob[]>('/jobs/replay', request),
      all: (kind) => json<Job[]>('/jobs', { kind }),
      cancel: async (kind, which) =>
        (await json<{ count: number }>('/jobs/cancel', { kind, ...which })).count,
    },
    compare: (request) => json<Compared>('/compare', request),
    endCompare: async (job) => {
      await json('/compare/end', { job })
    },
    replay: (query) => json<Replayed>('/replay', query),
    quarantined: (query) => json<readonly QuarantineRecord[]>('/quarantine', query),
    quarantinedRaw: (id) => exchange('POST', '/quarantine/raw', { id }),
    dropQuarantined: async (query) => (await json<{ count: number }>('/quarantine/drop', query)).count,
  }
}
