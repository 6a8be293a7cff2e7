// The control socket beside the journal: how the commands reach the daemon that holds it, wherever its listener is. Its owner only.
import { createHash } from 'node:crypto'
import { chmod, lstat, unlink } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { basename, dirname, join } from 'node:path'
import { z } from 'zod'
import { ConnectorError, errnoOf } from '../model/errors.ts'
import type { Journal } from '../model/journal.ts'
import type { Log } from '../model/log.ts'
import type { Past } from '../model/past.ts'
import { sourceNames } from '../model/source.ts'
import type { Board } from './board.ts'
import type { Metrics } from './metrics.ts'
import type { Taps } from './taps.ts'

/** What of the journal a person may look at and decide on: what was set aside, and what is to go out again. */
export type Aside = Pick<
  Journal,
  | 'deadLetters'
  | 'deadLetterRaw'
  | 'retryDeadLetters'
  | 'dropDeadLetters'
  | 'quarantined'
  | 'quarantinedRaw'
  | 'replay'
  | 'counts'
  | 'owed'
>

export interface ControlOptions {
  readonly journalPath: string
  readonly board: Pick<Board, 'status'>
  readonly journal: Aside & Pick<Journal, 'note'>
  readonly taps: Pick<Taps, 'next'>
  /** Absent: nothing is read again here. */
  readonly past?: Past
  readonly metrics: Pick<Metrics, 'render'>
  readonly log: Log
}

export interface Control {
  close(): Promise<void>
}

/** An address of a socket holds 104 bytes on some systems, 108 on others, a final zero among them. */
const MAX_PATH_BYTES = 100
/** One answer lists no more; whoever wants the rest asks for what comes after. */
const MAX_ROWS = 1000
const MAX_BODY_BYTES = 64 * 1024
const MAX_CONNECTIONS = 16
const TIMEOUT_MS = 10_000

const fits = (path: string) => Buffer.byteLength(path) <= MAX_PATH_BYTES

/** Beside the journal: `<journal>.sock`, or a short name in the same folder; undefined where even that is too long. */
export function controlPath(journalPath: string): string | undefined {
  const full = `${journalPath}.sock`
  if (fits(full)) return full
  const digest = createHash('sha256').update(basename(journalPath)).digest('hex').slice(0, 8)
  const short = join(dirname(journalPath), `${digest}.sock`)
  return fits(short) ? short : undefined
}

const page = { limit: z.int().min(1).max(MAX_ROWS).default(MAX_ROWS), after: z.int().min(0).default(0) }
const ids = z.array(z.int().min(1)).max(MAX_ROWS).optional()
const letterQuery = z.strictObject({ ...page, ids, sink: z.string().optional() })
const quarantineQuery = z.strictObject({ ...page, ids })
const one = z.strictObject({ id: z.int().min(1) })
const replayQuery = z.strictObject({
  sink: z.string(),
  fromUs: z.int(),
  toUs: z.int(),
  workspace: z.string().optional(),
  sources: z.array(z.enum(sourceNames)),
  runAt: z.int(),
  dryRun: z.boolean(),
  after: z.int().min(0),
  until: z.int().min(0).optional(),
})

const choice = { workspace: z.string().optional(), source: z.enum(sourceNames).optional() }
const choiceQuery = z.strictObject(choice)
const span = { fromUs: z.int(), toUs: z.int() }
const backfillQuery = z.strictObject({ ...choice, ...span })
const surveyQuery = z.strictObject({
  origin: z.strictObject({ workspace: z.string(), source: z.enum(sourceNames) }),
  ...span,
  place: z.string().optional(),
})
const countsQuery = z.strictObject({ fromDay: z.int(), toDay: z.int() })
const owedQuery = z.strictObject({ sink: z.string(), after: z.int().min(0).optional() })

/** Bytes go out as they are; anything else as JSON. */
type Reply = Uint8Array | object | undefined
type Question = (options: ControlOptions, asked: unknown) => Promise<Reply>

/** Optional keys without `undefined` in them. */
function letters(asked: unknown) {
  const { sink, ids: wanted, ...rest } = letterQuery.parse(asked)
  return { ...rest, ...(sink === undefined ? {} : { sink }), ...(wanted ? { ids: wanted } : {}) }
}

function quarantine(asked: unknown) {
  const { ids: wanted, ...rest } = quarantineQuery.parse(asked)
  return { ...rest, ...(wanted ? { ids: wanted } : {}) }
}

const tapQuery = z.strictObject({
  sink: z.string(),
  limit: z.int().min(1).max(MAX_ROWS),
  waitMs: z.int().min(0).max(TIMEOUT_MS),
})

async function tap({ taps }: ControlOptions, asked: unknown): Promise<Reply> {
  const { sink, limit, waitMs } = tapQuery.parse(asked)
  const lines = await taps.next(sink, limit, waitMs)
  return { lines: lines.map((line) => Buffer.from(line).toString('base64')) }
}

function replay(asked: unknown) {
  const { workspace, until, ...rest } = replayQuery.parse(asked)
  return { ...rest, until, ...(workspace === undefined ? {} : { workspace }) }
}

function pastOf({ past }: ControlOptions): Past {
  if (past) return past
  throw new ConnectorError('misconfigured', 'This daemon reads nothing again')
}

function choiceOf({ workspace, source }: z.infer<typeof choiceQuery>) {
  return { ...(workspace === undefined ? {} : { workspace }), ...(source === undefined ? {} : { source }) }
}

