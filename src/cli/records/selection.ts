// Selects dead letters or quarantined elements by options, and decides the exit code.
import { matches } from '../../contracts/jobs.ts'
import type { OperatorJournal } from '../../control/questions.ts'
import type { Stream } from '../../contracts/source.ts'
import { printable } from '../../core/printable.ts'
import { type OpenJournal, withJournal } from '../shared/journal.ts'
import { unknownIn } from '../shared/names.ts'
import { assertUsage, exitCodes, type CommandContext } from '../shared/context.ts'

export interface RecordOptions {
  readonly config?: string
  readonly id: readonly number[]
  readonly limit?: number
  readonly workspace?: string
  readonly source?: string
  /** of dead letters */
  readonly sink?: string
  readonly code?: string
  /** of quarantined elements */
  readonly reason?: string
  /** of drop */
  readonly yes?: boolean
  /** of list */
  readonly json?: boolean
  /** of list: only the sums */
  readonly sums?: boolean
}

/** What both kinds of records have; sink and code only dead letters. */
export interface AnyRecord {
  readonly id: number
  readonly stream: Stream
  readonly sink?: string
  readonly code?: string
  readonly reason: string
}

interface Query {
  readonly ids?: readonly number[]
  readonly sink?: string
  readonly limit: number
  readonly after: number
}

/** What differs between dead letters and quarantined elements. */
export interface RecordKind<T extends AnyRecord> {
  /** their command */
  readonly name: 'dead-letters' | 'quarantine'
  readonly noun: (count: number) => string
  readonly texts: {
    /** for an empty list, without and with options that select */
    readonly none: string
    readonly unmatched: string
    /** for an empty export */
    readonly nothing: string
    readonly missing: (ids: string) => string
    /** what `drop` loses */
    readonly lost: string
  }
  readonly ask: (journal: OperatorJournal, query: Query) => Promise<readonly T[]>
  readonly rawOf: (journal: OperatorJournal, id: number) => Promise<Uint8Array | undefined>
  readonly drop: (journal: OperatorJournal, ids: readonly number[]) => Promise<number>
  /** a table's columns */
  readonly head: readonly string[]
  readonly row: (record: T) => readonly string[]
  /** what `show` prints */
  readonly details: (record: T) => readonly (readonly [name: string, value: string])[]
  /** JSON fields, without content */
  readonly facts: (record: T) => object
  /** the content as `show` prints it, and a line of an export */
  readonly content: (raw: Uint8Array) => Uint8Array
  readonly line: (record: T, raw: Uint8Array) => Uint8Array
  /** the fields that distinguish sums, named as in JSON */
  readonly sumOf: (record: T) => Readonly<Record<string, string>>
  /** stored size, and its name in JSON and as a column title */
  readonly bytesOf: (record: T) => number
  readonly bytes: { readonly name: string; readonly title: string }
}

const isSelected = (record: AnyRecord, { workspace, source, code, reason }: RecordOptions): boolean =>
  matches({ workspace, source }, record) &&
  record.code === (code ?? record.code) &&
  record.reason === (reason ?? record.reason)

/** The selected records up to `limit`, page by page, to bound memory. */
export async function* recordsOf<T extends AnyRecord>(
  { ask }: RecordKind<T>,
  { journal }: OpenJournal,
  options: RecordOptions,
  limit = Infinity,
): AsyncGenerator<readonly T[]> {
  const { id: ids, sink } = options
  const query = { ...(ids.length > 0 && { ids }), ...(sink !== undefined && { sink }) }
  let left = limit
  for (let after = 0; left > 0;) {
    const page = await ask(journal, { ...query, limit: 500, after })
    const last = page.at(-1)
    if (!last) return
    const selected = page.filter((record) => isSelected(record, options)).slice(0, left)
    left -= selected.length
    yield selected
    after = last.id
  }
}

const allOf = <T extends AnyRecord>(kind: RecordKind<T>, opened: OpenJournal) =>
  recordsOf(kind, opened, { id: [] })

