// Several shards as one: a command asks the replica that it reaches, which asks each shard, its own
// or through the database, and puts the answers together.
import { ConnectorError } from '../core/errors.ts'
import { matches } from '../contracts/jobs.ts'
import type { Compared, JobFilter, Jobs } from '../contracts/jobs.ts'
import type { LeftDeadLetters, Retried } from '../contracts/records.ts'
import type { ControlClient } from './client.ts'
import type { ControlOptions } from './questions.ts'

/** One shard, here or elsewhere. */
export type ShardClient = Omit<ControlClient, 'status' | 'instance' | 'metrics'>

export interface ShardClients {
  /** of each shard that has a workspace, in order */
  readonly all: () => ReadonlyMap<number, ShardClient>
  /** undefined: the configuration has no such workspace */
  readonly shardOf: (workspace: string) => number | undefined
}

type AsOne = Pick<ControlOptions, 'jobs' | 'comparing' | 'taps' | 'retry'> & {
  readonly journal: Omit<ControlOptions['journal'], 'state'>
}

export function shardsAsOne(shards: ShardClients): AsOne {
  return {
    journal: journalOf(shards),
    retry: async (query) => retriedOf(await ofAll(shards, (shard) => shard.retry(query))),
    taps: {
      next: async (sink, limit, waitMs) =>
        (await ofAll(shards, (shard) => shard.tap(sink, limit, waitMs))).flat().slice(0, limit),
    },
    jobs: jobsOf(shards),
    comparing: {
      compare: async (request) =>
        comparedOf(await ofAll(withWorkspace(shards, request.workspace), (shard) => shard.compare(request))),
      endCompare: async (job) => {
        await ofAll(shards, (shard) => shard.endCompare(job))
      },
    },
  }
}

/** From all at once. Any that does not answer fails the whole: a part of an answer would mislead. */
const ofAll = <T>({ all }: ShardClients, ask: (shard: ShardClient) => Promise<T>): Promise<T[]> =>
  Promise.all([...clientsOf(all)].map(([, shard]) => ask(shard)))

function clientsOf(all: ShardClients['all']): ReadonlyMap<number, ShardClient> {
  const clients = all()
  if (clients.size > 0) return clients
  throw new ConnectorError(
    'store_unavailable',
    'This replica does not know the shards of the journal yet: its database has not answered; see the log',
  )
}

const sum = (counts: readonly number[]) => counts.reduce((all, each) => all + each, 0)

/** The shard of a workspace; all, for all workspaces or an unknown one, which each shard refuses. */
function withWorkspace(shards: ShardClients, workspace: string | undefined): ShardClients {
  const number = workspace === undefined ? undefined : shards.shardOf(workspace)
  return number === undefined
    ? shards
    : { ...shards, all: () => new Map([...clientsOf(shards.all)].filter(([shard]) => shard === number)) }
}

function journalOf(shards: ShardClients): AsOne['journal'] {
  return {
    deadLetters: async (query) =>
      firstIds(await ofAll(shards, (shard) => shard.deadLetters(query)), query.limit),
    deadLetterRaw: (id) => found(shards, (shard) => shard.deadLetterRaw(id)),
    dropDeadLetters: async (query) => sum(await ofAll(shards, (shard) => shard.dropDeadLetters(query))),
    quarantined: async (query) =>
      firstIds(await ofAll(shards, (shard) => shard.quarantined(query)), query.limit),
    quarantinedRaw: (id) => found(shards, (shard) => shard.quarantinedRaw(id)),
    dropQuarantined: async (query) => sum(await ofAll(shards, (shard) => shard.dropQuarantined(query))),
    counts: async (range) => {
      const all = await ofAll(shards, (shard) => shard.counts(range))
      return { kept: all.flatMap(({ kept }) => kept), delivered: all.flatMap(({ delivered }) => delivered) }
    },
    pending: (sink, after) => stepped(shards, after, (shard, from) => shard.pending(sink, from)),
    storedDays: (after) => stepped(shards, after, (shard, from) => shard.storedDays(from)),
    replay: ({ after, until, ...query }) =>
      stepped(withWorkspace(shards, query.workspace), after, (shard, from = 0) =>
        shard.replay({ ...query, after: from, until: startOf(until)?.seq }),
      ),
  }
}

/** Ids are unique in the database, so pages by id are pages over all shards. */
const firstIds = <One extends { readonly id: number }>(all: readonly (readonly One[])[], limit?: number) =>
  all
    .flat()
    .toSorted((one, other) => one.id - other.id)
    .slice(0, limit)

