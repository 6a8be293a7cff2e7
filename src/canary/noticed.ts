// A source whose parts are shown to somebody once they have landed: the source itself and whoever collects from it know nothing of that.
import type { Entries } from '../model/entries.ts'
import type { Seq } from '../model/journal.ts'
import type { Source } from '../model/source.ts'

/** `last`: nothing of the entries stands behind it in the journal. Must not wait or throw. */
export type Notice = (entries: Entries, last: Seq) => void

export function noticed(source: Source, notice: Notice): Source {
  return {
    origin: source.origin,
    plan: (cursor) => source.plan(cursor),
    async *read(cursor, signal) {
      const parts = source.read(cursor, signal)
      try {
        for (let next = await parts.next(); !next.done;) {
          const appended = yield next.value
          if (appended.last !== undefined) notice(next.value.entries, appended.last)
          next = await parts.next(appended)
        }
      } finally {
        await parts.return(undefined)
      }
    },
  }
}
