// The tables of a journal as both engines have them: the names are those of PostgreSQL. SQLite has
// the one shard 1.
import type { Seq } from '../../core/sequence.ts'
import type { ShardsByWorkspace } from '../postgres/assignment.ts'
import type { ShardNumbers } from './renumbering.ts'

export type Value = number | string | Buffer | null

interface OfShard {
  shard: number
}
interface OfStream extends OfShard {
  /** the stream's number in this journal */
  stream: number
}
type Rest = Readonly<Record<string, Value>>

/** Columns that a copy changes or looks at; the others go along. */
export interface Rows {
  streams: OfShard & Rest & { id: number; workspace: string; source: string }
  chunks: OfStream &
    Rest & {
      first: Seq
      last: Seq
      payload: number
      appended_at: number
      checksum: number
      only_sink: string | null
      replay: number
      types: string
      times: Buffer
      columns: Buffer
      slab: Buffer
    }
  dedup_keys: OfStream & Rest
  sinks: OfShard & Rest & { name: string; position: Seq; reported: number; counted: number }
  acknowledged_ranges: OfShard & Rest & { sink: string; first: Seq; last: Seq }
  in_flight: OfShard & Rest & { sink: string; first: Seq; last: Seq; detail: string }
  dead_letters: OfStream & Rest & { seq: Seq }
  quarantine: OfStream & Rest
  findings: OfStream & Rest
  counts: OfStream & Rest
  accounts: OfStream & Rest
  state: OfShard & Rest & { name: string; value: string }
}

export type Table = keyof Rows

export interface TableOptions {
  readonly columns: readonly string[]
  /** unique, and has an index: in this order rows are read and written */
  readonly order: readonly string[]
  /** read at once: few where each may be large */
  readonly pageRows: number
}

const SMALL = 5_000
const LARGE = 8
const table = (columns: string, order: string, pageRows = SMALL): TableOptions => ({
  columns: columns.split(' '),
  order: order.split(' '),
  pageRows,
})

/** Ids of dead letters, quarantine and findings are given anew, in the order of the old ones. */
export const tables: Readonly<Record<Table, TableOptions>> = {
  streams: table('shard id workspace source cursor gaps newest_us low_us low_before_us low_day', 'shard id'),
  chunks: table(
    'shard first last stream payload appended_at checksum only_sink replay types times columns slab',
    'shard first',
  ),
  dedup_keys: table('shard stream at id content', 'shard stream at id'),
  sinks: table('shard name position reported counted', 'shard name'),
  acknowledged_ranges: table('shard sink first last', 'shard sink first'),
  in_flight: table('shard sink first last fingerprint detail', 'shard sink first'),
  dead_letters: table(
    'shard sink seq stream entry_id time at type version code reason dead_lettered_at replay raw',
    'id',
    LARGE,
  ),
  quarantine: table('shard stream reason total_bytes sha256 kept_at dropped_at bytes', 'id', LARGE),
  findings: table('shard stream kind entry_id at found_at', 'id'),
  counts: table('shard stream day new late known filtered quarantined', 'shard stream day'),
  accounts: table(
    'shard sink stream day before accepted filtered dead_lettered dropped replayed',
    'shard sink stream day',
  ),
  state: table('shard name value', 'shard name', 200),
}

/** A chunk without its contents. */
export type ChunkPlace = Pick<Rows['chunks'], 'shard' | 'first' | 'last' | 'stream' | 'payload'>
export const chunkPlaces = table('shard first last stream payload', 'shard first', 10_000)

/** A row, and beside it the values of the columns in `order`: `key 0`, `key 1`, … */
export type KeyedRow = Readonly<Record<string, Value>>

/** All rows, page by page. `read`: one page, behind these keys; undefined: the first. */
export async function* pagesOf(
  read: (after: readonly Value[] | undefined) => Promise<readonly KeyedRow[]>,
): AsyncGenerator<readonly KeyedRow[]> {
  let page = await read(undefined)
  for (let last = page.at(-1); last; last = page.at(-1)) {
    yield page
    const keys = Object.entries(last).filter(([name]) => name.startsWith('key '))
    page = await read(keys.map(([, value]) => value))
  }
}

/** A journal that no other process uses meanwhile. */
export interface Tables {
  /** for messages */
  readonly where: string
  /** lowest first; those that never held anything may be absent */
  shards(): Promise<readonly ShardNumbers[]>
  rows<T extends Exclude<Table, 'chunks'>>(table: T): AsyncIterable<readonly Rows[T][]>
  chunkPlaces(): AsyncIterable<readonly ChunkPlace[]>
  /** Whole chunks of a shard, from one place to another. */
  chunks(from: ChunkPlace, to: ChunkPlace): Promise<readonly Rows['chunks'][]>
  count(table: Table): Promise<number>
  /** Throws ConnectorError `lease_lost` if another process may have used it. */
  assertHeld(): Promise<void>
  close(): Promise<void>
}

/** What a new journal begins with. */
export interface Beginning {
  readonly shardOf: ShardsByWorkspace
  /** by shard */
  readonly lastSeqs: ReadonlyMap<number, Seq>
}

/** A new journal. From `begin` to `finish` no process opens it. */
export interface TargetTables extends Tables {
  begin(beginning: Beginning): Promise<void>
  write<T extends Table>(table: T, rows: readonly Rows[T][]): Promise<void>
  finish(): Promise<void>
}
