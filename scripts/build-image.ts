// Builds the container image with its version, revision and date as labels: `build-image.ts [arguments of docker build …]`, such as --tag or --build-arg.
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

const manifest = JSON.parse(readFileSync('package.json', 'utf8')) as { readonly version: string }

/** Of an unpacked archive nobody knows the commit. */
function git(...args: string[]): string {
  try {
    return execFileSync('git', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
  } catch {
    return ''
  }
}

const changed = git('status', '--porcelain', '--', 'src', 'package.json', 'package-lock.json', 'Dockerfile')
const revision = `${git('rev-parse', 'HEAD') || 'unknown'}${changed === '' ? '' : '-dirty'}`
// The commit's own time: the same commit makes the same labels.
const created = git('log', '-1', '--format=%cI') || '1970-01-01T00:00:00Z'
const given = process.argv.slice(2)
const tag = given.some((arg) => arg === '-t' || arg.startsWith('--tag'))
  ? []
  : [`--tag=auditferry:${manifest.version}`]
const labels = { VERSION: manifest.version, REVISION: revision, CREATED: created }
const args = Object.entries(labels).map(([name, value]) => `--build-arg=${name}=${value}`)
try {
  execFileSync('docker', ['build', ...args, ...tag, ...given, '.'], { stdio: 'inherit' })
} catch (error) {
  process.stderr.write(`the image was not built: ${error instanceof Error ? error.message : 'unknown'}\n`)
  process.exitCode = 1
}
