// Holds the lock files, the project's and the site's, to what `npm ci` needs on any machine: no download addresses, exact versions, no edge that leads nowhere, no compiler. With --fix it restores what `npm install` drops.
import { readFileSync, writeFileSync } from 'node:fs'

type Versions = Readonly<Record<string, string>>

interface Locked {
  readonly dependencies?: Versions
  readonly optionalDependencies?: Versions
  gypfile?: boolean
  hasInstallScript?: boolean
}

// Nothing is compiled or fetched at install. npm does not carry `gypfile: false` of a package's own manifest into the lock file, and
// without it runs node-gyp over the prebuilt binary: `npm ci` would need Python and make. The others bring a faster native part
// that nothing here uses, or only talk; npm looks for their scripts where the lock file says that there are any.
const scriptless = ['better-sqlite3', 'ssh2', 'cpu-features', 'protobufjs', 'esbuild']
/** Looks whether its binary is there. */
const mayRun = ['unrs-resolver']

const fixing = process.argv.includes('--fix')

function check(folder: string): string[] {
  const path = `${folder}package-lock.json`
  const text = readFileSync(path, 'utf8')
  const lock = JSON.parse(text) as { readonly packages: Record<string, Locked> }
  const manifest = JSON.parse(readFileSync(`${folder}package.json`, 'utf8')) as Record<
    string,
    Versions | undefined
  >
  const faults: string[] = []

  if (/"resolved"\s*:|https?:\/\/[^"]*\.tgz/.test(text))
    faults.push(`${path} names download addresses: npm config omit-lockfile-registry-resolved must be true`)

  for (const group of ['dependencies', 'devDependencies', 'optionalDependencies'])
    for (const [name, version] of Object.entries(manifest[group] ?? {}))
      if (!/^\d+\.\d+\.\d+$/.test(version))
        faults.push(`${folder}package.json: ${group}.${name} is ${version}, not an exact version`)

  /** As Node looks for a package: in its own node_modules, then in those of the folders above. */
  function isLocked(from: string, name: string): boolean {
    for (let at = from; ; at = at.slice(0, Math.max(0, at.lastIndexOf('node_modules') - 1))) {
      if (lock.packages[`${at === '' ? '' : `${at}/`}node_modules/${name}`]) return true
      if (at === '') return false
    }
  }

  // A package of another platform that the registry lacked on the day of the install: `npm ci` refuses the file elsewhere.
  for (const [from, { dependencies, optionalDependencies }] of Object.entries(lock.packages))
    for (const name of Object.keys({ ...dependencies, ...optionalDependencies }))
      if (!isLocked(from, name))
        faults.push(`${path}: ${from} needs ${name}, which is not locked: choose versions that are complete`)

  let fixed = false
  for (const [at, locked] of Object.entries(lock.packages)) {
    const name = at.slice(at.lastIndexOf('node_modules/') + 'node_modules/'.length)
    if (scriptless.includes(name) && (locked.gypfile !== false || locked.hasInstallScript)) {
      fixed = true
      locked.gypfile = false
      delete locked.hasInstallScript
      if (!fixing)
        faults.push(
          `${path}: ${at} would run a script at install: node scripts/check-lock.ts --fix ends that`,
        )
    } else if (locked.hasInstallScript && !mayRun.includes(name)) {
      faults.push(`${path}: ${at} runs a script at install: can it be done without?`)
    }
  }
  if (fixing && fixed) writeFileSync(path, `${JSON.stringify(lock, null, 2)}\n`)
  return faults
}

const faults = ['', 'site/'].flatMap(check)
for (const fault of faults) process.stderr.write(`${fault}\n`)
process.exitCode = faults.length > 0 ? 1 : 0
