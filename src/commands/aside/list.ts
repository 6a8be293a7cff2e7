// `list` of what was set aside, as a table or as data: never with content.
import { columns } from '../shared/columns.ts'
import type { World } from '../shared/world.ts'

/** `list` shows so many unless told. */
export const LIST_LIMIT = 100

/** One kind of what is set aside, as `list` shows it. */
interface ListShape<T> {
  readonly limit: number
  readonly json: boolean
  readonly none: string
  /** the command that has all of them */
  readonly all: string
  readonly head: readonly string[]
  readonly row: (each: T) => readonly string[]
  /** its data, without content */
  readonly facts: (each: T) => object
}

/** Shows what was found, up to `limit`, and says whether there is more. Standard output has nothing but data where data is asked for. */
export function showList<T>(
  world: World,
  found: readonly T[],
  { limit, json, ...texts }: ListShape<T>,
): void {
  const shown = found.slice(0, limit)
  if (json) for (const each of shown) world.stdout(`${JSON.stringify(texts.facts(each))}\n`)
  else world.stdout(shown.length === 0 ? `${texts.none}\n` : columns([texts.head, ...shown.map(texts.row)]))
  if (found.length <= limit) return
  const more = `there are more than these ${limit}: a larger --limit shows them, ${texts.all} writes all of them into a file\n`
  if (json) world.stderr(`auditferry: ${more}`)
  else world.stdout(more)
}
