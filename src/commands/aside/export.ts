// `export` of what was set aside: each record with its content, in a file or on standard output.
import { writeExport } from '../shared/export-file.ts'
import type { World } from '../shared/world.ts'

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
  world: World,
  path: string,
  { pages, rawOf, line, none, noun }: AsideExport<Kept>,
): Promise<readonly Kept[]> {
  const seen: Kept[] = []
  await writeExport(world, path, lines())
  if (seen.length === 0)
    world.stderr(`auditferry: ${none} to export${path === '-' ? '' : `: ${path} was not made`}\n`)
  else if (path !== '-') world.stderr(`auditferry: ${noun(seen.length)} in ${path}\n`)
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
