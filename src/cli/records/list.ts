// `list` of what was set aside, as a table or as data, and its sums: never with content.
import { numberText, sizeText } from '../../observability/words.ts'
import { writeExport } from '../shared/export-file.ts'
import { columns } from '../shared/terminal.ts'
import type { CommandContext } from '../shared/world.ts'
import type { AsideOptions } from './selection.ts'

/** `list` shows so many unless told. */
const LIST_LIMIT = 100

/** One kind of what is set aside, as `list` shows it. */
interface ListShape<T> {
  readonly none: string
  /** the command that has all of them */
  readonly all: string
  readonly head: readonly string[]
  readonly row: (each: T) => readonly string[]
  /** its data, without content */
  readonly facts: (each: T) => object
}

/** Shows the first of what there is, up to `limit`, and says whether there is more. Standard output has nothing but data where data is asked for. Gives all that are shown; undefined where there is more. */
export async function showList<T>(
  context: CommandContext,
  { limit = LIST_LIMIT, json = false, sums: alone = false }: Pick<AsideOptions, 'limit' | 'json' | 'sums'>,
  pages: AsyncIterable<readonly T[]>,
  sums: Sums<T>,
  texts: ListShape<T>,
): Promise<readonly T[] | undefined> {
  const { stdout, stderr } = context
  const found: T[] = []
  for await (const page of pages) {
    sums.add(page)
    found.push(...page.slice(0, limit + 1 - found.length))
    // Each object stands for itself: nothing is told of the rest but that it is there.
    if (json && !alone && found.length > limit) break
  }
  const shown = found.slice(0, limit)
  const more =
    found.length > limit
      ? `there are more than these ${limit}: a larger --limit shows them, ${texts.all} writes all of them into a file\n`
      : ''
  if (alone && json) sums.tellData(context)
  else if (json) {
    for (const each of shown) stdout(`${JSON.stringify(texts.facts(each))}\n`)
    if (more !== '') stderr(`auditferry: ${more}`)
  } else if (shown.length === 0) stdout(`${texts.none}\n`)
  else {
    if (!alone) stdout(`${columns([texts.head, ...shown.map(texts.row)])}${more}\n`)
    sums.tell(context)
  }
  return more === '' ? shown : undefined
}

// `export` of what was set aside: each record with its content, in a file or on standard output.

/** What is set aside, to be written out: each record with the bytes that are kept of it. */
interface AsideExport<Kept> {
  readonly pages: AsyncIterable<readonly Kept[]>
  readonly rawOf: (id: number) => Promise<Uint8Array | undefined>
  readonly line: (kept: Kept, raw: Uint8Array) => Uint8Array
  readonly none: string
  readonly noun: (count: number) => string
}

/** Gives those that were written; one whose bytes went meanwhile is none of them. */
export async function exportAside<Kept extends { readonly id: number }>(
  context: CommandContext,
  path: string,
  { pages, rawOf, line, none, noun }: AsideExport<Kept>,
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

// What was set aside, of either kind, so much of it at a time as may be held at once.

/** All that match, a bounded page at a time. */
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

/** Of pages what is meant, up to `limit`. */
export async function* only<T>(
  all: AsyncIterable<readonly T[]>,
  isMeant: (each: T) => boolean,
  limit = Infinity,
): AsyncGenerator<readonly T[]> {
  let left = limit
  for await (const page of all) {
    const meant = page.filter(isMeant).slice(0, left)
    left -= meant.length
    yield meant
    if (left <= 0) return
  }
}

/** What one transaction puts back or drops: its bytes are read at once. */
const CHUNK = { records: 500, bytes: 8 * 1024 * 1024 }

/** In chunks whose ids were looked up before: a letter refused again meanwhile is a new one, and not chased. */
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

// How much was set aside, by what tells one kind of it from another: beneath a list, or alone.

/** What tells one kind from another, by the names that a listed one has as data. */
type Kind = Readonly<Record<string, string>>

interface Sum {
  readonly kind: Kind
  count: number
  bytes: number
}

interface SumsShape<T> {
  readonly kindOf: (each: T) => Kind
  /** what of it takes room here, by which name it stands in data and above a column */
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

  /** The most first; of equals the one that was met first. */
  get #sorted(): readonly Sum[] {
    return [...this.#sums.values()].sort((one, other) => other.count - one.count)
  }

  tellData({ stdout }: CommandContext): void {
    for (const { kind, count, bytes } of this.#sorted)
      stdout(`${JSON.stringify({ count, [this.#shape.bytes.name]: bytes, ...kind })}\n`)
  }

  /** Of nothing nothing is told. */
  tell({ stdout }: CommandContext): void {
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
