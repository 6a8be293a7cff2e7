// The image of this checkout, and containers of it, through the engine's own command.
import { execFile } from 'node:child_process'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { promisify } from 'node:util'
import { setTimeout as sleep } from 'node:timers/promises'

export const TAG = 'auditferry:test'
/** What holds Node and npm; unset: the public image that the Dockerfile names. */
const base = process.env['AUDITFERRY_IMAGE_NODE']
const execute = promisify(execFile)

export interface Result {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

interface Failed extends Partial<Result> {
  readonly message: string
}

/** A program's end, with any exit code. */
export async function call(program: string, args: readonly string[]): Promise<Result> {
  try {
    const { stdout, stderr } = await execute(program, args, { maxBuffer: 256 * 1024 * 1024 })
    return { code: 0, stdout, stderr }
  } catch (error) {
    const { code, stdout = '', stderr, message } = error as Failed
    return { code: typeof code === 'number' ? code : -1, stdout, stderr: stderr ?? message }
  }
}

export const docker = (...args: string[]): Promise<Result> => call('docker', args)

/** Throws with its output when it fails. */
export async function ok(result: Promise<Result>): Promise<string> {
  const { code, stdout, stderr } = await result
  if (code !== 0) throw new Error(`exit ${code}: ${stdout}${stderr}`)
  return stdout.trim()
}

/** Why no image can be built here; undefined when it can. */
export async function imageImpossible(): Promise<string | undefined> {
  if ((await docker('version')).code !== 0) return 'no Docker engine answers'
  if (base === undefined && process.env['AUDITFERRY_IMAGE_PULL'] === 'never')
    return 'no image of Node is named by AUDITFERRY_IMAGE_NODE, and none is to be pulled'
  return undefined
}

export async function buildImage(tag = TAG): Promise<void> {
  const given = base === undefined ? [] : [`--build-arg=NODE_IMAGE=${base}`]
  const args = ['scripts/build-image.ts', '--network=host', `--tag=${tag}`, ...given]
  await ok(call(process.execPath, args))
}

export async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

/** As an operator hardens it: nothing of it may need more. */
export const hardened = [
  ...['--network=host', '--read-only', '--cap-drop=ALL', '--security-opt=no-new-privileges'],
  ...['--user=65532:65532', '--pids-limit=64', '--memory=512m'],
]

/** Looks until there is something; throws with the text of `reported` if that takes too long. */
export async function until<T>(
  what: string,
  withinMs: number,
  look: () => Promise<T | undefined>,
  reported: () => Promise<string> = () => Promise.resolve(''),
): Promise<T> {
  const deadline = Date.now() + withinMs
  for (;;) {
    const found = await look()
    if (found !== undefined) return found
    if (Date.now() > deadline) throw new Error(`${what}: not within ${withinMs} ms: ${await reported()}`)
    await sleep(100)
  }
}
