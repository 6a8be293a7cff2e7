// What every source of the API is opened with.
import { Entries } from '../contracts/entries.ts'
import type { StreamReporter } from '../contracts/reporter.ts'
import type { Cursor, Stream, PageChunk } from '../contracts/source.ts'
import type { Clock } from '../core/clock.ts'
import { ConnectorError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import type { Client } from './http/client.ts'

export interface SourceOptions {
  readonly stream: Stream
  readonly client: Client
  readonly clock: Clock
  readonly reporter: StreamReporter
  readonly log: Log
  /** read what is there now, whatever is due, and be done */
  readonly once: boolean
  readonly maxEntryBytes: number
  readonly maxDepth: number
}

// How far in the future an entry's own time may lie for reading to go by it.

/** Clocks differ, and entries are dated in the future by mistake. */
const FUTURE_MS = 600_000

/** What is dated after this instant (µs) is shipped, but may not lead the way. `nowMs`: by the clock that is believed, epoch ms. */
export const mayLeadUs = (nowMs: number): number => 1000 * (nowMs + FUTURE_MS)

// A part with nothing in it but what is said: every source begins its own from here.

export function partOf(more: Partial<PageChunk>): PageChunk {
  return {
    entries: Entries.none,
    quarantined: [],
    findings: [],
    headUs: undefined,
    cursor: undefined,
    gaps: 0,
    fault: undefined,
    ...more,
  }
}

// Where reading begins in a journal that knows nothing yet.
export type Start =
  | { readonly kind: 'earliest' }
  | { readonly kind: 'latest' }
  | { readonly kind: 'span'; readonly ms: number }
  | { readonly kind: 'time'; readonly atUs: number }

// Opening what a source keeps between two reads: one JSON value of version 1, held against its shape before anything trusts it. Pure.

export type Fields = Readonly<Record<string, unknown>>

interface Stored<T> extends Stream {
  /** Is all there that the readers rely on? Asked of version 1 only. */
  readonly isWhole: (fields: Fields) => fields is Fields & T
  /** Brings what an earlier build stored into today's shape. */
  readonly upgrade?: (fields: Fields) => Fields
}

/**
 * A copy that a step may change freely. Throws ConnectorError `journal_corrupt` where it is
 * damaged or not of version 1. No message quotes it.
 */
export function openStored<T>(text: Cursor, { workspace, source, isWhole, upgrade }: Stored<T>): T {
  const stored = storedFields(text)
  const fields = stored && upgrade ? upgrade(stored) : stored
  const version = fields?.['v']
  if (fields && version === 1 && isWhole(fields)) return fields
  const state =
    typeof version === 'number' && version !== 1
      ? `of version ${version}, and only version 1 can be read here`
      : 'damaged'
  throw new ConnectorError(
    'journal_corrupt',
    `The journal's cursor for ${source} of workspace ${workspace} is ${state}: ` +
      'start the version of this program that wrote it, or put the journal back from a copy made before; a new journal reads this source from its start again',
  )
}

/** Undefined where it is no JSON object: the parser's own message would quote it. */
export function storedFields(text: string): Fields | undefined {
  try {
    return fieldsOf(JSON.parse(text))
  } catch {
    return undefined
  }
}

export const fieldsOf = (value: unknown): Fields | undefined =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : undefined

/** Are they all numbers, each of them finite? */
export function areNumbers(value: unknown, ...names: readonly string[]): boolean {
  const fields = fieldsOf(value)
  return fields !== undefined && names.every((name) => Number.isFinite(fields[name]))
}

export const isNullOr = (value: unknown, check: (value: unknown) => boolean): boolean =>
  value === null || check(value)

export const isListOf = (value: unknown, check: (value: unknown) => boolean): boolean =>
  Array.isArray(value) && value.every((item) => check(item))

export const isText = (value: unknown): boolean => typeof value === 'string'
