// A text that may be JSON of a form, or anything: what was kept by another version, or came from elsewhere.
import type { ZodType } from 'zod'

/** What the text says, where it is JSON of that form; else undefined. */
export function jsonOf<T>(form: ZodType<T>, text: string): T | undefined {
  try {
    return form.safeParse(JSON.parse(text)).data
  } catch {
    return undefined
  }
}
