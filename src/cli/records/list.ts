// Lists, exports and sums of dead letters and quarantined elements.
import { numberText, sizeText } from '../../observability/words.ts'
import { writeExport } from '../shared/export-file.ts'
import { columns } from '../shared/terminal.ts'
import type { CommandContext } from '../shared/context.ts'
import type { RecordOptions } from './selection.ts'

/** Default limit of `list`. */
const LIST_LIMIT = 100

/** How `list` shows a record. */
interface ListShape<T> {
  readonly none: string
  /** the command that writes all of them */
  readonly all: string
  readonly head: readonly string[]
  readonly row: (each: T) => readonly string[]
  /** JSON fields, without content */
  readonly facts: (each: T) => object
}

/**
 * Prints the records up to `limit`, and whether there are more. With --json only data on stdout.
 * Returns the printed records; undefined if there are more.
 */
export async function showList<T>(
  context: CommandContext,
  { limit = LIST_LIMIT, json = false, sums: alone = false }: Pick<RecordOptions, 'limit' | 'json' | 'sums'>,
  pages: AsyncIterable<readonly T[]>,
  sums: Sums<T>,
  texts: ListShape<T>,
): Promise<readonly T[] | undefined> {
  const { stdout, stderr } = context
  const found: T[] = []
  for await (const page of pages) {
    sums.add(page)
    found.push(...page.slice(0, limit + 1 - found.length))
    // JSON output shows no sums, so the rest need not be read.
    if (json && !alone && found.length > limit) break
  }
  const shown = found.slice(0, limit)
  const more =
    found.length > limit
      ? `there are more than these ${limit}: a larger --limit shows them, ${texts.all} writes all of them into a file\n`
      : ''
  if (alone && json) sums.printJson(context)
  else if (json) {
    for (const each of shown) stdout(`${JSON.stringify(texts.facts(each))}\n`)
    if (more !== '') stderr(`auditferry: ${more}`)
  } else if (shown.length === 0) stdout(`${texts.none}\n`)
  else {
    if (!alone) stdout(`${columns([texts.head, ...shown.map(texts.row)])}${more}\n`)
    sums.print(context)
  }
  return more === '' ? shown : undefined
}

// `export`: each record with its content, to a file or standard output.

/** Records to export, with the stored bytes of each. */
interface RecordExport<Kept> {
  readonly pages: AsyncIterable<readonly Kept[]>
  readonly rawOf: (id: number) => Promise<Uint8Array | undefined>
  readonly line: (kept: Kept, raw: Uint8Array) => Uint8Array
  readonly none: string
  readonly noun: (count: number) => string
}

/** Returns the written records. A record that was dropped meanwhile is skipped. */
export async function exportRecords<Kept extends { readonly id: number }>(
  context: CommandContext,
  path: string,
  { pages, rawOf, line, none, noun }: RecordExport<Kept>,
): Promise<readonly Kept[]> {
  const seen: Kept[] = []
  await writeExport(context, path, lines())
  if (seen.length === 0)
    context.stderr(`auditferry: ${none} to export${path === '-' ? '' : `: ${path} was not made`}\n`)
  else if (path !== '-') context.stderr(`auditferry: ${noun(seen.length)} in ${path}\n`)
  return seen

  async function* lines() {
    for await (const page of pages)
      for (const kept of page) {
        const raw = await rawOf(kept.id)
        if (!raw) continue
        seen.push(kept)
        yield line(kept, raw)
      }
  }
}

// Reads records page by page, to bound memory.

/** All matching records, in bounded pages. */
export async function* pages<T extends { readonly id: number }>(
  ask: (page: { limit: number; after: number }) => Promise<readonly T[]>,
): AsyncGenerator<readonly T[]> {
  for (let after = 0; ;) {
    const rows = await ask({ limit: 500, after })
    const last = rows.at(-1)
    if (!last) return
    yield rows
    after = last.id
  }
}

/** Filters pages with `isSelected`, up to `limit` records. */
export async function* filtered<T>(
  all: AsyncIterable<readonly T[]>,
  isSelected: (each: T) => boolean,
  limit = Infinity,
): AsyncGenerator<readonly T[]> {
  let left = limit
  for await (const page of all) {
    const selected = page.filter(isSelected).slice(0, left)
    left -= selected.length
    yield selected
    if (left <= 0) return
  }
}

/** Bound of one transaction, which reads all of its bytes at once. */
const CHUNK = { records: 500, bytes: 8 * 1024 * 1024 }

/** Works on ids that were listed before: a letter rejected again meanwhile has a new id. */
export async function inChunks(
  records: readonly { readonly id: number; readonly bytes: number }[],
  work: (ids: readonly number[]) => Promise<number>,
): Promise<number> {
  let done = 0
  let ids: number[] = []
  let bytes = 0
  for (const record of records) {
    if (ids.length >= CHUNK.records || (ids.length > 0 && bytes + record.bytes > CHUNK.bytes)) {
      done += await work(ids)
      ids = []
      bytes = 0
    }
    ids.push(record.id)
    bytes += record.bytes
  }
  return ids.length > 0 ? done + (await work(ids)) : done
}

// Counts and bytes per kind, printed below a list or alone.

/** The fields that distinguish kinds, named as in JSON. */
type Kind = Readonly<Record<string, string>>

interface Sum {
  readonly kind: Kind
  count: number
  bytes: number
}

interface SumsShape<T> {
  readonly kindOf: (each: T) => Kind
  /** stored size, and its name in JSON and as a column title */
  readonly bytes: { readonly of: (each: T) => number; readonly name: string; readonly title: string }
  readonly noun: (count: number) => string
}

export class Sums<T> {
  readonly #shape: SumsShape<T>
  readonly #sums = new Map<string, Sum>()

  constructor(shape: SumsShape<T>) {
    this.#shape = shape
  }

  add(all: readonly T[]): void {
    for (const each of all) {
      const kind = this.#shape.kindOf(each)
      const name = JSON.stringify(kind)
      const sum = this.#sums.get(name) ?? { kind, count: 0, bytes: 0 }
      this.#sums.set(name, sum)
      sum.count++
      sum.bytes += this.#shape.bytes.of(each)
    }
  }

  /** Highest count first; equal counts in the order of their first record. */
  get #sorted(): readonly Sum[] {
    return [...this.#sums.values()].sort((one, other) => other.count - one.count)
  }

  printJson({ stdout }: CommandContext): void {
    for (const { kind, count, bytes } of this.#sorted)
      stdout(`${JSON.stringify({ count, [this.#shape.bytes.name]: bytes, ...kind })}\n`)
  }

  /** Prints nothing if there are no records. */
  print({ stdout }: CommandContext): void {
    const sums = this.#sorted
    const [first] = sums
    if (!first) return
    const of = (what: 'count' | 'bytes') => sums.reduce((all, sum) => all + sum[what], 0)
    stdout(`${this.#shape.noun(of('count'))}, ${sizeText(of('bytes'))}\n`)
    const head = [
      'COUNT',
      this.#shape.bytes.title,
      ...Object.keys(first.kind).map((name) => name.toUpperCase()),
    ]
    const rows = sums.map(({ kind, count, bytes }) => [
      ...[numberText(count), sizeText(bytes)],
      ...Object.values(kind),
    ])
    stdout(columns([head, ...rows]))
  }
}
