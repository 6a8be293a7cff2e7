// A source whose parts are shown to somebody once they have landed: the source itself and whoever collects from it know nothing of that.
import type { Entries } from '../model/entries.ts'
import type { Seq } from '../model/seq.ts'
import type { Source } from '../model/source.ts'

/** `last`: nothing of the entries stands behind it in the journal. Must not wait. */
type Notice = (entries: Entries, last: Seq) => void

/** Entries are somebody else's: whoever looks on may stumble over one, and reading goes on. What was not seen is missing, and that is told. */
function look(notice: Notice, entries: Entries, last: Seq): void {
  try {
    notice(entries, last)
  } catch {
    // What it stumbled over is content: nothing of it may be told.
  }
}

export function noticed(source: Source, notice: Notice): Source {
  return {
    origin: source.origin,
    plan: (cursor) => source.plan(cursor),
    async *read(cursor, signal) {
      const parts = source.read(cursor, signal)
      try {
        for (let next = await parts.next(); !next.done;) {
          const appended = yield next.value
          if (appended.last !== undefined) look(notice, next.value.entries, appended.last)
          next = await parts.next(appended)
        }
      } finally {
        await parts.return(undefined)
      }
    },
  }
}
