// Cases that a receiver's protocol cannot show: left out, and told at the end, so that a hole is a decision and not an oversight.
import { afterAll } from 'vitest'

/** True where the bench can show the case; else the case is noted as not applicable. */
export type Applies = <T>(means: T | undefined, what: string) => means is T

export function notApplicable(kind: string): Applies {
  const left: string[] = []
  afterAll(() => {
    if (left.length > 0) process.stderr.write(`${kind}: not applicable: ${left.join('; ')}\n`)
  })
  return <T>(means: T | undefined, what: string): means is T => {
    if (means === undefined) left.push(what)
    return means !== undefined
  }
}
