// What a command that follows says of each part of the past that is read again: how far it is, what holds it up, what came of it.
import type { ErrorCode } from '../../model/errors.ts'
import type { WaitsFor } from '../../model/past.ts'
import type { Origin } from '../../model/source.ts'
import type { ControlClient } from '../../ops/control-client.ts'
import { countText, waitText } from '../../ops/words.ts'
import { printable } from '../../model/printable.ts'

/** A part of the past that is read again. */
export interface Followed {
  readonly origin: Origin
  /** absent: it is for every sink */
  readonly sink?: string
  readonly endedAt: number | undefined
  readonly error: { readonly code: ErrorCode; readonly message: string } | undefined
  readonly waitsFor: WaitsFor | undefined
  readonly waitReason?: string | undefined
}

/** In what those of one command differ from those of the other. */
export interface Following<One extends Followed> {
  /** what it is called, and its command */
  readonly what: 'backfill' | 'replay'
  /** what it is called where none is there */
  readonly title: string
  /** of one that was cancelled */
  readonly stays: (whose: 'it' | 'they') => string
  readonly heard: (client: ControlClient) => Promise<readonly One[]>
  /** epoch ms: with its origin and its sink it tells one from the others */
  readonly begunAt: (one: One) => number
  readonly nameText: (one: One) => string
  /** 0 to 1 */
  readonly ratio: (one: One) => number
  readonly countsText: (one: One) => string
  readonly isWhole: (one: One) => boolean
  readonly endText: (one: One, ended: string) => string
  /** on a screen, of all together */
  readonly barText?: (all: readonly One[]) => string
  /** behind the last lines */
  readonly adviceText?: (one: One) => string
}

/** Looks that are answered in their time are closer together. */
const SILENT_MS = 3_000
/** To the line's beginning, and everything off it. */
export const AGAIN = '\r\u001b[K'

/** What the daemon said last may no longer hold: that it says nothing is told in place of it. */
export const silenceText = (silentMs: number) =>
  silentMs < SILENT_MS ? '' : `; no answer from the daemon since ${Math.round(silentMs / 1000)} s`

export function lineText<One extends Followed>(following: Following<One>, one: One, silence = ''): string {
  const { nameText, ratio, countsText, isWhole, endText } = following
  const why = one.error && printable(one.error.message)
  if (one.endedAt !== undefined)
    return `${endText(one, why ?? (isWhole(one) ? 'done' : 'ended, not whole'))}\n`
  return `${nameText(one)}: ${percentText(ratio(one))}, ${countsText(one)}${silence || troubleText(one)}\n`
}

/** What holds it up, if anything does. */
export function troubleText({ error, waitsFor, waitReason }: Trouble): string {
  if (error) return `; trying again: ${printable(error.message)}`
  const text = waitText(waitsFor, waitReason)
  return text === '' ? '' : `. ${printable(text)}`
}

export interface Trouble {
  readonly error?: { readonly message: string } | null | undefined
  readonly waitsFor?: WaitsFor | null | undefined
  readonly waitReason?: string | null | undefined
}

/** Of those under way: what holds one up is told once on a screen, above the bar. */
export function newTroubles<One extends Followed>(
  following: Following<One>,
  open: readonly One[],
  told: Set<string>,
  silence: string,
): string {
  if (silence !== '') return ''
  const news = open.filter((one) => {
    // The figures of a wait change all the time.
    const trouble = one.error ? troubleText(one) : (one.waitsFor ?? '')
    return trouble !== '' && told.size < told.add(`${following.nameText(one)}${trouble}`).size
  })
  return news.map((one) => `${AGAIN}${lineText(following, one)}`).join('')
}

export const percentText = (ratio: number) => `${Math.floor(ratio * 100)} %`

/** What every reading of the past may have to say of its counts. */
export const gapsText = (gaps: number) =>
  gaps === 0 ? '' : `; ${countText(gaps, 'possible gaps')}: entries there may be missing`
