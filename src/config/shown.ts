// The configuration that is in force, as an operator would write it: defaults filled in, units put back, every secret and every denied value `***`.
import { stringify } from 'yaml'
import { Secret } from '../model/secret.ts'
import { isoFromUs } from '../model/time.ts'
import { durationPattern, sizePattern } from '../model/units.ts'
import { isRecord } from './fields.ts'
import { configJsonSchema, type Config } from './schema.ts'

/** What is read of JSON Schema here. */
interface Shape {
  readonly pattern?: string
  readonly type?: string
  readonly const?: unknown
  readonly properties?: Readonly<Record<string, Shape>>
  readonly items?: Shape
  readonly oneOf?: readonly Shape[]
  readonly anyOf?: readonly Shape[]
}

type Units = readonly (readonly [unit: string, size: number])[]

const spans: Units = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1000],
  ['ms', 1],
]
const sizes: Units = [
  ['TiB', 2 ** 40],
  ['GiB', 2 ** 30],
  ['MiB', 2 ** 20],
  ['KiB', 2 ** 10],
  ['B', 1],
]

/** The largest unit that leaves no fraction: 90000 is `90s`. */
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

/** What was one scalar in the file and is an object here: where to start, where to listen. */
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

/** Keys are snake_case in a file, whatever a room made of them. */
const written = (key: string): string => key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

/** The kind, among several, that has the value's `type`. */
function variantOf(shape: Shape, value: Record<string, unknown>): Shape {
  const variants = shape.oneOf ?? shape.anyOf
  if (!variants) return shape
  const named = variants.find(({ properties }) => properties?.['type']?.const === value['type'])
  return named ?? variants.find(({ properties }) => properties !== undefined) ?? shape
}

function shown(value: unknown, shape: Shape): unknown {
  if (value instanceof Secret) return value.toString()
  if (typeof value === 'number') return numberText(value, shape)
  if (Array.isArray(value)) return value.map((item) => shown(item, shape.items ?? {}))
  if (!isRecord(value)) return value
  const { properties } = variantOf(shape, value)
  if (!properties) {
    const scalar = scalarOf(value)
    if (scalar !== undefined) return scalar
  }
  const named = ['name', 'type'].filter((key) => key in value)
  const keys = [...new Set([...named, ...Object.keys(value)])].filter((key) => value[key] !== undefined)
  const innerOf = (key: string) =>
    key === 'deny' ? counted(value[key]) : shown(value[key], properties?.[key] ?? {})
  return Object.fromEntries(keys.map((key) => [written(key), innerOf(key)]))
}

/** What a sink may not have says of what and of whom entries are: content, of which only the number is told. */
function counted(deny: unknown): unknown {
  if (!isRecord(deny)) return deny
  const masked = (values: unknown) => (Array.isArray(values) ? values.map(() => MASK) : MASK)
  return Object.fromEntries(Object.entries(deny).map(([field, values]) => [field, masked(values)]))
}

/** As YAML, which `validate` would take but for what is masked. */
export function configText(config: Config): string {
  return stringify(shown(config, configJsonSchema()), { lineWidth: 0 })
}
