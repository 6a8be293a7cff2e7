// Turns schema errors into messages for an operator: position, fault and remedy, without any value.
import type { z } from 'zod'
import { durationPattern, sizePattern } from '../core/units.ts'
import type { ConfigDocument } from './document.ts'
import { isShowable, under } from './faults.ts'
import type { Fault, Path } from './faults.ts'
import { isRecord } from './fields.ts'
import { configJsonSchema, configSchema, variantOf } from './schema.ts'
import type { Shape } from './schema.ts'

/** The part of the JSON Schema under `path`. The value's `type` selects among several kinds. */
function shapeAt(schema: Shape, value: unknown, path: Path): Shape | undefined {
  const [step, ...rest] = path
  if (schema.oneOf) {
    const kind = variantOf(schema, under(value, ['type']))
    return kind && shapeAt(kind, value, path)
  }
  if (step === undefined) return schema
  const part = typeof step === 'number' ? schema.items : schema.properties?.[String(step)]
  return part && shapeAt(part, under(value, [step]), rest)
}

function kindOf(value: unknown): string {
  if (value === null || value === undefined) return 'nothing'
  if (Array.isArray(value)) return 'a list'
  if (typeof value === 'object') return 'a mapping'
  if (typeof value === 'number') return Number.isInteger(value) ? 'a number' : 'a fraction'
  return typeof value === 'string' ? 'a text' : 'true or false'
}

const wanted: Readonly<Record<string, string>> = {
  string: 'a text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  object: 'a mapping of keys',
  record: 'a mapping of keys',
  array: 'a list',
}

function oneOf(words: readonly unknown[], given: unknown): string {
  const list = `expected ${words.length > 1 ? 'one of ' : ''}${words.map(String).join(', ')}`
  if (typeof given !== 'string') return list
  if (announcedFormats.includes(given)) return `${given} is not in this version yet: ${list}`
  if (words.some((word) => typeof word !== 'string' && String(word) === given))
    return `${list}, without quotes around it`
  const suggestion = nearest(given, words.map(String))
  return suggestion === undefined ? list : `did you mean ${suggestion}? ${list}`
}

const bound = (issue: { readonly origin: string }, amount: string): string =>
  issue.origin === 'array'
    ? `${amount} item${amount === '1' ? '' : 's'}`
    : issue.origin === 'string'
      ? `${amount} characters`
      : amount

/** zod calls this for each message that the schema itself does not define. */
function messageFor(issue: z.core.$ZodRawIssue): string {
  switch (issue.code) {
    case 'invalid_type':
      return `expected ${wanted[issue.expected] ?? issue.expected}, got ${kindOf(issue.input)}`
    case 'invalid_value':
      return oneOf(issue.values, issue.input)
    case 'invalid_union': {
      const options = issue['options'] as unknown[] | undefined
      const given = isRecord(issue.input) ? issue.input[String(issue['discriminator'])] : undefined
      return options ? oneOf(options, given) : 'has a type that is not allowed here'
    }
    case 'too_small':
      return issue.origin === 'string'
        ? 'may not be empty'
        : `expected at least ${bound(issue, String(issue.minimum))}`
    case 'too_big':
      return `expected at most ${bound(issue, String(issue.maximum))}`
    default:
      return 'is not valid'
  }
}

/** Validates `value` with messages from the schema or from `messageFor`. */
export function check(value: unknown) {
  return configSchema.safeParse(value, { error: messageFor })
}

/** Path of the key in a nested mapping, if exactly one has it. */
function placeBelow(key: string, { properties = {} }: Shape): string | undefined {
  const inner = Object.entries(properties)
  const places = inner.filter(([, part]) => Object.hasOwn(part.properties ?? {}, key))
  const [place, another] = places
  return place && !another ? `${place[0]}.${key}` : undefined
}

/** Keys that were renamed in version 2 of the configuration, by path. */
const renamed: ReadonlyMap<string, string> = new Map([
  ['journal.keep_keys', 'dedup_retention'],
  ['journal.keep_settled', 'keep_delivered'],
  ['workspaces.audit.sweep', 'lookback'],
  ['workspaces.history.reread', 'lookback'],
])

/** What other programs call the parts of `address`. */
const ADDRESS_PARTS: ReadonlySet<string> = new Set(['host', 'port', 'protocol', 'server'])

