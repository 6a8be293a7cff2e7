// Holds the lock file free of download addresses, and the direct dependencies exact: what is installed is named by integrity alone.
import { readFileSync } from 'node:fs'

const lock = readFileSync('package-lock.json', 'utf8')
const manifest = JSON.parse(readFileSync('package.json', 'utf8')) as Record<
  string,
  Record<string, string> | undefined
>
const faults: string[] = []
if (/"resolved"\s*:|https?:\/\/[^"]*\.tgz/.test(lock))
  faults.push(
    'package-lock.json names download addresses: npm config omit-lockfile-registry-resolved must be true',
  )
for (const group of ['dependencies', 'devDependencies', 'optionalDependencies']) {
  for (const [name, version] of Object.entries(manifest[group] ?? {}))
    if (!/^\d+\.\d+\.\d+$/.test(version))
      faults.push(`package.json: ${group}.${name} is ${version}, not an exact version`)
}
for (const fault of faults) process.stderr.write(`${fault}\n`)
process.exitCode = faults.length > 0 ? 1 : 0
