// Loads and checks a configuration file, or returns all of its faults at once.
import type { z } from 'zod'
import { errnoOf } from '../core/errors.ts'
import { Secret } from '../core/secret.ts'
import { pathKey, readDocument, type ConfigDocument } from './document.ts'
import { check, explain } from './explain.ts'
import { ConfigFaults, fileFault, under, type Fault, type Path } from './faults.ts'
import { isRecord, namesFile } from './fields.ts'
import {
  BrokenReference,
  filesIn,
  folderOf,
  pathFrom,
  reasonOf,
  type References,
  resolveText,
} from './references.ts'
import type { Config } from './schema.ts'

/** A scalar with references: as written, and resolved. */
export interface Reference {
  readonly path: Path
  readonly text: string
  readonly resolved: string
  /** absolute paths of the files that it names */
  readonly files: readonly string[]
}

/** A configuration with the positions of its keys, for further checks. */
export interface LoadedConfig {
  readonly file: string
  /** the file's text */
  readonly text: string
  readonly config: Config
  readonly document: ConfigDocument
  readonly references: readonly Reference[]
}

interface Resolving {
  readonly context: References & { readonly folder: string }
  readonly references: Reference[]
  readonly broken: { readonly path: Path; readonly message: string }[]
}

function resolveAll(value: unknown, path: Path, resolving: Resolving): unknown {
  if (typeof value === 'string') {
    const text = resolveScalar(value, path, resolving)
    return text !== '' && namesFile(path.at(-1)) ? pathFrom(resolving.context.folder, text) : text
  }
  if (Array.isArray(value)) return value.map((item, index) => resolveAll(item, [...path, index], resolving))
  if (typeof value !== 'object' || value === null) return value
  const map = Object.create(null) as Record<string, unknown>
  for (const [key, inner] of Object.entries(value)) map[key] = resolveAll(inner, [...path, key], resolving)
  return map
}

function resolveScalar(text: string, path: Path, { context, references, broken }: Resolving): string {
  if (text.includes('\0')) {
    broken.push({
      path,
      message: 'contains a NUL character, which no path, name or secret can have: remove it',
    })
    // Continue without it, so that no file with such a name is looked up.
    return text.replaceAll('\0', '')
  }
  if (!text.includes('$')) return text
  try {
    const resolved = resolveText(text, context)
    if (resolved !== text) {
      const files = filesIn(text).map((name) => pathFrom(context.folder, name))
      references.push({ path, text, resolved, files })
    }
    return resolved
  } catch (error) {
    if (!(error instanceof BrokenReference)) throw error
    broken.push({ path, message: error.message })
    return text
  }
}

/** In containers the environment sets the listener and its host names, whatever the file says. */
function withListener(value: unknown, { env }: References): unknown {
  const listen = env['AUDITFERRY_LISTEN']
  const hosts = (env['AUDITFERRY_ALLOWED_HOSTS'] ?? '').split(',').filter((name) => name.trim() !== '')
  if ((!listen && hosts.length === 0) || !isRecord(value)) return value
  const server = value['server'] ?? {}
  if (!isRecord(server)) return value
  const { allowed_hosts: own = [] } = server
  return {
    ...value,
    server: {
      ...server,
      ...(listen && server['listen'] === undefined && { listen }),
      ...(hosts.length > 0 &&
        Array.isArray(own) && {
          allowed_hosts: [...(own as unknown[]), ...hosts.map((name) => name.trim())],
        }),
    },
  }
}

/** The number or boolean that a text represents where the schema expects one; else undefined. */
function converted(text: string, issue: z.core.$ZodIssue): unknown {
  if (issue.code === 'invalid_union')
    return issue.errors
      .flat()
      .map((inner) => (inner.path.length === 0 ? converted(text, inner) : undefined))
      .find((value) => value !== undefined)
  if (issue.code === 'invalid_value')
    return issue.values.find((value) => typeof value !== 'string' && String(value) === text)
  if (issue.code !== 'invalid_type') return undefined
  const isNumber = issue.expected === 'number' || issue.expected === 'int'
  if (isNumber && /^-?\d+(\.\d+)?$/.test(text)) return Number(text)
  return issue.expected === 'boolean' && (text === 'true' || text === 'false') ? text === 'true' : undefined
}

/**
 * Values from a variable or file are texts: converts them where the schema expects a number or
 * boolean. True if something changed, so that the check must be repeated.
 */
function convertTexts(value: unknown, issues: readonly z.core.$ZodIssue[], references: readonly Reference[]) {
  const referenced = new Set(references.map(({ path }) => pathKey(path)))
  let changed = false
  for (const issue of issues) {
    const text = under(value, issue.path)
    const last = issue.path.at(-1)
    if (typeof text !== 'string' || last === undefined || !referenced.has(pathKey(issue.path))) continue
    const found = converted(text, issue)
    if (found === undefined) continue
    const parent = under(value, issue.path.slice(0, -1)) as Record<PropertyKey, unknown>
    parent[last] = found
    changed = true
  }
  return changed
}

