// The log: JSON lines of constant messages with plain fields. Any other value is dropped.
import { pino } from 'pino'
import type { DestinationStream, Logger } from 'pino'
import { ConnectorError, thrownAt } from '../core/errors.ts'
import type { Log, LogFields } from '../core/log.ts'
import type { Secret } from '../core/secret.ts'
import { standardError } from '../platform/standard-streams.ts'
import { cutText } from './words.ts'

/** The longest of our own errors has two paths and ends with what to do. */
const MAX_TEXT = 2_000
/** Replaces a value that must not be logged. */
const OMITTED = '[omitted]'
const reserved = new Set(['level', 'time', 'msg'])

export interface LogOptions {
  readonly level: 'debug' | 'info' | 'warn' | 'error'
  /** Default: standard error. */
  readonly to?: DestinationStream | undefined
  /** Secrets that no string may contain: requested for each line, because files are read again. */
  readonly secrets?: () => readonly Secret[]
}

const clip = (text: string): string => cutText(text, MAX_TEXT)

/**
 * A thrown value as fields. Our own errors give code and message. Others give their name and where
 * they were thrown, because their message may contain content, as with JSON.parse.
 * @internal for tests
 */
export function errorFields(error: unknown): LogFields {
  if (error instanceof ConnectorError) return { code: error.code, reason: error.message }
  if (!(error instanceof Error)) return { code: 'bug', error: typeof error }
  return { code: 'bug', error: error.constructor.name, thrownAt: thrownAt(error) }
}

type PlainFields = Readonly<Record<string, string | number | boolean | null>>

/** Types hold only at compile time: this stops values that bypass them. */
function plainFields(fields: unknown, mask: Mask): PlainFields {
  const plain: Record<string, PlainFields[string]> = {}
  if (fields === undefined || fields === null) return plain
  const source = fields instanceof Error ? errorFields(fields) : fields
  for (const [key, value] of Object.entries(source) as [string, unknown][]) {
    const name = reserved.has(key) ? `${key}_` : key
    // Masked before it is cut, because a cut could split a secret and leave its beginning.
    if (typeof value === 'string') plain[name] = clip(mask(value))
    else if (typeof value === 'number') plain[name] = Number.isFinite(value) ? value : String(value)
    else if (typeof value === 'boolean' || value === null) plain[name] = value
    else if (value instanceof ConnectorError) plain[name] = clip(mask(`${value.code}: ${value.message}`))
    else if (value !== undefined) plain[name] = OMITTED
  }
  return plain
}

/** Fields are bound here, because a child logger of the library would write repeated keys twice. */
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

/** The last log line of a process that ends with an error. */
export const logEnd = (error: unknown, log = openLog({ level: 'error' })): void =>
  log.error('The daemon cannot continue and stops', errorFields(error))

// Masks every secret in texts of other programs: for the log, the status page, and other output.

const MASK = '***'
/** A shorter secret would match ordinary words by chance. */
const MIN_SECRET = 6

export type Mask = (text: string) => string

/** Secrets are requested each time, because files are read again. */
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
