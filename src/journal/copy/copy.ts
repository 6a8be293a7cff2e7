// Copies a journal from one engine to the other. Its entries get new sequence numbers where shards
// are split or joined; everything else stays as it is.
import { MANIFEST_JOURNAL } from '../../contracts/journal.ts'
import { ConnectorError } from '../../core/errors.ts'
import type { Seq } from '../../core/sequence.ts'
import type { ShardsByWorkspace } from '../postgres/assignment.ts'
import type { Acknowledged } from '../rules/acknowledgement.ts'
import { checksum, label } from '../rules/chunk.ts'
import { Renumbering, pendingCount } from './renumbering.ts'
import type { ShardNumbers } from './renumbering.ts'
import { tables } from './tables.ts'
import type { ChunkPlace, Rows, Table, Tables, TargetTables } from './tables.ts'
import { chainOf, isCopied, shardsOf, unlistedSinkOf, workspaceOf } from './workspaces.ts'

export interface CopyOptions {
  readonly source: Tables
  readonly target: TargetTables
  /** of the target, from 1 on */
  readonly shards: number
  /** configured workspaces; those of one group share a key */
  readonly groups: readonly (readonly string[])[]
  /** if manifests of the target begin a new chain: the id of its journal there */
  readonly manifestJournal: (shard: number) => string
  /** Manifests that are not written yet may be given up. */
  readonly leaveUnlisted: boolean
  readonly signal: AbortSignal
  readonly onTable: (counted: Counted) => void
}

/** The same on both sides. @internal */
export interface Counted {
  readonly what: string
  readonly count: number
}

/**
 * Nothing is written if it is refused. If it fails later the target stays marked, and is not opened
 * until it has been emptied and copied again.
 */
export async function copyJournal(options: CopyOptions): Promise<void> {
  const { source, target } = options
  const plan = await planOf(options)
  await target.begin({ shardOf: plan.shardOf, lastSeqs: plan.lastSeqs })
  const copy = new Copy(options, plan)
  for (const table of Object.keys(tables) as Table[]) await copy.table(table)
  await copy.comparePending()
  await source.assertHeld()
  await target.finish()
}

// What goes where, read before anything is written.

interface Sink {
  readonly acknowledged: ReadonlyMap<number, Acknowledged>
  readonly rows: readonly Rows['sinks'][]
}

interface Plan {
  readonly numbers: readonly ShardNumbers[]
  readonly renumbering: Renumbering
  readonly shardOf: ShardsByWorkspace
  /** in use */
  readonly targets: readonly number[]
  readonly lastSeqs: ReadonlyMap<number, Seq>
  /** by shard and number of the source */
  readonly streams: ReadonlyMap<string, { readonly shard: number; readonly id: number }>
  readonly sinks: ReadonlyMap<string, Sink>
  readonly sameNumbers: boolean
}

async function planOf(options: CopyOptions): Promise<Plan> {
  const { source } = options
  const streams = await allOf(source, 'streams')
  const names = await stateNamesOf(source)
  const shardOf = assignedTo(options, streams, names.keys())
  const targets = [...new Set([...shardOf.values(), ...(shardOf.size === 0 ? [1] : [])])].sort(
    (a, b) => a - b,
  )
  const used = new Set([...streams.map(({ shard }) => shard), ...[...names.values()].flat()])
  const numbers = (await source.shards()).filter(({ shard, lastSeq }) => used.has(shard) || lastSeq > 0)
  const moved = movedStreams(streams, shardOf)
  const renumbering = new Renumbering(numbers)
  for await (const page of source.chunkPlaces())
    for (const place of page) renumbering.add(place.shard, place, streamAt(moved, place).shard)
  renumbering.assertWhole()
  const sameNumbers = numbers.length <= 1 && targets.length <= 1
  if (!sameNumbers) await refuseUnlisted(options, names)
  const plan: Plan = {
    ...{ numbers, renumbering, shardOf, targets, streams: moved, sameNumbers },
    lastSeqs: new Map(targets.map((shard) => [shard, renumbering.lastSeq(shard)])),
    sinks: await sinksOf(source),
  }
  await refuseSplitBatches(options, plan)
  return plan
}

