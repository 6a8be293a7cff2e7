// The programs that test the chart, as .ci/tools/helm.sh brings them; a missing one is reported loudly.
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

export const root = join(import.meta.dirname, '../..')
export const chart = join(root, 'helm/auditferry')
export const toolsFolder = process.env['AUDITFERRY_TOOLS'] ?? join(homedir(), '.cache/auditferry-tools')
const bin = join(toolsFolder, 'bin')

export const helms = ['helm3', 'helm4'] as const
export type Helm = (typeof helms)[number]

export const valueSets = readdirSync(join(chart, 'ci')).map((name) => join(chart, 'ci', name))

/** Undefined when all are there. */
export function toolsMissing(): string | undefined {
  const wanted = [...helms, 'untt', 'kubeconform', 'helm-docs'].filter((name) => !existsSync(join(bin, name)))
  if (!existsSync(join(toolsFolder, 'schemas'))) wanted.push('schemas')
  return wanted.length === 0
    ? undefined
    : `${wanted.join(', ')} not in ${toolsFolder}; .ci/tools/helm.sh brings them`
}

export interface Result {
  readonly code: number
  readonly reported: string
}

/** Its whole output, and how it ends. */
export function run(
  program: string,
  args: readonly string[],
  options: { cwd?: string; env?: object } = {},
): Result {
  const path = existsSync(join(bin, program)) ? join(bin, program) : program
  try {
    const env = { ...process.env, ...options.env }
    const reported = execFileSync(path, args, {
      cwd: options.cwd ?? root,
      encoding: 'utf8',
      stdio: 'pipe',
      env,
    })
    return { code: 0, reported }
  } catch (error) {
    const {
      status,
      stdout = '',
      stderr = '',
      message,
    } = error as {
      status?: number
      stdout?: string
      stderr?: string
      message: string
    }
    return { code: status ?? -1, reported: stdout + stderr || message }
  }
}

/** Throws with Helm's message. */
export function template(helm: Helm, args: readonly string[]): string {
  const { code, reported } = run(helm, ['template', 'release', chart, '--namespace', 'space', ...args])
  if (code !== 0) throw new Error(reported)
  return reported
}
