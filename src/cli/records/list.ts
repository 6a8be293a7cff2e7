// What `list` prints of dead letters and quarantined elements: a table or JSON, and sums by kind.
import { numberText, sizeText } from '../../observability/words.ts'
import { columns } from '../shared/terminal.ts'
import type { CommandContext } from '../shared/context.ts'
import type { AnyRecord, RecordKind, RecordOptions } from './selection.ts'

const LIST_LIMIT = 100

type Listed<T extends AnyRecord> = Pick<
  RecordKind<T>,
  'name' | 'noun' | 'head' | 'row' | 'facts' | 'sumOf' | 'bytesOf' | 'bytes'
>

/**
 * Prints the records up to `limit`, and whether there are more. With --json only data on stdout.
 * Returns the printed records; undefined if there are more. `none`: for an empty list.
 */
export async function showList<T extends AnyRecord>(
  context: CommandContext,
  { limit = LIST_LIMIT, json = false, sums: alone = false }: Pick<RecordOptions, 'limit' | 'json' | 'sums'>,
  pages: AsyncIterable<readonly T[]>,
  kind: Listed<T>,
  none: string,
): Promise<readonly T[] | undefined> {
  const { stdout, stderr } = context
  const found: T[] = []
  const sums = new Sums(kind)
  for await (const page of pages) {
    sums.add(page)
    found.push(...page.slice(0, limit + 1 - found.length))
    // JSON output shows no sums, so the rest need not be read.
    if (json && !alone && found.length > limit) break
  }
  const shown = found.slice(0, limit)
  const more =
    found.length > limit
      ? `there are more than these ${limit}: a larger --limit shows them, ${kind.name} export writes all of them into a file\n`
      : ''
  if (alone && json) sums.printJson(context)
  else if (json) {
    for (const each of shown) stdout(`${JSON.stringify(kind.facts(each))}\n`)
    if (more !== '') stderr(`auditferry: ${more}`)
  } else if (shown.length === 0) stdout(`${none}\n`)
  else {
    if (!alone) stdout(`${columns([kind.head, ...shown.map(kind.row)])}${more}\n`)
    sums.print(context)
  }
  return more === '' ? shown : undefined
}

interface Sum {
  /** named as in JSON */
  readonly fields: Readonly<Record<string, string>>
  count: number
  bytes: number
}

/** Counts and bytes by kind, printed below a list or alone. */
class Sums<T extends AnyRecord> {
  readonly #kind: Listed<T>
  readonly #sums = new Map<string, Sum>()

  constructor(kind: Listed<T>) {
    this.#kind = kind
  }

  add(page: readonly T[]): void {
    for (const record of page) {
      const fields = this.#kind.sumOf(record)
      const name = JSON.stringify(fields)
      const sum = this.#sums.get(name) ?? { fields, count: 0, bytes: 0 }
      this.#sums.set(name, sum)
      sum.count++
      sum.bytes += this.#kind.bytesOf(record)
    }
  }

  /** Highest count first; equal counts in the order of their first record. */
  get #sorted(): readonly Sum[] {
    return [...this.#sums.values()].sort((one, other) => other.count - one.count)
  }

  printJson({ stdout }: CommandContext): void {
    for (const { fields, count, bytes } of this.#sorted)
      stdout(`${JSON.stringify({ count, [this.#kind.bytes.name]: bytes, ...fields })}\n`)
  }

  /** At least one record must have been added. */
  print({ stdout }: CommandContext): void {
    const sums = this.#sorted
    const of = (what: 'count' | 'bytes') => sums.reduce((all, sum) => all + sum[what], 0)
    const names = Object.keys(sums[0]?.fields ?? {}).map((name) => name.toUpperCase())
    const rows = sums.map(({ fields, count, bytes }) => [
      ...[numberText(count), sizeText(bytes)],
      ...Object.values(fields),
    ])
    stdout(`${this.#kind.noun(of('count'))}, ${sizeText(of('bytes'))}\n`)
    stdout(columns([['COUNT', this.#kind.bytes.title, ...names], ...rows]))
  }
}
