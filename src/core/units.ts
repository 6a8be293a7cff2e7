// Schema parts shared by the options of all modules: durations, sizes and secrets as an operator
// writes them are parsed only here.
import { z } from 'zod'
import { Secret, secretFault } from './secret.ts'

export const durationUnitsMs: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
}

export const sizeUnitsBytes: Readonly<Record<string, number>> = {
  B: 1,
  KiB: 2 ** 10,
  MiB: 2 ** 20,
  GiB: 2 ** 30,
  TiB: 2 ** 40,
  kB: 1e3,
  MB: 1e6,
  GB: 1e9,
  TB: 1e12,
}

export const durationPattern = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/
export const sizePattern = /^(\d+(?:\.\d+)?)(B|KiB|MiB|GiB|TiB|kB|MB|GB|TB)$/

/** `30s` to 30000. The text must match `durationPattern`. */
export function durationMs(text: string): number {
  const [, amount = '0', unit = ''] = durationPattern.exec(text) ?? []
  return Math.round(Number(amount) * (durationUnitsMs[unit] ?? 0))
}

/** `2GiB` to 2147483648. The text must match `sizePattern`. @internal */
export function sizeBytes(text: string): number {
  const [, amount = '0', unit = ''] = sizePattern.exec(text) ?? []
  return Math.round(Number(amount) * (sizeUnitsBytes[unit] ?? 0))
}

/** Ten years: a longer span is a typo, and some exceed the calendar. */
const MAX_MS = 3650 * 86_400_000
/** No single disk is larger, and SQLite's largest file is twice that. */
const MAX_BYTES = 16 * 2 ** 40

export const isSpan = (ms: number): boolean => ms <= MAX_MS
export const spanFault = 'expected at most 3650d'

/** If only a space is wrong, the error says so. */
const unspaced =
  (pattern: RegExp, expectation: string) =>
  ({ input }: { readonly input?: unknown }): string =>
    typeof input === 'string' && pattern.test(input.replaceAll(/\s/g, ''))
      ? `${expectation}, without a space in it`
      : expectation

/** A span of time such as `30s`, `5m`, `24h`, `35d`; parsed to milliseconds. */
export const duration = () =>
  z
    .string()
    .regex(durationPattern, {
      error: unspaced(durationPattern, 'expected a duration such as 30s, 5m, 24h or 35d'),
    })
    .transform(durationMs)
    .refine(isSpan, spanFault)

/** A size such as `1MiB`, `2GiB`; parsed to bytes. */
export const size = () =>
  z
    .string()
    .regex(sizePattern, { error: unspaced(sizePattern, 'expected a size such as 512KiB, 1MiB or 2GiB') })
    .transform(sizeBytes)
    .refine((bytes) => bytes <= MAX_BYTES, 'expected at most 16TiB')

/** True for a list without duplicates. */
export const eachOnce = (list: readonly string[]): boolean => new Set(list).size === list.length
export const twiceFault = 'contains a value twice: list each once'

/** A secret, best given as `${file:/path}`; printed as `***` from here on. */
export const secret = () =>
  z
    .string()
    .superRefine((value, context) => {
      const message = secretFault(value)
      if (message !== undefined) context.addIssue({ code: 'custom', message })
    })
    .transform((value) => new Secret(value))