function assignedTo(
  { groups, shards }: CopyOptions,
  streams: readonly Rows['streams'][],
  stateNames: Iterable<string>,
): ShardsByWorkspace {
  const configured = new Set(groups.flat())
  const found = [...streams.map(({ workspace }) => workspace), ...[...stateNames].map(workspaceOf)]
  const left = found.filter((name) => name !== undefined && !configured.has(name)) as string[]
  return shardsOf(groups, [...new Set(left)].sort(), shards)
}

async function allOf<T extends Exclude<Table, 'chunks'>>(source: Tables, table: T): Promise<Rows[T][]> {
  const all: Rows[T][] = []
  for await (const page of source.rows(table)) all.push(...page)
  return all
}

/** With the shards that have an entry of that name. */
async function stateNamesOf(source: Tables): Promise<ReadonlyMap<string, readonly number[]>> {
  const names = new Map<string, number[]>()
  for await (const page of source.rows('state'))
    for (const { name, shard } of page)
      if (isCopied(name, true)) names.set(name, [...(names.get(name) ?? []), shard])
  return names
}

const streamName = (shard: number, id: number) => `${shard} ${id}`

/** Numbered from 1 on in each shard. */
function movedStreams(streams: readonly Rows['streams'][], shardOf: ShardsByWorkspace) {
  const last = new Map<number, number>()
  return new Map(
    streams.map(({ shard, id, workspace }) => {
      const to = shardOf.get(workspace) ?? 1
      last.set(to, (last.get(to) ?? 0) + 1)
      return [streamName(shard, id), { shard: to, id: last.get(to) ?? 0 }] as const
    }),
  )
}

function streamAt(streams: Plan['streams'], { shard, stream }: { shard: number; stream: number }) {
  const found = streams.get(streamName(shard, stream))
  if (found === undefined)
    throw new ConnectorError(
      'journal_corrupt',
      `The journal has rows of a stream ${stream} that it does not know: restore it from a backup`,
    )
  return found
}

async function sinksOf(source: Tables): Promise<ReadonlyMap<string, Sink>> {
  const [rows, ranges] = [await allOf(source, 'sinks'), await allOf(source, 'acknowledged_ranges')]
  const acknowledgedOf = ({ shard, name, position }: Rows['sinks']): Acknowledged => ({
    position,
    ahead: ranges.filter((range) => range.shard === shard && range.sink === name),
  })
  return new Map(
    [...new Set(rows.map(({ name }) => name))].map((name) => {
      const own = rows.filter((row) => row.name === name)
      const acknowledged = new Map(own.map((row) => [row.shard, acknowledgedOf(row)]))
      return [name, { rows: own, acknowledged }]
    }),
  )
}

/**
 * Manifests name objects by numbers that the new journal does not have; of a batch in flight, some
 * may be stored.
 */
async function refuseUnlisted(
  { source, leaveUnlisted }: CopyOptions,
  stateNames: ReadonlyMap<string, unknown>,
): Promise<void> {
  const unlisted = [...stateNames.keys()].flatMap((name) => unlistedSinkOf(name) ?? [])
  const inFlight = (await allOf(source, 'in_flight')).filter(({ sink }) => stateNames.has(chainOf(sink)))
  const sinks = new Set([...unlisted, ...inFlight.map(({ sink }) => sink)])
  if (leaveUnlisted || sinks.size === 0) return
  throw new ConnectorError(
    'config_invalid',
    `Sink ${[...sinks].join(', ')} has stored objects that no manifest lists yet, and a new journal begins a new chain: run "auditferry run --once" with the old configuration, which completes the chain, then copy; or accept with --leave-unlisted that "auditferry verify" reports these objects`,
  )
}

/** Whatever a sink noted of its batch is about the whole of it. */
async function refuseSplitBatches({ source }: CopyOptions, { renumbering, targets }: Plan): Promise<void> {
  for (const { shard, sink, detail, ...batch } of await allOf(source, 'in_flight'))
    if (detail !== '' && renumbering.batch(shard, batch, targets).length !== 1)
      throw new ConnectorError(
        'config_invalid',
        `Sink ${sink} waits for the acknowledgement of a batch (entries ${batch.first} to ${batch.last}) whose entries go to several shards: start the daemon with the old configuration, stop it once the sink has caught up, then copy`,
      )
}

// Table after table.

/** Chunks that are read at once. */
const CHUNKS = 256
const CHUNK_BYTES = 8 * 1024 * 1024

