// What evidence remembers in the journal: what each settlement stored, how far the chain is, and the manifest that is on its way. Pure.
import { z } from 'zod'
import type { Note } from '../../../model/note.ts'
import { manifestObject, manifestStretch } from './manifest.ts'

/** What one settlement settled. */
const settled = z.object({ ...manifestStretch.shape, objects: z.array(manifestObject) })
type Settled = z.output<typeof settled>

/** How far the chain is: after the last manifest that was stored. */
const chain = z.object({
  /** 0: none yet */
  number: z.int(),
  /** of the last manifest; '' where there is none */
  sha256: z.string(),
  /** epoch ms: the running interval's begin */
  fromAt: z.int(),
  /** epoch ms: the end of an interval that the last manifest left incomplete */
  untilAt: z.int().optional(),
  /** entries up to here stand in a manifest, or are from before the chain */
  through: z.int(),
})
export type Chain = z.output<typeof chain>

/** A manifest fixed to the byte; what it lists is listed nowhere else any more. */
const pending = z.object({ key: z.string(), body: z.string(), then: chain })
export type Pending = z.output<typeof pending>

export interface SettledNote {
  readonly name: string
  readonly settled: Settled
}

export const chainName = (sink: string) => `evidence:${sink}:chain`
export const pendingName = (sink: string) => `evidence:${sink}:pending`
export const settledPrefix = (sink: string) => `evidence:${sink}:settled:`

export function settledNote(sink: string, record: Settled): Note {
  return {
    name: `${settledPrefix(sink)}${String(record.first).padStart(16, '0')}`,
    value: JSON.stringify(record),
  }
}

/** What stands there is of our own making: anything else is a bug, or another version's. */
function read<T>(schema: z.ZodType<T>, name: string, value: string): T {
  const found = schema.safeParse(JSON.parse(value))
  if (!found.success)
    throw new Error(`The journal's note ${name} is not of the form that this version writes`)
  return found.data
}

export const readSettledNote = ({ name, value }: Note): SettledNote => ({
  name,
  settled: read(settled, name, value),
})
export const readChain = (sink: string, value: string): Chain => read(chain, chainName(sink), value)
export const readPending = (sink: string, value: string): Pending => read(pending, pendingName(sink), value)
