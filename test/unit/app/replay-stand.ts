// Replays from the API beside a live reader that has read all: the real journal, whose settled part is gone, before the mock.
import { ApiReplays } from '../../../src/replaying.ts'
import type { ReplaysOptions } from '../../../src/replaying.ts'
import { globFilter } from '../../../src/model/globs.ts'
import type { Journal } from '../../../src/model/journal.ts'
import type { ApiReplay, ReplayOrder } from '../../../src/model/replays.ts'
import { Room } from '../../../src/model/room.ts'
import { Secret } from '../../../src/model/secret.ts'
import type { RangeReader } from '../../../src/ranges.ts'
import { AuditRange } from '../../../src/source/audit-range.ts'
import { Client } from '../../../src/source/client.ts'
import { settled } from '../../simulation/virtual-clock.ts'
import { AGENT, driven, INSTANCE, openDesk, origin, SECOND } from '../source/desk.ts'
import type { Desk, DeskOptions } from '../source/desk.ts'
import { fillPast, SPAN } from './backfill-stand.ts'

export const ORDER: ReplayOrder = { sink: 'archive', origin, spans: [SPAN], runAt: 77_000 }

export function replaysOf(
  desk: Desk,
  { types = ['*'], journal = desk.journal, ...more }: Partial<ReplaysOptions> & { types?: string[] } = {},
): ApiReplays {
  const { clock, mock, budget, watch, log } = desk
  const range: RangeReader = {
    ...{ origin, watch, log, wanted: globFilter(types) },
    open: (span, quiet) => {
      const client = new Client({
        ...{ baseUrl: 'https://api.test', apiKey: new Secret('acme-key'), transport: mock.transport },
        ...{ clock, budget, room: new Room(32 * 2 ** 20), watch: quiet, userAgent: AGENT },
      })
      const limits = { maxEntryBytes: 2 ** 24, maxDepth: 512 }
      const common = { origin, clock, log, instance: INSTANCE, expectedUserAgent: () => false }
      return new AuditRange({ ...common, ...limits, ...span, client, watch: quiet })
    },
    unread: () => undefined,
  }
  const options = { ranges: [range], sinks: ['archive'], journal, clock, random: () => 0.5 }
  return new ApiReplays({ ...options, readTo: () => undefined, ...more })
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

export async function runUntil(
  desk: Desk,
  replays: ApiReplays,
  seen: (told: readonly ApiReplay[]) => boolean,
): Promise<void> {
  const stop = new AbortController()
  const state = { failed: false }
  const loop = replays.run(stop.signal)
  loop.catch(() => (state.failed = true))
  for (let turn = 0; !state.failed && !seen(replays.list()); turn++) {
    if (turn > 20_000) throw new Error(`waited in vain: ${JSON.stringify(replays.list())}`)
    await settled()
    if (!seen(replays.list())) desk.clock.advance(desk.clock.now() + SECOND)
  }
  stop.abort()
  await driven(desk.clock, loop)
}

export const isDone = (told: readonly ApiReplay[]) => told.length > 0 && told.every(({ endedAt }) => endedAt)

/** The journal with one method of its own making. */
export function changed<Name extends keyof Journal>(
  journal: Journal,
  name: Name,
  own: (target: Journal) => Journal[Name],
): Journal {
  return new Proxy(journal, {
    get(target, asked: keyof Journal) {
      if (asked === name) return own(target)
      const method = Reflect.get(target, asked) as unknown
      return typeof method === 'function' ? (method.bind(target) as unknown) : method
    },
  })
}
