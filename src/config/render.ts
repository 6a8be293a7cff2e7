// Renders the effective configuration as YAML. Secrets, denied values, and values from files or
// variables with other than harmless keys are masked.
import { stringify } from 'yaml'
import { Secret } from '../core/secret.ts'
import { isoFromUs } from '../core/time.ts'
import { durationPattern, durationUnitsMs, sizePattern, sizeUnitsBytes } from '../core/units.ts'
import { pathKey } from './document.ts'
import type { Path } from './faults.ts'
import { isRecord, namesFile } from './fields.ts'
import { configJsonSchema, type Config, type Shape } from './schema.ts'

type Units = readonly (readonly [unit: string, size: number])[]

// From the largest on; of sizes only the powers of 1024.
const spans: Units = Object.entries(durationUnitsMs).reverse()
const sizes: Units = Object.entries(sizeUnitsBytes)
  .filter(([unit]) => /^([KMGT]i)?B$/.test(unit))
  .reverse()

/** Uses the largest unit without a fraction: 90000 ms is `90s`. */
function inUnits(amount: number, units: Units, ofNothing: string): string {
  if (amount === 0) return `0${ofNothing}`
  const [unit = '', size = 1] = units.find(([, each]) => amount % each === 0) ?? []
  return `${amount / size}${unit}`
}

export const durationText = (ms: number): string => inUnits(ms, spans, 's')

function numberText(value: number, shape: Shape): number | string {
  const patterns = [shape, ...(shape.anyOf ?? [])].map(({ pattern }) => pattern)
  if (patterns.includes(durationPattern.source)) return inUnits(value, spans, 's')
  if (patterns.includes(sizePattern.source)) return inUnits(value, sizes, 'B')
  return value
}

/** Objects that are one scalar in the file: start and listen address. */
function scalarOf(value: Record<string, unknown>): string | undefined {
  const { kind, ms, atUs, host, port } = value
  if (kind === 'span' && typeof ms === 'number') return inUnits(ms, spans, 's')
  if (kind === 'time' && typeof atUs === 'number') return isoFromUs(atUs)
  if (typeof kind === 'string') return kind
  if (typeof host === 'string' && typeof port === 'number')
    return `${host.includes(':') ? `[${host}]` : host}:${port}`
  return undefined
}

const MASK = '***'

/** Keys are snake_case in the file; options may be camelCase. */
const written = (key: string): string => key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

/** The variant with the value's `type`. */
function variantOf(shape: Shape, value: Record<string, unknown>): Shape {
  const variants = shape.oneOf ?? shape.anyOf
  if (!variants) return shape
  const named = variants.find(({ properties }) => properties?.['type']?.const === value['type'])
  return named ?? variants.find(({ properties }) => properties !== undefined) ?? shape
}

/** Names and places, which operators need and which rarely contain a secret. */
const harmlessKeys = new Set([
  'name',
  'types',
  'base_url',
  'address',
  'endpoint',
  'sts_endpoint',
  'bucket',
  'region',
])

function isHarmless(path: Path, shape: Shape): boolean {
  const key = path.findLast((step) => typeof step === 'string')
  // A word from an enumeration.
  const isWord = [shape, ...(shape.anyOf ?? [])].some((one) => one.enum ?? 'const' in one)
  return isWord || harmlessKeys.has(String(key)) || namesFile(key)
}

class Shown {
  readonly #referenced: ReadonlySet<string>

  constructor(referenced: readonly Path[]) {
    this.#referenced = new Set(referenced.map(pathKey))
  }

  of(value: unknown, shape: Shape, path: Path): unknown {
    if (value instanceof Secret) return value.toString()
    if (typeof value === 'number') return numberText(value, shape)
    if (typeof value === 'string')
      return this.#referenced.has(pathKey(path)) && !isHarmless(path, shape) ? MASK : value
    if (Array.isArray(value)) return value.map((item, i) => this.of(item, shape.items ?? {}, [...path, i]))
    if (!isRecord(value)) return value
    const { properties } = variantOf(shape, value)
    if (!properties) {
      const scalar = scalarOf(value)
      if (scalar !== undefined) return scalar
    }
    const named = ['name', 'type'].filter((key) => key in value)
    const keys = [...new Set([...named, ...Object.keys(value)])].filter((key) => value[key] !== undefined)
    return Object.fromEntries(
      keys.map((key) => {
        const inner = properties?.[written(key)] ?? {}
        const shown =
          key === 'deny' ? counted(value[key]) : this.of(value[key], inner, [...path, written(key)])
        return [written(key), shown]
      }),
    )
  }
}

/** Denied values reveal content, so only their number is shown. */
function counted(deny: unknown): unknown {
  if (!isRecord(deny)) return deny
  const masked = (values: unknown) => (Array.isArray(values) ? values.map(() => MASK) : MASK)
  return Object.fromEntries(Object.entries(deny).map(([field, values]) => [field, masked(values)]))
}

/** YAML that `validate` accepts, except for masked values. */
export function configText({ referenced = [], journal, ...config }: Config): string {
  const { path, ...rest } = journal
  const shown = { journal: journal.postgres ? rest : { path, ...rest }, ...config }
  return stringify(new Shown(referenced).of(shown, configJsonSchema(), []), { lineWidth: 0 })
}
