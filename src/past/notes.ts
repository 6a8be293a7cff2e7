// How an order to read the past again is written into a note of the journal, with how far its reading is, and read out of it.
import type { ZodType } from 'zod'
import type { Progress } from './progress.ts'
import { jsonOf } from '../model/json-of.ts'

interface Noted<Stored> {
  readonly order: Omit<Stored, 'atUs'>
  readonly atUs: number | undefined
}

/** What a note holds; one that is not ours, or of another version, is as good as none. */
export function readNote<Stored extends { atUs?: number }>(
  schema: ZodType<Stored>,
  text: string,
): Noted<Stored> | undefined {
  const stored = jsonOf(schema, text)
  if (!stored) return undefined
  const { atUs, ...order } = stored
  return { order, atUs }
}

export const noteText = (order: object, { atUs }: Pick<Progress, 'atUs'>): string =>
  JSON.stringify({ ...order, atUs })
