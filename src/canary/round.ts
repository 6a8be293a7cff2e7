// One prompt and what came of it so far, as it is kept across restarts.
import { z } from 'zod'
import { traceSources } from './traces.ts'
import { jsonOf } from '../model/json-of.ts'

const trace = z.object({
  /** epoch ms at which it was noticed */
  at: z.number(),
  /** nothing of the part it came in stands later in the journal */
  seq: z.number(),
  /** the entry's */
  id: z.string(),
})

const round = z.object({
  nonce: z.string(),
  /** epoch ms, our clock */
  sentAt: z.number(),
  /** Absent: nobody knows whether the prompt has arrived. Instants by the server's clock, µs. */
  answered: z.object({ tookMs: z.number(), fromUs: z.number(), toUs: z.number() }).optional(),
  traces: z.partialRecord(z.enum(traceSources), trace),
  /** epoch ms at which each sink had settled its trace */
  delivered: z.record(z.string(), z.number()),
  /** sinks that refused it for good */
  parked: z.array(z.string()),
  /** all has come, or what has not was told */
  over: z.boolean(),
})

const memory = z.object({
  user: z.string().optional(),
  round: round.optional(),
  /** the last round that ended, where it lacked something: told until one comes back whole */
  missed: round.optional(),
  /** epoch ms; 0: never */
  wholeAt: z.number(),
})

export type Round = z.output<typeof round>
export type CanaryMemory = z.output<typeof memory>

const fresh = (): CanaryMemory => ({ wholeAt: 0 })

/** What a note holds; one that is not ours, or of another version, is as good as none. */
export function readMemory(note: string | undefined): CanaryMemory {
  return (note === undefined ? undefined : jsonOf(memory, note)) ?? fresh()
}
