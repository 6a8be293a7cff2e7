// Builds the request of `auditferry api` from its arguments, or lists all errors in them.
import { accessSync, constants, createReadStream, readFileSync, statSync } from 'node:fs'
import { basename } from 'node:path'
import type { Random } from '../../core/clock.ts'
import { errnoOf } from '../../core/errors.ts'
import { printableName } from '../../core/printable.ts'
import { assistantLimits } from '../../sources/assistant/assistant.ts'
import type { Ask } from '../../sources/http/client.ts'
import { formOf } from '../../sources/http/form.ts'
import type { FormPart } from '../../sources/http/form.ts'
import type { CommandContext } from '../shared/context.ts'
import type { Operation, Parameter } from './operations.ts'

export interface Given {
  /** each `name=value` */
  readonly param: readonly string[]
  /** `@file` or `-` */
  readonly body?: string | undefined
  readonly path?: string | undefined
}

export interface Request {
  readonly faults: readonly string[]
  /** the request as text; values appear only in the path */
  readonly preview: string
  ask(random: Random, stdin: CommandContext['stdin']): Promise<Ask>
}

/** `--body` with a file. */
const FILE_BODY = /^@(.+)$/

export function requestOf(operation: Operation, given: Given): Request {
  const path = given.path ?? operation.path
  const ids = new Set([...path.matchAll(/\{(\w+)\}/g)].map(([, id = '']) => id))
  const { values, faults } = valuesOf(operation, given)
  const needed = Object.entries(operation.parameters).flatMap(([name, { required }]) =>
    required ? [name] : [],
  )
  // With a path or a body of the user's own, the documented parameters are not required.
  for (const name of given.path === undefined && given.body === undefined ? needed : ids)
    if (!values.has(name))
      faults.push(`--param ${name} is missing: ${typeText(operation.parameters[name] ?? anyText)}`)
  for (const id of ids)
    if (/^\.{0,2}$/.test(values.get(id)?.[0] ?? 'absent')) faults.push(`--param ${id}: expected an id`)
  if (given.path !== undefined) faults.push(...pathFaults(operation, given.path))
  const hasForm = operation.method === 'POST'
  const fields = [...values].filter(([name]) => !ids.has(name))
  if (given.body !== undefined) faults.push(...bodyFaults(operation, given.body, fields))
  const filled = path.replace(/\{(\w+)\}/g, (_, id: string) => encodeURIComponent(values.get(id)?.[0] ?? ''))
  const common = {
    ...{ method: operation.method, asIs: true, accept: ['*/*'] },
    ...(operation.area === 'assistant' && { limits: assistantLimits }),
  }
  const carried =
    given.body !== undefined ? 'a JSON body' : hasForm && fields.map(([name]) => name).join(', ')
  return {
    faults,
    preview: `${operation.method} ${filled}${carried ? ` with ${carried}` : ''}`,
    async ask(random, stdin) {
      if (!hasForm) return { ...common, path: filled + queryOf(filled, fields) }
      if (given.body === undefined)
        return { ...common, path: filled, ...formOf(partsOf(fields, operation), random) }
      const body = await bodyOf(given.body, stdin)
      return { ...common, path: filled, body, headers: { 'content-type': 'application/json' } }
    },
  }
}

/** With a path of the user's own, the parameters are unknown. */
const anyText: Parameter = { type: 'text', repeated: true }

function valuesOf({ name: operation, parameters }: Operation, { param: params, path }: Given) {
  const faults: string[] = []
  const values = new Map<string, readonly string[]>()
  const faultOf = (name: string, value: string): string | undefined => {
    const own = path === undefined ? undefined : anyText
    const parameter = Object.hasOwn(parameters, name) ? parameters[name] : own
    const names = Object.keys(parameters).join(', ') || 'no parameters'
    if (!parameter) return `--param ${printableName(name)}: ${operation} takes ${names}`
    if (values.has(name) && !parameter.repeated) return `--param ${name} is given more than once`
    return valueFault(name, value, parameter)
  }
  for (const param of params) {
    const [, name = '', value = ''] = /^([^=]+)=([^]*)$/.exec(param) ?? []
    const fault = name === '' ? `--param ${printableName(param)}: expected name=value` : faultOf(name, value)
    if (fault !== undefined) faults.push(fault)
    if (name !== '') values.set(name, [...(values.get(name) ?? []), value])
  }
  return { values, faults }
}

