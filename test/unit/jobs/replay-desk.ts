// Replays from the API beside a live reader that has read all: the real journal, whose settled part is gone, before the mock.
import type { JobSpan, StartedJob } from '../../../src/contracts/jobs.ts'
import type { Stream } from '../../../src/contracts/source.ts'
import { StreamJobs } from '../../../src/jobs/jobs.ts'
import type { JobsOptions } from '../../../src/jobs/jobs.ts'
import { openDesk, stream } from '../app/desk.ts'
import type { Desk, DeskOptions } from '../app/desk.ts'
import { fillPast, rangeOn, SPAN } from './backfill-desk.ts'

/** As the configuration has it, for who reads it. */
export const ARCHIVE = { name: 'archive', sources: ['audit', 'history.usage'] } as const
/** Of one stream. */
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
  desk: Desk,
  { types = ['*'], journal = desk.journal, ...more }: Partial<JobsOptions> & { types?: string[] } = {},
): StreamJobs {
  const { clock, log } = desk
  const options = { ranges: [rangeOn(desk, types)], sinks: [ARCHIVE], journal, clock, log }
  return new StreamJobs({ ...options, random: () => 0.5, readTo: async () => undefined, ...more })
}

/** All of the past was read, delivered and dropped from the journal. */
export async function openReadDesk(options: DeskOptions, entries: number): Promise<Desk> {
  const desk = await openDesk(options)
  fillPast(desk, entries)
  await desk.drain()
  await forget(desk)
  return desk
}

export async function forget({ journal }: Desk): Promise<void> {
  const [{ position, pendingEntries } = { position: 0, pendingEntries: 0 }] = journal.stats().sinks
  if (pendingEntries > 0)
    await journal.ack('archive', { first: position + 1, through: position + pendingEntries, parked: [] })
  while (await journal.prune());
}