function backfill(options: ControlOptions, asked: unknown) {
  const { fromUs, toUs, ...rest } = backfillQuery.parse(asked)
  return pastOf(options).backfill(choiceOf(rest), { fromUs, toUs })
}

function survey(options: ControlOptions, asked: unknown) {
  const { place, ...rest } = surveyQuery.parse(asked)
  return pastOf(options).survey({ ...rest, place })
}

function owed({ journal }: ControlOptions, asked: unknown) {
  const { sink, after } = owedQuery.parse(asked)
  return journal.owed(sink, after)
}

const questions = new Map<string, Question>([
  ['GET /status', async ({ board }) => board.status()],
  ['GET /instance', async ({ journal }) => ({ instance: await journal.note('instance') })],
  ['POST /dead-letters', ({ journal }, asked) => journal.deadLetters(letters(asked))],
  ['POST /dead-letters/raw', ({ journal }, asked) => journal.deadLetterRaw(one.parse(asked).id)],
  [
    'POST /dead-letters/retry',
    async ({ journal }, asked) => ({ count: await journal.retryDeadLetters(letters(asked)) }),
  ],
  [
    'POST /dead-letters/drop',
    async ({ journal }, asked) => ({ count: await journal.dropDeadLetters(letters(asked)) }),
  ],
  ['GET /metrics', async ({ metrics }) => ({ text: await metrics.render() })],
  ['POST /tap', tap],
  ['POST /replay', ({ journal }, asked) => journal.replay(replay(asked))],
  ['GET /past', (options) => pastOf(options).origins()],
  ['GET /backfills', (options) => pastOf(options).backfills()],
  ['POST /backfill', backfill],
  [
    'POST /backfill/cancel',
    async (options, asked) => ({
      count: await pastOf(options).cancelBackfill(choiceOf(choiceQuery.parse(asked))),
    }),
  ],
  ['POST /survey', survey],
  ['POST /counts', ({ journal }, asked) => journal.counts(countsQuery.parse(asked))],
  ['POST /owed', owed],
  ['POST /quarantine', ({ journal }, asked) => journal.quarantined(quarantine(asked))],
  ['POST /quarantine/raw', ({ journal }, asked) => journal.quarantinedRaw(one.parse(asked).id)],
])

async function bodyOf(request: IncomingMessage): Promise<unknown> {
  const pieces: Buffer[] = []
  let length = 0
  for await (const piece of request as AsyncIterable<Buffer>) {
    length += piece.length
    if (length > MAX_BODY_BYTES) throw new SyntaxError('too long')
    pieces.push(piece)
  }
  return length === 0 ? {} : JSON.parse(Buffer.concat(pieces).toString())
}

interface Answer {
  readonly status: number
  readonly body: Uint8Array | object
}

async function answerTo(request: IncomingMessage, options: ControlOptions): Promise<Answer> {
  const question = questions.get(`${request.method ?? ''} ${request.url ?? ''}`)
  if (!question) return { status: 404, body: { message: 'no such question' } }
  try {
    const body = await question(options, await bodyOf(request))
    return body === undefined ? { status: 404, body: { message: 'none' } } : { status: 200, body }
  } catch (error) {
    if (error instanceof ConnectorError)
      return { status: 500, body: { code: error.code, message: error.message } }
    if (error instanceof z.ZodError || error instanceof SyntaxError)
      return { status: 400, body: { message: 'the question is malformed' } }
    options.log.error('A command could not be answered', {
      error: error instanceof Error ? error.name : 'unknown',
    })
    return { status: 500, body: { message: 'the daemon could not answer; its log says more' } }
  }
}

function send(response: ServerResponse, { status, body }: Answer): void {
  const raw = body instanceof Uint8Array
  const bytes = raw ? body : Buffer.from(`${JSON.stringify(body)}\n`)
  response.writeHead(status, {
    'content-type': raw ? 'application/octet-stream' : 'application/json',
    'content-length': bytes.length,
    connection: 'close',
  })
  response.end(bytes)
}

/** Whoever holds the journal is the only daemon here: a socket that is still there was left by a killed one. */
async function removeStale(path: string): Promise<void> {
  const found = await lstat(path).catch(() => undefined)
  if (found?.isSocket() === true) await unlink(path)
}

function listen(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(path, () => {
      server.off('error', reject)
      resolve()
    })
  })
}

function closing(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve())
    server.closeAllConnections()
  })
}

/** The journal must be open. A socket that cannot be had is told and done without: delivery matters more than commands. */
export async function openControl(options: ControlOptions): Promise<Control> {
  const { journalPath, log } = options
  const without: Control = { close: () => Promise.resolve() }
  const path = controlPath(journalPath)
  const lost = 'the commands status, dead-letters and quarantine cannot reach this daemon'
  if (path === undefined) {
    log.warn('There is no control socket: the path of the journal is too long for one', { journalPath, lost })
    return without
  }
  if (path !== `${journalPath}.sock`)
    log.warn('The path of the journal is long: the control socket has a short name beside it', { path })
  const server = createServer(
    { headersTimeout: TIMEOUT_MS, requestTimeout: TIMEOUT_MS, maxHeaderSize: 8192 },
    (request, response) => {
      void answerTo(request, options).then((answer) => send(response, answer))
    },
  )
  server.maxConnections = MAX_CONNECTIONS
  try {
    await removeStale(path)
    await listen(server, path)
    await chmod(path, 0o600)
  } catch (error) {
    if (server.listening) await closing(server)
    const code = errnoOf(error, 'unknown')
    log.warn('There is no control socket: it cannot be made beside the journal', { path, code, lost })
    return without
  }
  return { close: () => closing(server) }
}
