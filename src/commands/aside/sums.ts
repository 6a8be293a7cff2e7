// How much was set aside, by what tells one kind of it from another: beneath a list, or alone.
import { numberText, sizeText } from '../../ops/words.ts'
import { columns } from '../shared/columns.ts'
import type { World } from '../shared/world.ts'

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

  tellData({ stdout }: World): void {
    for (const { kind, count, bytes } of this.#sorted)
      stdout(`${JSON.stringify({ count, [this.#shape.bytes.name]: bytes, ...kind })}\n`)
  }

  /** Of nothing nothing is told. */
  tell({ stdout }: World): void {
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
