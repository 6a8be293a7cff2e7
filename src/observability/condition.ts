// The state of one part with its fault: a part that fails stays failing while it tries again, until it has succeeded.
import type { Clock } from '../core/clock.ts'
import type { ConnectorError } from '../core/errors.ts'
import type { Mask } from './log.ts'
import type { Metrics } from './metrics.ts'
import { warningCodes } from './status.ts'
import type { FaultStatus, WarningStatus } from './status.ts'
import { messageOf } from './words.ts'

interface Fault {
  readonly code: ConnectorError['code']
  readonly message: string
  readonly sinceAt: number
  /** undefined: nobody knows, or the try is under way */
  readonly tryAt: number | undefined
}

/**
 * Told: any state, with or without an error. Shown: the same, save that
 * failing, held, paused for the disk | then another state without an error | stays as it is until `succeed`, or a state that `mends` says all is well
 * rate_limited | then waiting | waiting, its error beside it: a limit that is waited out is no failure
 */
export class Condition<State extends string> {
  readonly #mends: readonly State[]
  /** what would be shown were there no fault */
  #wanted: State
  #shown: State
  #fault: Fault | undefined

  constructor(initial: State, mends: readonly State[]) {
    this.#mends = mends
    this.#wanted = initial
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

  /** `at`: since when, `tryAt`: when it is tried again; epoch ms. */
  become(state: State, error: ConnectorError | undefined, at: number, tryAt?: number): void {
    const troubled = this.#troubled
    if (error) this.#fault = this.#next(error, troubled, at, tryAt)
    else if (troubled && !isBroken(state) && !this.#mends.includes(state)) {
      this.#wanted = state
      if (this.#fault) this.#fault = { ...this.#fault, tryAt: undefined }
      if (state === 'waiting' && this.#fault?.code === 'rate_limited') this.#shown = state
      return
    } else if (!isBroken(state)) this.#fault = undefined
    this.#shown = state
    if (!isBroken(state)) this.#wanted = state
  }

  succeed(): void {
    this.#fault = undefined
    this.#shown = this.#wanted
  }

  get #troubled(): boolean {
    if (isBroken(this.#shown)) return true
    if (!this.#fault) return false
    return this.#shown === 'waiting' || this.#isPausedForDisk
  }

  /** Room on a disk can only be tried. Of the journal's own bound it is known: that pause ends with it. */
  get #isPausedForDisk(): boolean {
    return this.#shown === 'paused' && this.#fault?.code !== 'journal_full'
  }

  #next(error: ConnectorError, troubled: boolean, at: number, tryAt: number | undefined): Fault {
    return {
      code: error.code,
      message: messageOf(error),
      sinceAt: (troubled ? this.#fault?.sinceAt : undefined) ?? at,
      tryAt,
    }
  }
}

/** Epoch ms of a try that comes in `inMs`. */
export const tryAt = (clock: Clock, inMs: number | undefined): number | undefined =>
  inMs === undefined ? undefined : clock.now() + inMs

function isBroken(state: string): boolean {
  return state === 'failing' || state === 'blocked'
}

// What is to be mended although no part fails of it: told for as long as it holds.

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
