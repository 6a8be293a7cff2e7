// The warning that a sink's file was removed or cut, kept in the journal for its day: a restart or a reload at night is not to end it unread.
import { z } from 'zod'
import type { Clock } from './model/clock.ts'
import type { Journal } from './model/journal.ts'
import type { SinkDeps } from './model/sink-kind.ts'
import { DAY_MS } from './model/time.ts'
import { jsonOf } from './model/json-of.ts'
import type { Board } from './ops/board.ts'

const noteSchema = z.object({ message: z.string(), sinceAt: z.number() })

interface Around {
  readonly journal: Pick<Journal, 'note' | 'putNote'>
  readonly clock: Pick<Clock, 'now'>
}

export function fileLoss(
  code: 'file_removed' | 'file_cut',
  sink: string,
  board: Pick<Board, 'warn'>,
  { journal, clock }: Around,
) {
  const name = `${code}:${sink}`
  const warned = { code, about: sink }
  return {
    /** `message` undefined: it is over. */
    tell(message: string | undefined): void {
      board.warn(warned, message)
      const note = message === undefined ? '' : JSON.stringify({ message, sinceAt: clock.now() })
      // Delivery does not wait for it: what cannot be kept is told by this process all the same.
      journal.putNote(name, note).catch(() => undefined)
    },
    /** Tells what an earlier process knew. */
    async recall(): Promise<void> {
      const kept = jsonOf(noteSchema, (await journal.note(name).catch(() => undefined)) ?? '')
      if (!kept) return
      const now = clock.now()
      // A clock that was set back meanwhile: nobody knows since when, and it must not go untold.
      const sinceAt = Math.min(kept.sinceAt, now)
      const untilAt = sinceAt + DAY_MS
      if (now < untilAt) board.warn(warned, kept.message, { sinceAt, untilAt })
    },
  }
}

/** Where the sink's file ended at an orderly stop. */
export function lastEndOf(sink: string, journal: Around['journal']): Required<SinkDeps>['lastEnd'] {
  const name = `file_end:${sink}`
  return { kept: () => journal.note(name), keep: (end) => journal.putNote(name, end) }
}
