// Which member of an entry goes into which field, for all formats with fields, and where it is in
// the entry's bytes.
import { eachMember, findNameOf, type FindName } from '../core/json.ts'
import type { SourceName } from '../contracts/source.ts'
import type { ByteWriter } from '../core/bytes.ts'
import type { EventType } from './event-types.ts'

/** The content of a field. `others`: an object of all members that no other field shows exactly. */
export type FieldName =
  | 'id' | 'workspace' | 'source' | 'time' | 'category' | 'action' | 'outcome' | 'version' | 'replay'
  | 'user' | 'ipv4' | 'ipv6' | 'agent' | 'url' | 'matter' | 'thread' | 'name' | 'files' | 'size'
  | 'details' | 'others' // prettier-ignore

export interface FieldLayout {
  /** the text before the value: separator, key, `=` */
  readonly opening: Buffer
  /** characters at most */
  readonly longest: number
  /** the text before the label, in a format whose keys have no meaning of their own */
  readonly label: Buffer | undefined
}

/** Makes the layouts of a format that begins each field with `separator`. */
export const layoutsAfter =
  (separator: string) =>
  (key: string, longest = Infinity, label?: string): FieldLayout => ({
    opening: Buffer.from(`${separator}${key}=`),
    longest,
    label: label === undefined ? undefined : Buffer.from(`${separator}${label}=`),
  })

/** How a format writes fields. The texts that it gets may be anything. */
export interface Dialect {
  readonly fields: Readonly<Record<FieldName, FieldLayout>>
  /** a backslash before each `\` and `=` */
  readonly escapes: boolean
  /** Replaces only what a value must not contain. */
  neutral(text: string): string
  escape(text: string): string
  /** Writes the header up to the value of the time. True if it contains the class id exactly. */
  head(out: ByteWriter, type: EventType): boolean
}

/**
 * A spare replaces the row before it if the entry lacks that one. It also stays among the others,
 * because no field shows the replacement.
 */
export type Row = readonly [member: string, field: FieldName | 'type' | 'address', spare?: 'spare']

const historyRows: readonly Row[] = [
  ['unique_usage_id', 'id'],
  ['utc_time', 'time'],
  ['timestamp', 'time'],
  ['user', 'user'],
  ['email', 'user', 'spare'],
  ['product_surface_area', 'category'],
  ['action', 'action'],
  ['cm_id', 'matter'],
  ['parent_thread_id', 'thread'],
  ['link', 'url'],
  ['metadata', 'details'],
]

const auditRows: readonly Row[] = [
  ['id', 'id'],
  ['timestamp', 'time'],
  ['type', 'type'],
  ['user', 'user'],
  ['ip', 'address'],
  ['user_agent', 'agent'],
  ['data', 'details'],
]

const rowsOf: Readonly<Record<SourceName, readonly Row[]>> = {
  audit: auditRows,
  assistant: auditRows,
  'history.usage': historyRows,
  'history.query': historyRows,
  'vault.projects': [
    ['id', 'id'],
    ['timestamp', 'time'],
    ['type', 'type'],
    ['creator_email', 'user'],
    ['name', 'name'],
    ['files_count', 'files'],
    ['size_bytes', 'size'],
    ['share', 'details'],
  ],
}

/** Where the members of one entry are; the arrays have one element per row. */
export interface FoundMembers {
  readonly starts: Int32Array
  readonly ends: Int32Array
  /** how often the member occurs; its last value counts, and a repeated one is never exact */
  readonly counts: Uint8Array
  /** 1: a field holds it exactly */
  readonly exact: Uint8Array
  members: number
}

/** The table of one source, with buffers for the members found in an entry. */
export interface Table {
  readonly rows: readonly Row[]
  /** the row of a member's key */
  readonly rowAt: FindName
  readonly found: FoundMembers
}

/** A table of its own for each caller: it keeps the offsets of the current entry. */
export function tableOf(source: SourceName): Table {
  const rows = rowsOf[source]
  const { length } = rows
  return {
    rows,
    rowAt: findNameOf(rows.map(([member]) => member)),
    found: {
      starts: new Int32Array(length),
      ends: new Int32Array(length),
      counts: new Uint8Array(length),
      exact: new Uint8Array(length),
      members: 0,
    },
  }
}

export function findMembers(raw: Uint8Array, table: Table): void {
  const { found, rowAt } = table
  const { starts, ends, counts } = found
  counts.fill(0)
  found.exact.fill(0)
  found.members = 0
  eachMember(raw, ({ keyStart, keyEnd, valueStart, valueEnd }) => {
    found.members++
    const row = rowAt(raw, keyStart, keyEnd)
    if (row < 0) return
    starts[row] = valueStart
    ends[row] = valueEnd
    if (counts[row] !== 255) counts[row] = (counts[row] as number) + 1
  })
}
