// The formats by the word that stands in the configuration.
import type { Format } from '../contracts/sink.ts'
import { cef } from './cef.ts'
import { envelope, raw } from './raw.ts'
import { leef } from './leef.ts'

const formats = { raw: () => raw, envelope, cef, leef } as const satisfies Record<string, () => Format>

export type FormatName = keyof typeof formats

export const formatNames = Object.keys(formats) as readonly FormatName[]

/** A format of the caller's own: it may remember what the last run's entries had in common. */
export function formatNamed(name: FormatName): Format {
  return formats[name]()
}
