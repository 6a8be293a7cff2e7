// The history of one workspace in the configuration: which events, of which version, how often and how far back.
import { z } from 'zod'
import { DAY_MS } from '../model/time.ts'
import { duration } from '../model/units.ts'
import { interval, isRecord, start } from './fields.ts'

const dayPattern = /^\d{4}-\d\d-\d\d$/

const midnight = (text: string): number => Date.parse(`${text}T00:00:00Z`)

/** A date parser takes 2026-02-30 for the second of March: such a day is none. */
function isDay(text: string): boolean {
  const at = midnight(text)
  return dayPattern.test(text) && Number.isFinite(at) && new Date(at).toISOString().startsWith(text)
}

/** A UTC day such as 2026-04-01, as the epoch ms of its midnight. */
const day = () => z.string().refine(isDay, 'want a UTC day such as 2026-04-01').transform(midnight)

function refuseContradictions(value: unknown, context: z.RefinementCtx): void {
  if (!isRecord(value)) return
  if (value['usage'] === false && (value['query'] ?? false) === false)
    context.addIssue({
      code: 'custom',
      path: ['usage'],
      message: 'usage and query are both off: switch one on, or leave history out',
    })
  if (value['version'] === 'v1' && value['v1_until'] !== undefined)
    context.addIssue({
      code: 'custom',
      path: ['v1_until'],
      message: 'says when version v2 begins, and version is v1: set version: v2, or leave it out',
    })
}

export const history = () =>
  z
    .strictObject({
      version: z.enum(['v2', 'v1']).default('v2').describe('Version of the history API.'),
      v1_until: day()
        .optional()
        .describe(
          'With version v2: days before this UTC day are read as v1, days from it on as v2, so that a change of version loses and doubles none. Leave it there.',
        ),
      usage: z
        .boolean()
        .default(true)
        .describe('Read usage events: who did what, without any text. Source history.usage.'),
      query: z
        .boolean()
        .default(false)
        .describe(
          'Read query events with the full text of prompts and responses. Source history.query, which a sink gets only when it names it.',
        ),
      interval: interval().prefault('15m').describe('How often the open day is read again.'),
      start: start()
        .prefault('7d')
        .describe(
          'Where to begin when nothing was read yet: latest, a span back from now, or a time (UTC where it names no zone); earliest is a year back.',
        ),
      reread: duration()
        .prefault('3d')
        .describe(
          'The trailing span whose days are read again for events that come late or change; 0s turns it off.',
        ),
    })
    .superRefine(refuseContradictions, { when: () => true })

/** Read again after their keys are forgotten, events would count as new. Whole days are read again, so a day more is wanted. */
export function rereadFault(rereadMs: unknown, keepKeysMs: unknown): string | undefined {
  if (typeof rereadMs !== 'number' || typeof keepKeysMs !== 'number') return undefined
  if (rereadMs === 0 || rereadMs + DAY_MS <= keepKeysMs) return undefined
  return 'with the day that it begins in it is longer than journal.keep_keys: events read again would count as new and be sent twice; shorten it or lengthen keep_keys'
}