function valueFault(name: string, value: string, parameter: Parameter): string | undefined {
  const { type, least = -Infinity, most = Infinity } = parameter
  if (type === 'file') return fileFault(`--param ${name}`, value)
  const isFit =
    type === 'text' ||
    (type === 'boolean' && /^(true|false)$/.test(value)) ||
    (type === 'integer' && /^\d{1,15}$/.test(value) && Number(value) >= least && Number(value) <= most) ||
    (typeof type === 'object' && type.includes(value))
  return isFit ? undefined : `--param ${name}: expected ${typeText(parameter)}`
}

function fileFault(option: string, path: string): string | undefined {
  try {
    accessSync(path, constants.R_OK)
    return statSync(path).isFile() ? undefined : `${option}: ${printableName(path)} is not a file`
  } catch (error) {
    return `${option}: cannot read ${printableName(path)} (${errnoOf(error, 'unknown error')})`
  }
}

/** For error messages and the list of operations. */
export function typeText({ type, least = 0, most = Infinity, note }: Parameter): string {
  if (typeof type === 'object') return `one of ${type.join(', ')}`
  const range = most === Infinity ? `of at least ${least}` : `from ${least} to ${most}`
  const words = { text: 'text', boolean: 'true or false', file: 'the path of a file' }
  const kind = type === 'integer' ? `a whole number${note === undefined ? ` ${range}` : ''}` : words[type]
  return note === undefined ? kind : `${kind} (${note})`
}

function pathFaults({ name, assumed }: Operation, path: string): readonly string[] {
  if (!assumed) return [`--path: the specification names the path of ${name}`]
  return /^\/(?!\/)[\x21-\x7e]*$/.test(path) && !/[\\#]/.test(path)
    ? []
    : ['--path: expected a path that begins with one slash, percent-encoded']
}

function bodyFaults(
  { name, json }: Operation,
  body: string,
  fields: readonly (readonly [string, unknown])[],
): readonly string[] {
  if (!json) return [`--body: ${name} takes none`]
  const [, path] = FILE_BODY.exec(body) ?? []
  const fault = path === undefined ? undefined : fileFault('--body', path)
  return [
    ...(path === undefined && body !== '-' ? ['--body: expected @file, or - for standard input'] : []),
    ...(fault === undefined ? [] : [fault]),
    ...fields.map(([field]) => `--param ${field}: put it into the body, or leave --body out`),
  ]
}

function queryOf(path: string, fields: Iterable<readonly [string, readonly string[]]>): string {
  const query = new URLSearchParams()
  for (const [name, values] of fields) for (const value of values) query.append(name, value)
  return query.size === 0 ? '' : `${path.includes('?') ? '&' : '?'}${query.toString()}`
}

function partsOf(
  fields: readonly (readonly [string, readonly string[]])[],
  { parameters }: Operation,
): readonly FormPart[] {
  return fields.flatMap(([name, values]) =>
    values.map((value) => ({ name, value: parameters[name]?.type === 'file' ? fileOf(value) : value })),
  )
}

const fileOf = (path: string) => ({
  name: basename(path),
  bytes: statSync(path).size,
  open: () => createReadStream(path),
})

async function bodyOf(body: string, stdin: CommandContext['stdin']): Promise<Uint8Array> {
  const [, path] = FILE_BODY.exec(body) ?? []
  if (path !== undefined) return readFileSync(path)
  const pieces: Uint8Array[] = []
  for await (const piece of stdin?.() ?? []) pieces.push(piece)
  return Buffer.concat(pieces)
}
