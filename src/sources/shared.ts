// Options of all sources, and their cursors as stored.
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
  /** read everything available now, due or not, then stop */
  readonly once: boolean
  readonly maxEntryBytes: number
  readonly maxDepth: number
}

// How far in the future an entry's own time may be before it is ignored as a position.

/** Clocks differ, and entries are dated in the future by mistake. */
const FUTURE_MS = 600_000

/** Entries dated after this instant (µs) are delivered, but do not move the head. */
export const mayLeadUs = (nowMs: number): number => 1000 * (nowMs + FUTURE_MS)

// An empty page chunk, with the given fields replaced.

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

// Where reading begins in a new journal.
export type Start =
  | { readonly kind: 'earliest' }
  | { readonly kind: 'latest' }
  | { readonly kind: 'span'; readonly ms: number }
  | { readonly kind: 'time'; readonly atUs: number }

// Opens what a source stores between two reads: one JSON value of version 1, validated. Pure.

export type Fields = Readonly<Record<string, unknown>>

interface Stored<T> extends Stream {
  /** Whether all fields that the readers use are valid; called for version 1 only. */
  readonly isWhole: (fields: Fields) => fields is Fields & T
  /** Converts the format of an earlier build. */
  readonly upgrade?: (fields: Fields) => Fields
}

/**
 * A copy that a step may change. Throws ConnectorError `journal_corrupt` if it is damaged or not of
 * version 1. No message quotes it.
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
      'start the version of Auditferry that wrote it, or restore the journal from a backup; with a new journal this source is read from its start again',
  )
}

/** Undefined if it is no JSON object: the parser's own message would quote it. */
export function storedFields(text: string): Fields | undefined {
  try {
    return fieldsOf(JSON.parse(text))
  } catch {
    return undefined
  }
}

export const fieldsOf = (value: unknown): Fields | undefined =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : undefined

/** Whether all of these fields are finite numbers. */
export function areNumbers(value: unknown, ...names: readonly string[]): boolean {
  const fields = fieldsOf(value)
  return fields !== undefined && names.every((name) => Number.isFinite(fields[name]))
}

export const isNullOr = (value: unknown, check: (value: unknown) => boolean): boolean =>
  value === null || check(value)

export const isListOf = (value: unknown, check: (value: unknown) => boolean): boolean =>
  Array.isArray(value) && value.every((item) => check(item))

export const isText = (value: unknown): boolean => typeof value === 'string'