function unknownKey(key: string, at: Path, schema: Shape): string {
  const name = renamed.get([...at.filter((step) => typeof step === 'string'), key].join('.'))
  if (name !== undefined) return `was renamed: write ${name} instead`
  const known = Object.keys(schema.properties ?? {})
  if (key === '<<')
    return 'is a merge key, which is not read: write its keys out, or take a whole value over by an alias'
  if (ADDRESS_PARTS.has(key) && known.includes('address'))
    return 'unknown key. Write protocol, host and port as one key, such as address: tcp://10.0.0.1:514'
  if (!isShowable(key)) return 'unknown key: a space after a colon may be missing'
  const suggestion = placeBelow(key, schema) ?? nearest(key, known)
  if (suggestion !== undefined) return `unknown key: did you mean ${suggestion}?`
  return `unknown key: expected ${known.length > 0 ? `one of ${known.join(', ')}` : 'no keys here'}`
}

function missing(issue: z.core.$ZodIssue, { description }: Shape): string {
  if (description !== undefined) return `is missing. ${description}`
  return issue.code === 'invalid_type'
    ? `is missing: expected ${wanted[issue.expected] ?? 'it'}`
    : `is missing: ${issue.message}`
}

/** Better messages for a number without a unit and for a key without a value. */
function wrongType(issue: z.core.$ZodIssue, schema: Shape, input: unknown): string {
  if (typeof input === 'number' && schema.pattern === durationPattern.source)
    return `expected a duration with its unit, such as ${input === 0 ? '0s' : '30s, 5m, 24h or 35d'}`
  if (typeof input === 'number' && schema.pattern === sizePattern.source)
    return `expected a size with its unit, such as ${input === 0 ? '0B' : '512KiB, 1MiB or 2GiB'}`
  if (input === null && schema.type === 'object')
    return 'is empty: use {} for its defaults, or remove the key'
  return issue.message
}

export function explain(error: z.ZodError, document: ConfigDocument, value: unknown, file: string): Fault[] {
  const json = configJsonSchema()
  return error.issues.flatMap((issue): Fault[] => {
    const { path } = issue
    const schema = shapeAt(json, value, path) ?? {}
    if (issue.code === 'unrecognized_keys')
      return issue.keys.map((key) => {
        const keyPath = [...path, key]
        return { file, ...document.keyAt(keyPath), path: keyPath, message: unknownKey(key, path, schema) }
      })
    const input = under(value, path)
    const absent = input === undefined && path.length > 0 && !document.has(path)
    const message =
      absent && (issue.code === 'invalid_type' || issue.code === 'invalid_union')
        ? missing(issue, schema)
        : issue.code === 'invalid_type'
          ? wrongType(issue, schema, input)
          : issue.message
    return [{ file, ...document.valueAt(path), path, message }]
  })
}

// Announced features that this version lacks, reported as such.

/** Formats that an operator may expect. */
const announcedFormats: readonly string[] = ['ecs', 'ocsf']

// Suggestions for misspelled words.

/** Edit distance: insertions, removals, replacements and swaps of neighbours. */
function distance(a: string, b: string): number {
  const rows = [Array.from({ length: b.length + 1 }, (_, j) => j)]
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1
      let least = Math.min(
        (rows[i - 1]?.[j] ?? 0) + 1,
        (row[j - 1] ?? 0) + 1,
        (rows[i - 1]?.[j - 1] ?? 0) + same,
      )
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        least = Math.min(least, (rows[i - 2]?.[j - 2] ?? 0) + 1)
      row.push(least)
    }
    rows.push(row)
  }
  return rows[a.length]?.[b.length] ?? 0
}

const plain = (text: string): string => text.toLowerCase().replaceAll(/[-_]/g, '')

/** Ignores hyphens, case and underscores; a common prefix counts as one step. */
function nameDistance(word: string, known: string): number {
  const steps = distance(word, known)
  const isBeginning =
    Math.min(word.length, known.length) >= 3 && (word.startsWith(known) || known.startsWith(word))
  return isBeginning ? Math.min(steps, 1) : steps
}

/** The most similar of `words`, if it is similar enough. */
export function nearest(word: string, words: readonly string[]): string | undefined {
  const wanted = plain(word)
  const ranked = words
    .map((known) => ({ known, far: nameDistance(wanted, plain(known)) }))
    .sort((a, b) => a.far - b.far)
  const best = ranked[0]
  return best && best.far <= Math.max(1, Math.floor(wanted.length / 3)) ? best.known : undefined
}