/** Secrets from references keep the reference, so that they can be read again. */
function followSecrets(config: Config, references: readonly Reference[], context: References): void {
  for (const { path, text, files } of references) {
    const value = under(config, path)
    if (!(value instanceof Secret)) continue
    value.follow(() => resolveText(text, context), text, files.length > 0 ? 'file' : 'environment', files[0])
  }
}

/** References outside secrets: a changed secret does not make another configuration. */
export const plainReferences = ({ config, references }: LoadedConfig): readonly Reference[] =>
  references.filter(({ path }) => !(under(config, path) instanceof Secret))

function textOf(file: string, context: References): string | Fault {
  try {
    return (context.readConfig ?? context.readFile)(file)
  } catch (error) {
    const begin = errnoOf(error) === 'ENOENT' ? ', or begin with what auditferry init prints' : ''
    const why = `${reasonOf(error)}; name another with --config${begin}`
    return fileFault(file, `the configuration cannot be read: ${why}`)
  }
}

interface Examined {
  readonly faults: readonly Fault[]
  /** Present if the file could be parsed: for further checks, not to run with. */
  readonly loaded: LoadedConfig | undefined
}

/** All faults of a file at once. Does not throw. */
export function examineConfig(file: string, given: References): Examined {
  const context = { ...given, folder: folderOf(file) }
  const text = textOf(file, context)
  if (typeof text !== 'string') return { faults: [text], loaded: undefined }
  const document = readDocument(file, text)
  if (document.value === undefined || document.value === null)
    return { faults: document.faults.length > 0 ? document.faults : [emptyFault(file)], loaded: undefined }
  const resolving: Resolving = { context, references: [], broken: [] }
  const value = withListener(resolveAll(document.value, [], resolving), context)
  const { references, broken } = resolving
  let result = check(value)
  if (!result.success && convertTexts(value, result.error.issues, references)) result = check(value)
  const faults: Fault[] = [
    ...document.faults,
    ...[...broken, ...postgresFaults(document)].map(({ path, message }) => ({
      ...{ file, ...document.valueAt(path), path, message },
    })),
  ]
  if (result.success) {
    followSecrets(result.data, references, context)
    const config: Config =
      references.length === 0
        ? result.data
        : { ...result.data, referenced: references.map(({ path }) => path) }
    return { faults, loaded: { file, text, config, document, references } }
  }
  // A value that could not be resolved is reported once; schema errors about it are consequences.
  const reported = new Set(faults.map(({ path }) => pathKey(path)))
  const more = explain(result.error, document, value, file)
  return {
    faults: [...faults, ...more.filter(({ path }) => !reported.has(pathKey(path)))],
    loaded: undefined,
  }
}

const emptyFault = (file: string) =>
  fileFault(file, 'the file is empty: expected workspaces and sinks at least')

/** Throws ConfigFaults with all faults at once. */
export function loadConfig(file: string, context: References): Config {
  const { faults, loaded } = examineConfig(file, context)
  if (!loaded || faults.length > 0) throw new ConfigFaults(faults)
  return loaded.config
}

// What cannot be set beside `journal.postgres`. Checked in the text of the file: the parsed values
// no longer show whether a key was set, or which variable a path came from.

const POSTGRES: Path = ['journal', 'postgres']

const PLACES: Readonly<Record<string, string>> = {
  stdout:
    'cannot be used with journal.postgres: the entries would be spread over the outputs of the replicas; use a sink that all replicas reach over the network',
  file: 'cannot be used with journal.postgres: each replica needs a file of its own. Name the replica in its path, such as /var/lib/auditferry/${env:HOSTNAME}.ndjson, or use a sink that all replicas reach over the network',
}

/** A file of each replica, by a variable of its environment. */
const namesReplica = (path: unknown): boolean => typeof path === 'string' && path.includes('${env:')

function postgresFaults(document: ConfigDocument): { path: Path; message: string }[] {
  if (!document.has(POSTGRES)) return []
  const at: Path = ['journal', 'path']
  const message =
    'cannot be set together with journal.postgres, which keeps the journal in a database: remove one of them'
  const faults = document.has(at) ? [{ path: at, message }] : []
  const sinks = under(document.value, ['sinks'])
  if (!Array.isArray(sinks)) return faults
  for (const [index, sink] of (sinks as unknown[]).entries()) {
    if (!isRecord(sink)) continue
    const refused = PLACES[String(sink['type'])]
    if (refused === undefined || (sink['type'] === 'file' && namesReplica(sink['path']))) continue
    faults.push({ path: ['sinks', index, sink['type'] === 'file' ? 'path' : 'type'], message: refused })
  }
  return faults
}
