// Replays from the API beside live reading that is up to date:
// the journal, whose delivered entries are gone, and the mock.
import type { JobSpan, StartedJob } from '../../../src/contracts/jobs.ts'
import type { Stream } from '../../../src/contracts/source.ts'
import { StreamJobs } from '../../../src/jobs/jobs.ts'
import type { JobsOptions } from '../../../src/jobs/jobs.ts'
import { openHarness, stream } from '../app/audit-harness.ts'
import type { Harness, HarnessOptions } from '../app/audit-harness.ts'
import { fillPast, rangeOn, SPAN } from './backfill-harness.ts'

/** The sink as the configuration has it. */
export const ARCHIVE = { name: 'archive', sources: ['audit', 'history.usage'] } as const
/** A replay of one stream. */
interface Request {
  readonly sink: string
  readonly stream: Stream
  readonly spans: readonly JobSpan[]
  readonly startedAt: number
}

export const REQUEST: Request = { sink: 'archive', stream, spans: [SPAN], startedAt: 77_000 }

export async function replay(
  jobs: Pick<StreamJobs, 'replay'>,
  { stream: of, spans, ...more }: Request & { dryRun?: boolean } = REQUEST,
): Promise<StartedJob> {
  const [job] = await jobs.replay({ ...more, reads: [{ stream: of, spans }] })
  if (!job) throw new Error('nothing started')
  return job
}

export function replaysOf(
  harness: Harness,
  { types = ['*'], journal = harness.journal, ...more }: Partial<JobsOptions> & { types?: string[] } = {},
): StreamJobs {
  const { clock, log } = harness
  const options = { ranges: [rangeOn(harness, types)], sinks: [ARCHIVE], journal, clock, log }
  return new StreamJobs({ ...options, random: () => 0.5, readTo: async () => undefined, ...more })
}

/** All of the past was read, delivered and dropped from the journal. */
export async function openReadHarness(options: HarnessOptions, entries: number): Promise<Harness> {
  const harness = await openHarness(options)
  fillPast(harness, entries)
  await harness.drain()
  await forget(harness)
  return harness
}

export async function forget({ journal }: Harness): Promise<void> {
  const [{ position, pendingEntries } = { position: 0, pendingEntries: 0 }] = journal.stats().sinks
  if (pendingEntries > 0)
    await journal.ack('archive', { first: position + 1, through: position + pendingEntries, rejected: [] })
  while (await journal.prune());
}
