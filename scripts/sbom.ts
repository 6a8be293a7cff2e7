// Prints the list of the program's parts (CycloneDX) by `npm sbom`: what production installs, no more and no less.
// npm's own --omit also leaves out what both production and development need, so it is shown a lock file without the latter.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

interface Manifest {
  devDependencies?: unknown
  optionalDependencies?: unknown
}

interface Locked extends Manifest {
  readonly dev?: boolean
  readonly optional?: boolean
  readonly devOptional?: boolean
}

const read = (path: string): unknown => JSON.parse(readFileSync(path, 'utf8'))
const manifest = read('package.json') as Manifest
const lock = read('package-lock.json') as { packages: Record<string, Locked> }

const needed = Object.entries(lock.packages).filter(
  ([, { dev, optional, devOptional }]) => !dev && !optional && !devOptional,
)
lock.packages = Object.fromEntries(needed)
for (const root of [manifest, lock.packages['']]) {
  delete root?.devDependencies
  delete root?.optionalDependencies
}

const folder = mkdtempSync(join(tmpdir(), 'auditferry-sbom-'))
try {
  writeFileSync(join(folder, 'package.json'), JSON.stringify(manifest))
  writeFileSync(join(folder, 'package-lock.json'), JSON.stringify(lock))
  const args = ['sbom', '--package-lock-only', '--sbom-format=cyclonedx', '--loglevel=error']
  execFileSync('npm', args, { cwd: folder, stdio: ['ignore', 'inherit', 'inherit'] })
} finally {
  rmSync(folder, { recursive: true, force: true })
}