/**
 * Opens the journal and runs `use`. Throws WrongUsage if the options name an unknown sink or
 * workspace. An unknown code only fails the command: an older version may have stored other codes.
 */
export function withRecords<T extends AnyRecord>(
  context: CommandContext,
  kind: RecordKind<T>,
  options: RecordOptions,
  use: (opened: OpenJournal) => Promise<number>,
): Promise<number> {
  return withJournal(context, options.config, async (opened) => {
    await assertNames(kind, opened, options)
    const fault = await codeFault(kind, opened, options)
    if (fault === undefined) return use(opened)
    context.stderr(`auditferry: ${fault}\n`)
    await use(opened)
    return exitCodes.failed
  })
}

/** Throws WrongUsage if a name is neither configured nor in a record. */
async function assertNames<T extends AnyRecord>(
  kind: RecordKind<T>,
  opened: OpenJournal,
  { sink, workspace }: RecordOptions,
): Promise<void> {
  if (sink === undefined && workspace === undefined) return
  const configured = await opened.names()
  if (unknownIn({ sink, workspace }, configured) === undefined) return
  const sinks = new Set<string>()
  const workspaces = new Set<string>()
  for await (const page of allOf(kind, opened))
    for (const record of page) {
      if (record.sink !== undefined) sinks.add(record.sink)
      workspaces.add(record.stream.workspace)
    }
  const named = (names: ReadonlySet<string>) => [...names].map((name) => ({ name }))
  const known = {
    sinks: [...configured.sinks, ...named(sinks)],
    workspaces: [...configured.workspaces, ...named(workspaces)],
  }
  assertUsage(unknownIn({ sink, workspace }, known))
}

/** Undefined if a dead letter has the code, or if there is none at all. */
async function codeFault<T extends AnyRecord>(
  kind: RecordKind<T>,
  opened: OpenJournal,
  { code: wanted }: RecordOptions,
): Promise<string | undefined> {
  if (wanted === undefined) return undefined
  const codes = new Set<string>()
  for await (const page of allOf(kind, opened)) {
    for (const { code = '' } of page) codes.add(code)
    if (codes.has(wanted)) return undefined
  }
  if (codes.size === 0) return undefined
  return `no dead letter has the code ${printable(wanted)}; known codes: ${[...codes].join(', ')}`
}

/** Whether options other than ids narrow the selection. */
export const isFiltered = ({ sink, workspace, source, code, reason }: RecordOptions): boolean =>
  (sink ?? workspace ?? source ?? code ?? reason) !== undefined

/** The message for an empty list. It mentions the options only if there are records at all. */
export async function emptyText<T extends AnyRecord>(
  kind: RecordKind<T>,
  opened: OpenJournal,
  options: RecordOptions,
): Promise<string> {
  const { none, unmatched } = kind.texts
  if (isFiltered(options))
    for await (const { length } of allOf(kind, opened)) if (length > 0) return unmatched
  return none
}

/** Reports that `ids` are not there. */
export function missing<T extends AnyRecord>(
  { stderr }: CommandContext,
  { name, texts }: RecordKind<T>,
  ids: string,
): number {
  stderr(`auditferry: ${texts.missing(ids)}: see ${name} list\n`)
  return exitCodes.failed
}

/**
 * Fails for ids that were not found or do not match the other options, after the rest was
 * processed. `most`: with that many found, others were left out, so missing ids prove nothing.
 */
export function exitOf<T extends AnyRecord>(
  context: CommandContext,
  kind: RecordKind<T>,
  options: RecordOptions,
  found: readonly { readonly id: number }[],
  most = Infinity,
): number {
  if (found.length >= most) return exitCodes.done
  const known = new Set(found.map((one) => one.id))
  const unknown = options.id.filter((wanted) => !known.has(wanted))
  if (unknown.length === 0) return exitCodes.done
  const more = isFiltered(options) ? ' that the other options mean too' : ''
  return missing(context, kind, `${unknown.join(', ')}${more}`)
}