/** These are made for each shard of the target; of all others each row is copied once. */
const perShard: ReadonlySet<Table> = new Set(['sinks', 'acknowledged_ranges', 'in_flight', 'state'])

class Copy {
  readonly #options: CopyOptions
  readonly #plan: Plan

  constructor(options: CopyOptions, plan: Plan) {
    this.#options = options
    this.#plan = plan
  }

  /** Throws ConnectorError `journal_corrupt` if the counts of both sides differ afterwards. */
  async table(table: Table): Promise<void> {
    const { source, target, onTable, signal } = this.#options
    let written = 0
    for await (const page of this.#pages(table)) {
      if (signal.aborted)
        throw new ConnectorError(
          'aborted',
          `The copy in ${target.where} was stopped and cannot be used: empty that place, then copy again. The old journal is unchanged`,
        )
      if (page.length > 0) await target.write(table, page)
      written += page.length
    }
    const isPerShard = perShard.has(table)
    const expected = isPerShard ? written : await source.count(table)
    this.#assertSame(`rows of ${table}`, expected, await target.count(table))
    if (!isPerShard) onTable({ what: table.replaceAll('_', ' '), count: written })
  }

  async comparePending(): Promise<void> {
    const { source, target, onTable } = this.#options
    const shards = await target.shards()
    for (const [shard, lastSeq] of this.#plan.lastSeqs) {
      const found = shards.find((one) => one.shard === shard)
      this.#assertSame(`last sequence number of shard ${shard}`, lastSeq, found?.lastSeq ?? 0)
    }
    const [before, after] = [await pendingOf(source), await pendingOf(target)]
    for (const [sink, count] of before) {
      this.#assertSame(`pending entries of sink ${sink}`, count, after.get(sink) ?? 0)
      onTable({ what: `entries pending for sink ${sink}`, count })
    }
  }

