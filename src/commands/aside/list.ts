// `list` of what was set aside, as a table or as data, and its sums: never with content.
import { columns } from '../shared/columns.ts'
import type { World } from '../shared/world.ts'
import type { AsideOptions } from './asked.ts'
import type { Sums } from './sums.ts'

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
  world: World,
  { limit = LIST_LIMIT, json = false, sums: alone = false }: Pick<AsideOptions, 'limit' | 'json' | 'sums'>,
  pages: AsyncIterable<readonly T[]>,
  sums: Sums<T>,
  texts: ListShape<T>,
): Promise<readonly T[] | undefined> {
  const { stdout, stderr } = world
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
  if (alone && json) sums.tellData(world)
  else if (json) {
    for (const each of shown) stdout(`${JSON.stringify(texts.facts(each))}\n`)
    if (more !== '') stderr(`auditferry: ${more}`)
  } else if (shown.length === 0) stdout(`${texts.none}\n`)
  else {
    if (!alone) stdout(`${columns([texts.head, ...shown.map(texts.row)])}${more}\n`)
    sums.tell(world)
  }
  return more === '' ? shown : undefined
}
