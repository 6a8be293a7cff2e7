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
