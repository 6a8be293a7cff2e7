// The formats by their names in the configuration.
import type { Format } from '../contracts/sink.ts'
import { cef } from './cef.ts'
import { envelope, raw } from './raw.ts'
import { leef } from './leef.ts'

const formats = { raw: () => raw, envelope, cef, leef } as const satisfies Record<string, () => Format>

export type FormatName = keyof typeof formats

export const formatNames = Object.keys(formats) as readonly FormatName[]

/** Creates a format for one caller: it may cache what the last entries had in common. */
export function formatNamed(name: FormatName): Format {
  return formats[name]()
}