async function found(
  shards: ShardClients,
  ask: (shard: ShardClient) => Promise<Uint8Array | undefined>,
): Promise<Uint8Array | undefined> {
  return (await ofAll(shards, ask)).find((bytes) => bytes !== undefined)
}

function retriedOf(all: readonly Retried[]): Retried {
  const left = new Map<string, LeftDeadLetters>()
  for (const each of all.flatMap((one) => one.left)) {
    const key = `${each.sink} ${each.why}`
    left.set(key, { ...each, count: each.count + (left.get(key)?.count ?? 0) })
  }
  return { count: sum(all.map(({ count }) => count)), left: [...left.values()] }
}

// Steps over one shard after the other. Where a step begins is a number, as in one journal:
// the shard and the sequence number.

const SEQS = 2 ** 46

interface Start {
  readonly shard: number
  /** undefined: where that shard begins */
  readonly seq: number | undefined
}

function startOf(packed: number | undefined): Start | undefined {
  if (packed === undefined || packed === 0) return undefined
  const seq = packed % SEQS
  return { shard: Math.floor(packed / SEQS), seq: seq === 0 ? undefined : seq }
}

const packed = (shard: number, seq: number) => shard * SEQS + seq

interface Step {
  readonly through: number
  readonly more: boolean
  readonly until?: number
}

async function stepped<S extends Step>(
  { all }: ShardClients,
  after: number | undefined,
  ask: (shard: ShardClient, after: number | undefined) => Promise<S>,
): Promise<S> {
  const clients = clientsOf(all)
  const numbers = [...clients.keys()]
  const start = startOf(after) ?? { shard: numbers[0] ?? 0, seq: undefined }
  const client = clients.get(start.shard)
  if (!client) throw new ConnectorError('misconfigured', `No workspace is in shard ${start.shard} any more`)
  const step = await ask(client, start.seq)
  const next = numbers[numbers.indexOf(start.shard) + 1]
  const [shard, seq, until] =
    step.more || next === undefined ? [start.shard, step.through, step.until] : [next, 0, 0]
  return {
    ...step,
    through: packed(shard, seq),
    more: step.more || next !== undefined,
    ...(step.until !== undefined && { until: packed(shard, until ?? 0) }),
  }
}

// Jobs: each runs in the shard of its stream.

function jobsOf(shards: ShardClients): Jobs {
  const { shardOf } = shards
  return {
    origins: async () => (await ofAll(shards, (shard) => shard.jobs.origins())).flat(),
    backfill: async (streams, span) => {
      const having = await shardsWith(shards, streams)
      return (await ofAll(having, (shard) => shard.jobs.backfill(streams, span))).flat()
    },
    replay: async ({ reads, ...request }) => {
      const byShard = Map.groupBy(reads, ({ stream }) => shardOf(stream.workspace))
      const begun = [...byShard.values()].map((own) =>
        ofAll(withWorkspace(shards, own[0]?.stream.workspace), (shard) =>
          shard.jobs.replay({ ...request, reads: own }),
        ),
      )
      return (await Promise.all(begun)).flat(2)
    },
    all: async (kind) => (await ofAll(shards, (shard) => shard.jobs.all(kind))).flat(),
    cancel: async (kind, which) => sum(await ofAll(shards, (shard) => shard.jobs.cancel(kind, which))),
  }
}

/** The shards with a stream that matches; all if none has one: each then says why. */
async function shardsWith(shards: ShardClients, streams: JobFilter): Promise<ShardClients> {
  const clients = [...clientsOf(shards.all)]
  const has = await Promise.all(
    clients.map(async ([, shard]) =>
      (await shard.jobs.origins()).some((stream) => matches(streams, { stream })),
    ),
  )
  const having = clients.filter((_, i) => has[i])
  return having.length === 0 ? shards : { ...shards, all: () => new Map(having) }
}

/** Done when all are. The first that is not done, or has failed, is what the command shows. */
function comparedOf(all: readonly Compared[]): Compared {
  const shown = all.find(({ error }) => error) ?? all.find(({ isDone }) => !isDone) ?? all.at(-1)
  if (!shown) throw new Error('There is at least one shard')
  return {
    ...shown,
    streams: all.flatMap(({ streams }) => streams),
    isDone: all.every(({ isDone }) => isDone),
  }
}
