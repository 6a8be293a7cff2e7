// The state of one part and its fault: a part that fails stays failing during retries, until it
// succeeds.
import type { Clock } from '../core/clock.ts'
import type { Mask } from './log.ts'
import type { Metrics } from './metrics.ts'
import type { Shown } from './recent.ts'
import { warningCodes } from './status.ts'
import type { FaultStatus, WarningStatus } from './status.ts'

interface Fault extends Shown {
  readonly sinceAt: number
  /** undefined: unknown, or the try is under way */
  readonly tryAt: number | undefined
}

/**
 * Shows the state that was reported, with two exceptions: failing, blocked or paused for the disk
 * stays until `succeed` or one of `recoveryStates`; waiting after `rate_limited` keeps the error.
 */
export class Condition<State extends string> {
  readonly #recoveryStates: readonly State[]
  /** the state that is shown without a fault */
  #underlying: State
  #shown: State
  #fault: Fault | undefined

  constructor(initial: State, recoveryStates: readonly State[]) {
    this.#recoveryStates = recoveryStates
    this.#underlying = initial
    this.#shown = initial
  }

  get state(): State {
    return this.#shown
  }

  get error(): FaultStatus | null {
    if (!this.#fault) return null
    const { code, message, sinceAt, tryAt } = this.#fault
    const next = tryAt === undefined ? {} : { next_try_at: new Date(tryAt).toISOString() }
    return { code, message, since: new Date(sinceAt).toISOString(), ...next }
  }

  /** `at`: since when, `tryAt`: time of the next try; epoch ms. */
  become(state: State, error: Shown | undefined, at: number, tryAt?: number): void {
    const troubled = this.#troubled
    if (error) {
      const { code, message } = error
      const sinceAt = (troubled ? this.#fault?.sinceAt : undefined) ?? at
      this.#fault = { code, message, sinceAt, tryAt }
    } else if (troubled && !isBroken(state) && !this.#recoveryStates.includes(state)) {
      this.#underlying = state
      if (this.#fault) this.#fault = { ...this.#fault, tryAt: undefined }
      if (state === 'waiting' && this.#fault?.code === 'rate_limited') this.#shown = state
      return
    } else if (!isBroken(state)) this.#fault = undefined
    this.#shown = state
    if (!isBroken(state)) this.#underlying = state
  }

  succeed(): void {
    this.#fault = undefined
    this.#shown = this.#underlying
  }

  get #troubled(): boolean {
    if (isBroken(this.#shown)) return true
    if (!this.#fault) return false
    return this.#shown === 'waiting' || this.#isPausedForDisk
  }

  /** Free disk space shows only by trying; the journal reports the end of its own limit. */
  get #isPausedForDisk(): boolean {
    return this.#shown === 'paused' && this.#fault?.code !== 'journal_full'
  }
}

/** Epoch ms of a try in `inMs`. */
export const tryAt = (clock: Clock, inMs: number | undefined): number | undefined =>
  inMs === undefined ? undefined : clock.now() + inMs

function isBroken(state: string): boolean {
  return state === 'failing' || state === 'blocked'
}

// Warnings about something to fix although no part fails: reported until fixed.

/** The kind of a warning and its subject. */
type WarnedOf = Pick<WarningStatus, 'code' | 'about'>

interface Span {
  readonly sinceAt: number
  readonly untilAt: number
}

export interface Warnings {
  /** `message` undefined: the warning is over. `span`, epoch ms: it ends by time. */
  readonly report: (warned: WarnedOf, message: string | undefined, span?: Span) => void
  /** oldest first */
  readonly status: () => readonly WarningStatus[]
}

export function openWarnings(
  clock: Pick<Clock, 'now'>,
  mask: Mask,
  { onScrape, warnings: gauge }: Pick<Metrics, 'onScrape' | 'warnings'>,
): Warnings {
  const active = new Map<string, { readonly warning: WarningStatus; readonly untilAt: number }>()
  const status = () => {
    for (const [key, { untilAt }] of active) if (untilAt <= clock.now()) active.delete(key)
    return [...active.values()].map(({ warning }) => warning)
  }
  onScrape(() => {
    for (const code of warningCodes) gauge.set({ code }, 0)
    for (const { code } of status()) gauge.inc({ code })
  })
  return {
    report({ code, about }, message, { sinceAt, untilAt } = { sinceAt: clock.now(), untilAt: Infinity }) {
      const known = status().find((one) => one.code === code && one.about === about)
      const key = `${code} ${about}`
      if (message === undefined) {
        active.delete(key)
        return
      }
      const since = known?.since ?? new Date(sinceAt).toISOString()
      active.set(key, { warning: { code, about, message: mask(message), since }, untilAt })
    },
    status,
  }
}
