// Resolves `${file:/path}`, `${env:NAME}` and `$$` after parsing: content never changes structure.
import { dirname, isAbsolute, join, resolve } from 'node:path'
import { errnoOf, readFaults } from '../core/errors.ts'

/** How references are resolved. `readFile` throws like node:fs. */
export interface References {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly readFile: (path: string) => string
  /** Reads the configuration itself; absent: like any file. */
  readonly readConfig?: (path: string) => string
  /** Base of relative paths; absent: the working directory. */
  readonly folder?: string
}

/** Base of relative paths: the folder of the file's path; for a pipe the working directory. */
export function folderOf(file: string): string {
  const folder = dirname(resolve(file))
  return /^\/(?:dev|proc)(?:\/|$)/.test(folder) ? process.cwd() : folder
}

export const pathFrom = (folder: string, path: string): string =>
  isAbsolute(path) ? path : join(folder, path)

/** The message names the reference, never a value. */
export class BrokenReference extends Error {}

/** The reason of a node:fs error. */
export function reasonOf(error: unknown): string {
  const code = errnoOf(error, '')
  return readFaults[code] ?? (code === '' ? 'it cannot be read' : `it cannot be read (${code})`)
}

/** Node replaces invalid UTF-8 by U+FFFD. */
const isInvalidUtf8 = (text: string): boolean => text.includes('\ufffd')

function readable(text: string): string {
  if (isInvalidUtf8(text)) throw Object.assign(new Error('NOT_UTF8'), { code: 'NOT_UTF8' })
  return text
}

function fileText(name: string, context: References): string {
  const path = pathFrom(context.folder ?? process.cwd(), name)
  try {
    // Editors and `echo` add a newline; no secret ends with one.
    return readable(context.readFile(path).replace(/[\r\n]+$/, ''))
  } catch (error) {
    const where = path === name ? '' : ` (it is looked for at ${path})`
    throw new BrokenReference(`\${file:${name}} cannot be resolved: ${reasonOf(error)}${where}`, {
      cause: error,
    })
  }
}

function variable(name: string, context: References): string {
  const value = Object.hasOwn(context.env, name) ? context.env[name] : undefined
  if (value === undefined) throw new BrokenReference(`\${env:${name}} cannot be resolved: it is not set`)
  if (isInvalidUtf8(value)) throw new BrokenReference(`\${env:${name}} cannot be resolved: it is not UTF-8`)
  return value
}

// `$$`, a complete reference, or an invalid one: not closed, or without braces.
const pieces = /\$\$|\$\{(file|env):([^}]*)\}|\$\{|^\$(?:file|env):/g
const variableName = /^[A-Za-z_][A-Za-z0-9_]*$/

/** True for anything written as a reference, even an unresolvable one. */
export const isReference = (text: unknown): boolean =>
  typeof text === 'string' && [...text.matchAll(pieces)].some(([whole]) => whole !== '$$')

/** The referenced files, in order. */
export function filesIn(text: string): readonly string[] {
  return [...text.matchAll(pieces)].flatMap(([, kind, name]) => (kind === 'file' && name ? [name] : []))
}

/** Throws BrokenReference. References inside resolved values are not resolved. */
export function resolveText(text: string, context: References): string {
  return text.replace(pieces, (whole: string, kind: string | undefined, name: string | undefined) => {
    if (whole === '$$') return '$'
    if (kind === 'file' && name) return fileText(name, context)
    if (kind === 'env' && name !== undefined && variableName.test(name)) return variable(name, context)
    // The text may be a secret with a dollar sign, so it is not shown.
    throw new BrokenReference(
      'not a valid reference. For the content of a file write ${file:/path}, for an environment variable ${env:NAME}, for the character $ write $$',
    )
  })
}
