// The log: JSON lines of constant sentences with plain facts beside them. What is no plain fact does not get through.
import { pino } from 'pino'
import type { DestinationStream, Logger } from 'pino'
import { ConnectorError, thrownAt } from '../core/errors.ts'
import type { Log, LogFields } from '../core/log.ts'
import type { Secret } from '../core/secret.ts'
import { standardError } from '../platform/standard-streams.ts'
import { cutText } from './words.ts'

/** The longest of our own errors, with two paths in it, says what to do at its end. */
const MAX_TEXT = 2_000
/** What stands in place of a value that may not be told. */
const OMITTED = '[omitted]'
const reserved = new Set(['level', 'time', 'msg'])

export interface LogOptions {
  readonly level: 'debug' | 'info' | 'warn' | 'error'
  /** Standard error unless given. */
  readonly to?: DestinationStream | undefined
  /** Secrets that no string may contain, wherever it came from: asked for each line, since files are read again. */
  readonly secrets?: () => readonly Secret[]
}

const clip = (text: string): string => cutText(text, MAX_TEXT)

/**
 * A thrown thing as fields. Of our own errors the code and the message; of any other its name and where it was
 * thrown: its message may hold content, as that of JSON.parse does.
 * @internal for tests
 */
export function errorFields(error: unknown): LogFields {
  if (error instanceof ConnectorError) return { code: error.code, reason: error.message }
  if (!(error instanceof Error)) return { code: 'bug', error: typeof error }
  return { code: 'bug', error: error.constructor.name, thrownAt: thrownAt(error) }
}

type PlainFields = Readonly<Record<string, string | number | boolean | null>>

/** Types hold at compile time only: whatever slipped by them is stopped here. */
function plainFields(fields: unknown, mask: Mask): PlainFields {
  const plain: Record<string, PlainFields[string]> = {}
  if (fields === undefined || fields === null) return plain
  const source = fields instanceof Error ? errorFields(fields) : fields
  for (const [key, value] of Object.entries(source) as [string, unknown][]) {
    const name = reserved.has(key) ? `${key}_` : key
    // Masked before it is cut, lest the cut go through a secret and leave its head.
    if (typeof value === 'string') plain[name] = clip(mask(value))
    else if (typeof value === 'number') plain[name] = Number.isFinite(value) ? value : String(value)
    else if (typeof value === 'boolean' || value === null) plain[name] = value
    else if (value instanceof ConnectorError) plain[name] = clip(mask(`${value.code}: ${value.message}`))
    else if (value !== undefined) plain[name] = OMITTED
  }
  return plain
}

/** What is bound is kept here and not in a child of the library, which would write a key that is told again twice. */
function over(logger: Logger, mask: Mask, bound: PlainFields = {}): Log {
  const at = (level: LogOptions['level']) => (sentence: string, fields?: LogFields) => {
    if (!logger.isLevelEnabled(level)) return
    logger[level]({ ...bound, ...plainFields(fields, mask) }, clip(mask(sentence)))
  }
  return {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    with: (fields) => over(logger, mask, { ...bound, ...plainFields(fields, mask) }),
  }
}

export function openLog({ level, to, secrets }: LogOptions): Log {
  const logger = pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    to ?? standardError,
  )
  return over(logger, masker(secrets))
}

/** The last line of a process that an error ends. */
export const logEnd = (error: unknown, log = openLog({ level: 'error' })): void =>
  log.error('The daemon cannot continue and stops', errorFields(error))

// Words that others wrote, with every secret in them made unreadable: for the log, the status page, and whatever else is shown.

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
