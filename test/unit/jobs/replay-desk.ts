// Replays from the API beside a live reader that has read all: the real journal, whose settled part is gone, before the mock.
import type { ReplayOrder } from '../../../src/contracts/jobs.ts'
import { ApiReplays } from '../../../src/jobs/replays.ts'
import type { ReplaysOptions } from '../../../src/jobs/replays.ts'
import { openDesk, origin } from '../app/desk.ts'
import type { Desk, DeskOptions } from '../app/desk.ts'
import { fillPast, rangeOn, SPAN } from './backfill-desk.ts'

/** As the configuration has it, for who reads it. */
export const ARCHIVE = { name: 'archive', sources: ['audit', 'history.usage'] } as const
export const ORDER: ReplayOrder = { sink: 'archive', origin, spans: [SPAN], runAt: 77_000 }

export function replaysOf(
  desk: Desk,
  { types = ['*'], journal = desk.journal, ...more }: Partial<ReplaysOptions> & { types?: string[] } = {},
): ApiReplays {
  const { clock, log } = desk
  const options = { ranges: [rangeOn(desk, types)], sinks: [ARCHIVE], journal, clock, log }
  return new ApiReplays({ ...options, random: () => 0.5, readTo: async () => undefined, ...more })
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
  const [{ position, owedEntries } = { position: 0, owedEntries: 0 }] = journal.stats().sinks
  if (owedEntries > 0)
    await journal.settle('archive', { first: position + 1, through: position + owedEntries, parked: [] })
  while (await journal.prune());
}