  #assertSame(what: string, expected: number, found: number): void {
    const { source, target } = this.#options
    if (expected === found) return
    throw new ConnectorError(
      'journal_corrupt',
      `The copy in ${target.where} differs from ${source.where} (${what}: ${found} instead of ${expected}) and cannot be used. The old journal is unchanged: continue with it, and report this`,
    )
  }

  /** The rows of the target. */
  #pages(table: Table): AsyncIterable<readonly Rows[Table][]> {
    switch (table) {
      case 'streams':
        return this.#mapped(table, (row) => ({ ...row, ...this.#stream(row.shard, row.id) }))
      case 'chunks':
        return this.#chunks()
      case 'sinks':
        return this.#sinks()
      case 'acknowledged_ranges':
        return this.#ranges()
      case 'in_flight':
        return this.#inFlight()
      case 'dead_letters':
        return this.#mapped(table, (row) => this.#deadLetter(row))
      case 'state':
        return this.#state()
      case 'dedup_keys':
      case 'quarantine':
      case 'findings':
      case 'counts':
      case 'accounts':
        return this.#mapped(table, (row) => this.#ofStream(row))
    }
  }

  async *#mapped<T extends Exclude<Table, 'chunks'>>(table: T, change: (row: Rows[T]) => Rows[T]) {
    for await (const page of this.#options.source.rows(table)) yield page.map(change)
  }

  #stream(shard: number, id: number) {
    return streamAt(this.#plan.streams, { shard, stream: id })
  }

  #ofStream<Row extends { shard: number; stream: number }>(row: Row): Row {
    const { shard, id } = this.#stream(row.shard, row.stream)
    return { ...row, shard, stream: id }
  }

  async *#chunks() {
    for await (const [first, last] of chunkGroups(this.#options.source))
      yield (await this.#options.source.chunks(first, last)).map((row) => this.#chunk(row))
  }

  /** The checksum covers the chunk's numbers, so that it is made anew. */
  #chunk(row: Rows['chunks']): Rows['chunks'] {
    const { shard, id } = this.#stream(row.shard, row.stream)
    const address = {
      appendedAt: row.appended_at,
      onlySink: row.only_sink ?? undefined,
      replay: row.replay === 1,
    }
    const sum = checksum(label(row.first, row.last, { ...address, source: row.stream }), row)
    const [moved] = this.#plan.renumbering.moved(row.shard, row, shard)
    if (sum !== row.checksum || moved === undefined)
      throw new ConnectorError(
        'journal_corrupt',
        `The chunk of entries ${row.first} to ${row.last} in ${this.#options.source.where} does not match its checksum: restore the journal from a backup`,
      )
    const { first, last } = moved
    const renewed = checksum(label(first, last, { ...address, source: id }), row)
    return { ...row, shard, stream: id, first, last, checksum: renewed }
  }

  async *#sinks() {
    const { numbers, renumbering, sinks, targets } = this.#plan
    yield [...sinks].flatMap(([name, { acknowledged, rows }]) =>
      targets.map((shard) => ({
        ...{ shard, name },
        position: renumbering.acknowledged((from) => acknowledged.get(from), shard).position,
        reported: Number(rows.every(({ reported }) => reported === 1)),
        // Otherwise the accounts begin when the sink is registered.
        counted: Number(rows.length === numbers.length && rows.every(({ counted }) => counted === 1)),
      })),
    )
  }

  async *#ranges() {
    const { renumbering, sinks, targets } = this.#plan
    for (const [sink, { acknowledged }] of sinks)
      for (const shard of targets) {
        const { ahead } = renumbering.acknowledged((from) => acknowledged.get(from), shard)
        yield ahead.map((range) => ({ shard, sink, ...range }))
      }
  }

  /** A batch whose entries go to several shards is in flight in each. */
  async *#inFlight() {
    const { renumbering, targets } = this.#plan
    for await (const page of this.#options.source.rows('in_flight'))
      yield page.flatMap((row) =>
        renumbering
          .batch(row.shard, row, targets)
          .map(({ to, first, last }) => ({ ...row, shard: to, first, last })),
      )
  }

  #deadLetter(row: Rows['dead_letters']): Rows['dead_letters'] {
    const moved = this.#ofStream(row)
    const [range] = this.#plan.renumbering.moved(row.shard, { first: row.seq, last: row.seq }, moved.shard)
    if (range === undefined)
      throw new ConnectorError(
        'journal_corrupt',
        `A dead letter of entry ${row.seq} in ${this.#options.source.where} is of another stream than that entry: restore the journal from a backup`,
      )
    return { ...moved, seq: range.first }
  }

  /** Entries of no workspace go to every shard; of two with the same name the first one stays. */
  async *#state() {
    const { shardOf, targets, sameNumbers } = this.#plan
    const names = new Set<string>()
    const isNew = ({ shard, name }: Rows['state']) => names.size < names.add(`${shard} ${name}`).size
    for await (const page of this.#options.source.rows('state'))
      yield page
        .filter(({ name }) => isCopied(name, sameNumbers))
        .flatMap((row) => {
          const shard = shardOf.get(workspaceOf(row.name) ?? '')
          return (shard === undefined ? targets : [shard]).map((to) => ({ ...row, shard: to }))
        })
        .filter(isNew)
    if (!sameNumbers)
      yield targets.map((shard) => ({
        ...{ shard, name: MANIFEST_JOURNAL, value: this.#options.manifestJournal(shard) },
      }))
  }
}

/** Consecutive chunks of a shard, from the first to the last of each group. */
async function* chunkGroups(source: Tables): AsyncGenerator<readonly [ChunkPlace, ChunkPlace]> {
  let group: ChunkPlace[] = []
  let bytes = 0
  for await (const page of source.chunkPlaces())
    for (const place of page) {
      const [first, last] = [group[0], group.at(-1)]
      const isFull = group.length >= CHUNKS || bytes + place.payload > CHUNK_BYTES
      if (first && last && (isFull || first.shard !== place.shard)) {
        yield [first, last]
        group = []
        bytes = 0
      }
      group.push(place)
      bytes += place.payload
    }
  const [first, last] = [group[0], group.at(-1)]
  if (first && last) yield [first, last]
}

async function pendingOf(tables: Tables): Promise<ReadonlyMap<string, number>> {
  const [shards, sinks] = [await tables.shards(), await sinksOf(tables)]
  const pending = ({ acknowledged }: Sink) =>
    shards.reduce((sum, numbers) => sum + pendingCount(numbers, acknowledged.get(numbers.shard)), 0)
  return new Map([...sinks].map(([name, sink]) => [name, pending(sink)]))
}
