// Requests of the control socket: their schemas and handlers.
import { z } from 'zod'
import type { DeadLetters, Quarantine, Redelivery, State } from '../contracts/journal.ts'
import type { Accounts } from '../contracts/accounts.ts'
import type { Log } from '../core/log.ts'
import { jobKinds } from '../contracts/jobs.ts'
import type { Comparing, Jobs } from '../contracts/jobs.ts'
import type { DeadLetterQuery, Retried } from '../contracts/records.ts'
import { sourceNames } from '../contracts/source.ts'
import type { StatusRegistry } from '../observability/status-registry.ts'
import type { Metrics } from '../observability/metrics.ts'
import { MAX_LINES } from '../observability/taps.ts'
import type { Taps } from '../observability/taps.ts'

/** Journal methods for operators: dead letters, quarantine, and what is to be delivered again. */
export type OperatorJournal = DeadLetters & Quarantine & Accounts & Pick<Redelivery, 'replay'>

/** Puts back the dead letters that their sink still wants. */
export type Retry = (query: DeadLetterQuery) => Promise<Retried>

export interface ControlOptions {
  readonly journalPath: string
  readonly registry: Pick<StatusRegistry, 'status'>
  readonly journal: OperatorJournal & { readonly state: Pick<State, 'get'> }
  readonly taps: Pick<Taps, 'next'>
  readonly retry: Retry
  readonly jobs: Jobs
  readonly comparing: Comparing
  readonly metrics: Pick<Metrics, 'render'>
  readonly log: Log
  /** Resolves when the journal is ready to answer; absent: it always is. */
  readonly afterChange?: () => Promise<unknown>
}

/** Most records per answer; request the next page for more. */
const MAX_ROWS = 1000
const MAX_WAIT_MS = 10_000

const page = { limit: z.int().min(1).max(MAX_ROWS).default(MAX_ROWS), after: z.int().min(0).default(0) }
const ids = z.array(z.int().min(1)).max(MAX_ROWS).exactOptional()
const deadLetterQuery = z.strictObject({ ...page, ids, sink: z.string().exactOptional() })
const quarantineQuery = z.strictObject({ ...page, ids })
const one = z.strictObject({ id: z.int().min(1) })
const stream = z.strictObject({ workspace: z.string(), source: z.enum(sourceNames) })
const span = { fromUs: z.int(), toUs: z.int() }
const daysOf = z.strictObject({ stream, fromDay: z.int(), toDay: z.int() })
const replayQuery = z.strictObject({
  sink: z.string(),
  fromUs: z.int(),
  toUs: z.int(),
  workspace: z.string().exactOptional(),
  sources: z.array(z.enum(sourceNames)),
  runAt: z.int(),
  dryRun: z.boolean(),
  leave: z.array(daysOf).exactOptional(),
  after: z.int().min(0),
  until: z.int().min(0).optional(),
})

const streams = { workspace: z.string().exactOptional(), source: z.enum(sourceNames).exactOptional() }
const kind = z.enum(jobKinds)
const backfillRequest = z.strictObject({ ...streams, ...span })
const replayRequest = z.strictObject({
  sink: z.string(),
  startedAt: z.int(),
  reads: z.array(z.strictObject({ stream, spans: z.array(z.strictObject(span)) })),
  dryRun: z.boolean().exactOptional(),
})
const jobsQuery = z.strictObject({ kind })
const cancelQuery = z.strictObject({ kind, ...streams, sink: z.string().exactOptional() })
const compareRequest = z.strictObject({ ...span, job: z.string(), workspace: z.string().exactOptional() })
const endQuery = z.strictObject({ job: z.string() })
const countsQuery = z.strictObject({ fromDay: z.int(), toDay: z.int() })
const afterQuery = z.strictObject({ after: z.int().min(0).optional() })
const pendingQuery = z.strictObject({ sink: z.string(), after: z.int().min(0).exactOptional() })

/** Bytes are sent as they are; any other value as JSON. */
type Reply = Uint8Array | object | undefined
type Question = (options: ControlOptions, asked: unknown) => Promise<Reply>

const tapQuery = z.strictObject({
  sink: z.string(),
  limit: z.int().min(1).max(MAX_LINES),
  waitMs: z.int().min(0).max(MAX_WAIT_MS),
})

async function tap({ taps }: ControlOptions, asked: unknown): Promise<Reply> {
  const { sink, limit, waitMs } = tapQuery.parse(asked)
  const lines = await taps.next(sink, limit, waitMs)
  return { lines: lines.map((line) => Buffer.from(line).toString('base64')) }
}

function replay(asked: unknown) {
  const { until, ...rest } = replayQuery.parse(asked)
  return { ...rest, until }
}

function backfill({ jobs }: ControlOptions, asked: unknown) {
  const { fromUs, toUs, ...streams } = backfillRequest.parse(asked)
  return jobs.backfill(streams, { fromUs, toUs })
}

async function cancel({ jobs }: ControlOptions, asked: unknown) {
  const { kind: meant, ...which } = cancelQuery.parse(asked)
  return { count: await jobs.cancel(meant, which) }
}

async function endCompare({ comparing }: ControlOptions, asked: unknown) {
  await comparing.endCompare(endQuery.parse(asked).job)
  return {}
}

function pending({ journal }: ControlOptions, asked: unknown) {
  const { sink, after } = pendingQuery.parse(asked)
  return journal.pending(sink, after)
}

/** By method and path. Each parses its request, and throws ZodError if that is malformed. */
export const questions: ReadonlyMap<string, Question> = new Map<string, Question>([
  ['GET /status', async ({ registry }) => registry.status()],
  ['GET /instance', async ({ journal }) => ({ instance: await journal.state.get('instance') })],
  ['POST /dead-letters', ({ journal }, asked) => journal.deadLetters(deadLetterQuery.parse(asked))],
  ['POST /dead-letters/raw', ({ journal }, asked) => journal.deadLetterRaw(one.parse(asked).id)],
  ['POST /dead-letters/retry', ({ retry }, asked) => retry(deadLetterQuery.parse(asked))],
  [
    'POST /dead-letters/drop',
    async ({ journal }, asked) => ({ count: await journal.dropDeadLetters(deadLetterQuery.parse(asked)) }),
  ],
  ['GET /metrics', async ({ metrics }) => ({ text: await metrics.render() })],
  ['POST /tap', tap],
  ['POST /replay', ({ journal }, asked) => journal.replay(replay(asked))],
  ['POST /stored-days', ({ journal }, asked) => journal.storedDays(afterQuery.parse(asked).after)],
  ['POST /jobs', ({ jobs }, asked) => jobs.all(jobsQuery.parse(asked).kind)],
  ['GET /jobs/streams', ({ jobs }) => jobs.origins()],
  ['POST /jobs/backfill', backfill],
  ['POST /jobs/replay', ({ jobs }, asked) => jobs.replay(replayRequest.parse(asked))],
  ['POST /jobs/cancel', cancel],
  ['POST /compare', ({ comparing }, asked) => comparing.compare(compareRequest.parse(asked))],
  ['POST /compare/end', endCompare],
  ['POST /counts', ({ journal }, asked) => journal.counts(countsQuery.parse(asked))],
  ['POST /pending', pending],
  ['POST /quarantine', ({ journal }, asked) => journal.quarantined(quarantineQuery.parse(asked))],
  ['POST /quarantine/raw', ({ journal }, asked) => journal.quarantinedRaw(one.parse(asked).id)],
  [
    'POST /quarantine/drop',
    async ({ journal }, asked) => ({ count: await journal.dropQuarantined(quarantineQuery.parse(asked)) }),
  ],
])
