// What is to be mended although no part fails of it: told for as long as it holds.
import type { Clock } from '../model/clock.ts'
import type { Mask } from './mask.ts'
import type { Metrics } from './metrics.ts'
import { type WarningStatus, warningCodes } from './status.ts'

/** What is warned of, and about what. */
type WarnedOf = Pick<WarningStatus, 'code' | 'about'>

export interface Warnings {
  /** `message` undefined: it is over. */
  readonly tell: (warned: WarnedOf, message: string | undefined) => void
  /** the oldest first */
  readonly status: () => readonly WarningStatus[]
}

export function openWarnings(
  clock: Pick<Clock, 'now'>,
  mask: Mask,
  { onScrape, warnings: gauge }: Pick<Metrics, 'onScrape' | 'warnings'>,
): Warnings {
  const held = new Map<string, WarningStatus>()
  onScrape(() => {
    for (const code of warningCodes) gauge.set({ code }, 0)
    for (const { code } of held.values()) gauge.inc({ code })
  })
  return {
    tell({ code, about }, message) {
      const key = `${code} ${about}`
      if (message === undefined) {
        held.delete(key)
        return
      }
      const since = held.get(key)?.since ?? new Date(clock.now()).toISOString()
      held.set(key, { code, about, message: mask(message), since })
    },
    status: () => [...held.values()],
  }
}
