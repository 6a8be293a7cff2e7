// What is to be mended although no part fails of it: told for as long as it holds.
import type { Clock } from '../model/clock.ts'
import type { Mask } from './mask.ts'
import type { Metrics } from './metrics.ts'
import { type WarningStatus, warningCodes } from './status.ts'

/** What is warned of, and about what. */
type WarnedOf = Pick<WarningStatus, 'code' | 'about'>

interface Span {
  readonly sinceAt: number
  readonly untilAt: number
}

export interface Warnings {
  /** `message` undefined: it is over. `span`: of one that an earlier process told, epoch ms. */
  readonly tell: (warned: WarnedOf, message: string | undefined, span?: Span) => void
  /** the oldest first */
  readonly status: () => readonly WarningStatus[]
}

export function openWarnings(
  clock: Pick<Clock, 'now'>,
  mask: Mask,
  { onScrape, warnings: gauge }: Pick<Metrics, 'onScrape' | 'warnings'>,
): Warnings {
  const held = new Map<string, WarningStatus>()
  const untilAt = new Map<string, number>()
  const lapse = () => {
    for (const [key, at] of untilAt) if (at <= clock.now()) held.delete(key)
  }
  onScrape(() => {
    lapse()
    for (const code of warningCodes) gauge.set({ code }, 0)
    for (const { code } of held.values()) gauge.inc({ code })
  })
  return {
    tell({ code, about }, message, span) {
      const key = `${code} ${about}`
      untilAt.delete(key)
      if (message === undefined) {
        held.delete(key)
        return
      }
      const since = held.get(key)?.since ?? new Date(span?.sinceAt ?? clock.now()).toISOString()
      if (span) untilAt.set(key, span.untilAt)
      held.set(key, { code, about, message: mask(message), since })
    },
    status() {
      lapse()
      return [...held.values()]
    },
  }
}
