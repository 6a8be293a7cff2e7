#!/usr/bin/env node
// The program: looks at the Node version, then hands arguments, environment, signals and exit code over. Nothing else touches process.
import type { World } from './commands/world.ts'

const needed = [22, 19] as const

/** Nothing is imported before this is asked, and nothing here is newer than what old versions can parse. */
function isOldNode(): boolean {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  return major < needed[0] || (major === needed[0] && minor < needed[1])
}

function stopSignal(): AbortSignal {
  const controller = new AbortController()
  // Once each: a second signal of a kind ends the process the hard way.
  for (const signal of ['SIGTERM', 'SIGINT'] as const)
    process.once(signal, () => controller.abort(new Error(signal)))
  return controller.signal
}

function print(bytes: Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    process.stdout.write(bytes, (error) => (error ? reject(error) : resolve()))
  })
}

async function main(): Promise<number> {
  const { tuneHeap } = await import('./ops/heap.ts')
  tuneHeap()
  const { readFileSync } = await import('node:fs')
  const { runProgram } = await import('./commands/program.ts')
  const manifest = readFileSync(new URL('../package.json', import.meta.url), 'utf8')
  process.umask(0o077)
  // A reader that went away (`| head`) is no crash: whoever needs to know learns it from `print`.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined)
  const world: World = {
    env: process.env,
    version: (JSON.parse(manifest) as { version: string }).version,
    stdout: (text) => void process.stdout.write(text),
    stderr: (text) => void process.stderr.write(text),
    print,
    signal: stopSignal(),
  }
  return runProgram(process.argv.slice(2), world)
}

if (isOldNode()) {
  process.stderr.write(
    `auditferry needs Node ${needed.join('.')} or newer, this is ${process.versions.node}: npm ci brings one, node_modules/.bin/node\n`,
  )
  process.exitCode = 1
} else {
  void main().then((code) => {
    process.exitCode = code
  })
}
