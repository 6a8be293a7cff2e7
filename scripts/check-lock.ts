// Holds the lock file to what `npm ci` needs on any machine: no download addresses, exact versions, no edge that leads nowhere, no compiler. With --fix it restores what `npm install` drops.
import { readFileSync, writeFileSync } from 'node:fs'

type Versions = Readonly<Record<string, string>>

interface Locked {
  readonly dependencies?: Versions
  readonly optionalDependencies?: Versions
  gypfile?: boolean
}

const path = 'package-lock.json'
const text = readFileSync(path, 'utf8')
const lock = JSON.parse(text) as { readonly packages: Record<string, Locked> }
const manifest = JSON.parse(readFileSync('package.json', 'utf8')) as Record<string, Versions | undefined>
const faults: string[] = []

if (/"resolved"\s*:|https?:\/\/[^"]*\.tgz/.test(text))
  faults.push(`${path} names download addresses: npm config omit-lockfile-registry-resolved must be true`)

for (const group of ['dependencies', 'devDependencies', 'optionalDependencies'])
  for (const [name, version] of Object.entries(manifest[group] ?? {}))
    if (!/^\d+\.\d+\.\d+$/.test(version))
      faults.push(`package.json: ${group}.${name} is ${version}, not an exact version`)

/** As Node looks for a package: in its own node_modules, then in those of the folders above. */
function isLocked(from: string, name: string): boolean {
  for (let folder = from; ; folder = folder.slice(0, Math.max(0, folder.lastIndexOf('node_modules') - 1))) {
    if (lock.packages[`${folder === '' ? '' : `${folder}/`}node_modules/${name}`]) return true
    if (folder === '') return false
  }
}

// A package of another platform that the registry lacked on the day of the install: `npm ci` refuses the file elsewhere.
for (const [from, { dependencies, optionalDependencies }] of Object.entries(lock.packages))
  for (const name of Object.keys({ ...dependencies, ...optionalDependencies }))
    if (!isLocked(from, name))
      faults.push(`${path}: ${from} needs ${name}, which is not locked: choose versions that are complete`)

// npm does not carry this word of the package's own manifest into the lock file, and without it runs node-gyp over the
// prebuilt binary: `npm ci` would need Python and make.
const prebuilt = 'node_modules/better-sqlite3'
const sqlite = lock.packages[prebuilt]
if (sqlite && sqlite.gypfile !== false) {
  if (process.argv.includes('--fix')) {
    sqlite.gypfile = false
    writeFileSync(path, `${JSON.stringify(lock, null, 2)}\n`)
  } else {
    faults.push(`${path}: ${prebuilt} lacks "gypfile": false: node scripts/check-lock.ts --fix puts it there`)
  }
}

for (const fault of faults) process.stderr.write(`${fault}\n`)
process.exitCode = faults.length > 0 ? 1 : 0
