// Words that others wrote, with every secret in them made unreadable: for the log, the status page, and whatever else is shown.
import type { Secret } from '../model/secret.ts'

const MASK = '***'
/** A shorter secret would be found by chance in honest words. */
const MIN_SECRET = 6

export type Mask = (text: string) => string

/** Secrets are asked for each time, since files are read again. */
export function masker(secrets: (() => readonly Secret[]) | undefined): Mask {
  return (text) => {
    let masked = text
    for (const secret of secrets?.() ?? []) {
      const value = secret.reveal()
      if (value.length >= MIN_SECRET) masked = masked.replaceAll(value, MASK)
    }
    return masked
  }
}
