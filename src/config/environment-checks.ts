// Second layer of `validate`: files, folders and permissions that the configuration refers to.
import { basename, dirname, isAbsolute, join, resolve } from 'node:path'
import type { NamedFile } from '../contracts/sink-kind.ts'
import { folderFault, folderWarning, ownerFault, publicWarning } from '../core/file-owners.ts'
import { besideJournal, openWarnings, strayFault, unsafeFault } from '../journal/sqlite/files.ts'
import { secretsWithPaths, Secret } from '../core/secret.ts'
import { kindOf } from '../sinks/index.ts'
import { tlsFiles } from '../sinks/kit/options.ts'
import { ConfigFaults, under, type Fault, type Path } from './faults.ts'
import { isJournalThere, journalFault, kindFault, networkUnder, writeFault, type Files } from './files.ts'
import { examineConfig, type LoadedConfig } from './load.ts'
import { isReference, reasonOf, type References } from './references.ts'
import { basePath, smallVolumeText } from './journal.ts'
import { lint } from './lint.ts'
import { sinkFiles } from './schema.ts'

interface EnvironmentFindings {
  readonly faults: readonly Fault[]
  readonly warnings: readonly Fault[]
}

interface Checking {
  readonly loaded: LoadedConfig
  readonly files: Files
  readonly fault: (path: Path, message: string) => void
  readonly warning: (path: Path, message: string) => void
}

interface Named {
  readonly path: Path
  readonly name: string
  /** see `NamedFile` */
  readonly rotatedTo?: number | undefined
}

const nothingWrong = () => undefined

function namedFiles(
  loaded: LoadedConfig,
  which: 'files' | 'outputs',
): readonly (Named & { readonly faultOf: NonNullable<NamedFile['fault']> })[] {
  const named = (part: Path, { field, path, fault, rotatedTo }: NamedFile) => ({
    // Numbers index lists, as in `redact.0.key_file`.
    path: [...part, ...field.split('.').map((step) => (/^\d+$/.test(step) ? Number(step) : step))],
    name: path,
    rotatedTo,
    faultOf: fault ?? nothingWrong,
  })
  const { sinks, journal } = loaded.config
  const own = which === 'files' ? tlsFiles(journal.postgres?.tls) : []
  return [
    ...own.map((file) => named(['journal', 'postgres'], file)),
    ...sinks.flatMap((sink, index) => sinkFiles(sink, which).map((file) => named(['sinks', index], file))),
  ]
}

/** `run` starts without a sink's file, since one late file must not stop the other sinks. */
const STILL_STARTS: Readonly<Record<string, string>> = {
  sinks:
    ' (run starts anyway, keeps the entries of this sink in the journal, and checks for the file again automatically)',
  journal: ' (run starts anyway, reads nothing, and checks for the file again automatically)',
}

function checkReadFiles({ loaded, files, fault }: Checking): void {
  for (const { path, name, faultOf } of namedFiles(loaded, 'files')) {
    const stillStarts = STILL_STARTS[String(path[0])] ?? ''
    try {
      const wrong = faultOf(files.read(name), (other) => files.read(other))
      if (wrong !== undefined) fault(path, `the file cannot be used: ${wrong}${stillStarts}`)
    } catch (error) {
      fault(path, `the file cannot be used: ${reasonOf(error)}${stillStarts}`)
    }
  }
}

function writtenFiles(loaded: LoadedConfig): readonly Named[] {
  const { path, postgres } = loaded.config.journal
  const journal = postgres ? [] : [{ path: ['journal', 'path'], name: path }]
  return [...journal, ...namedFiles(loaded, 'outputs')]
}

const ownerAt = (path: Path) => (path[0] === 'journal' ? 'the journal' : `sinks[${String(path[1])}]`)

/** Two writers on one file would overwrite each other, even under different names. */
function checkSharedFiles({ loaded, files, fault }: Checking): void {
  const owners = new Map<string, string>()
  for (const { path, name } of writtenFiles(loaded)) {
    const identity = files.identity(name)
    const owner = owners.get(identity)
    if (owner !== undefined) fault(path, `is the file of ${owner} already: use another file`)
    else owners.set(identity, ownerAt(path))
  }
}

/** The journal would use or remove what a sink wrote to its WAL, ballast or socket. */
function checkJournalNeighbours({ loaded, files, fault }: Checking): void {
  const journal = basePath(loaded.config)
  const beside = new Set(besideJournal(journal, files.place(journal)).map((name) => files.identity(name)))
  for (const { path, name } of namedFiles(loaded, 'outputs'))
    if (beside.has(files.identity(name)))
      fault(path, 'is a file that the journal has beside it: use another name')
}

/** A sink would overwrite the configuration or a key. */
function checkOwnFiles({ loaded, files, fault }: Checking): void {
  const named = [...loaded.references.flatMap(({ files: named }) => named), loaded.file]
  const read = [...named, ...namedFiles(loaded, 'files').map(({ name }) => name)]
  const identities = new Set(read.map((name) => files.identity(name)))
  for (const { path, name } of namedFiles(loaded, 'outputs'))
    if (identities.has(files.identity(name)))
      fault(path, 'is a file that the configuration is read from: use another file')
}

/** Rotation moves a full file to `path.1` and so on, over a file that another sink writes there. */
function checkRotatedFiles({ loaded, files, fault }: Checking): void {
  const written = writtenFiles(loaded)
  for (const { path: rotating, name, rotatedTo = 0 } of written) {
    // Rotation renames the link itself, in its own folder.
    const stem = `${join(files.place(dirname(resolve(name))), basename(name))}.`
    for (const other of written) {
      const place = files.place(other.name)
      const number = place.startsWith(stem) ? place.slice(stem.length) : ''
      if (!/^[1-9]\d*$/.test(number) || Number(number) > rotatedTo) continue
      const names = `${name}.1 … ${name}.${rotatedTo}`
      fault(
        other.path,
        `would be overwritten when ${ownerAt(rotating)} rotates its file to ${names}: use another name`,
      )
    }
  }
}

/** Two sinks in one place would store each line twice and invalidate each other's manifests. */
function checkSharedPlaces({ loaded, fault }: Checking): void {
  const owners = new Map<string, number>()
  for (const [index, sink] of loaded.config.sinks.entries()) {
    const place = kindOf(sink.type).destination?.(sink)
    if (!place) continue
    const { field, name } = place
    const owner = owners.get(name)
    if (owner === undefined) owners.set(name, index)
    else
      fault(
        ['sinks', index, field],
        `its lines would mix with those of sinks[${owner}] (${name}): give each a ${field} of its own`,
      )
  }
}

function checkWrittenFiles({ loaded, files, fault }: Checking, faultOf: typeof writeFault): void {
  for (const { path, name } of writtenFiles(loaded)) {
    const message = faultOf(resolve(name), files)
    if (message === undefined) continue
    const isSinksDevice = path[0] === 'sinks' && files.look(name)?.kind === 'other'
    fault(path, isSinksDevice ? `${message} (for standard output there is the sink stdout)` : message)
  }
}

/** An old journal in the working directory may contain undelivered entries. */
function checkOldJournal({ loaded, files, fault }: Checking): void {
  const { path, postgres } = loaded.config.journal
  if (postgres) return
  const at = ['journal', 'path']
  const written = loaded.references.find((one) => one.path.join('.') === at.join('.'))?.resolved
  const name = written ?? under(loaded.document.value, at)
  if (typeof name !== 'string' || isAbsolute(name)) return
  const old = resolve(files.cwd(), name)
  if (files.look(path) !== undefined || !isJournalThere(old, files)) return
  fault(
    at,
    `there is no journal at ${path}, but there is one at ${old}. Relative paths begin at the folder of the configuration file; an earlier version began at the working directory. Stop any process that uses ${old}, then move it to ${path} with its -wal file, or set journal.path to ${old}. For a new journal instead, set journal.path to ${path}`,
  )
}

function checkJournal({ loaded, files, fault, warning }: Checking): void {
  const { journal } = loaded.config
  if (journal.postgres) return
  const place = files.place(journal.path)
  for (const message of [
    journalFault(journal.path, files),
    unsafeFault(journal.path, place, files.owners),
    strayFault(place, files),
  ])
    if (message !== undefined) fault(['journal', 'path'], message)
  const network = networkUnder(journal.path, files)
  if (network !== undefined)
    fault(
      ['journal', 'path'],
      `would be on a network file system (${network}), which cannot lock a journal or keep it whole: use a file on a local or block-backed volume`,
    )
  const cramped = smallVolumeText(files.volumeBytes(journal.path), journal)
  if (cramped !== undefined) warning(['journal', 'max_bytes'], cramped)
}

/** Another user could replace a sink's file, so the sink would be blocked. */
function checkOwners({ loaded, files, fault }: Checking): void {
  for (const { path, name } of namedFiles(loaded, 'outputs')) {
    const wrong = ownerFault(name, files.owners) ?? ownerFault(files.place(name), files.owners)
    if (wrong !== undefined) fault(path, wrong)
  }
}

/** Other users may access written files. Runs at each start, so it opens none. */
function checkPrivacy({ loaded, files, warning }: Checking): void {
  const { path: journal, postgres } = loaded.config.journal
  if (!postgres)
    for (const text of openWarnings(files.place(journal), files.owners)) warning(['journal', 'path'], text)
  for (const { path, name } of namedFiles(loaded, 'outputs')) {
    const place = files.place(name)
    const text = folderFault(dirname(place), files.owners) ?? publicWarning(place, files.owners)
    if (text !== undefined) warning(path, text)
  }
}

/** Write access to these folders allows replacing configuration, keys and certificates. */
function checkReadFolders({ loaded, files, warning }: Checking): void {
  const read = [
    ...loaded.references.flatMap(({ path, files: names }) => names.map((name) => ({ path, name }))),
    ...namedFiles(loaded, 'files'),
    { path: [], name: loaded.file },
  ]
  const seen = new Set<string>()
  for (const { path, name } of read)
    for (const folder of [dirname(resolve(name)), dirname(files.place(name))]) {
      if (seen.has(folder)) continue
      seen.add(folder)
      const text = folderWarning(folder, files.owners)
      if (text !== undefined) warning(path, text)
    }
}

/** Kubernetes mounts secrets like this: readable only in the pod, whatever their mode. */
const isMountedSecret = (place: string) => /\/\.\.\d{4}_/.test(place)

function checkSecretFiles({ loaded, files, warning }: Checking): void {
  const isOpen = (name: string) => ((files.look(name)?.mode ?? 0) & 0o004) !== 0
  const look = (path: Path, name: string, text: string) => {
    const place = files.place(name)
    if (isMountedSecret(place)) return
    const changed = (files.look(name)?.mode ?? 0) & 0o002 ? 'changed' : undefined
    const by = changed ?? (isOpen(name) ? 'read' : undefined)
    if (by !== undefined)
      warning(path, `${text} can be ${by} by every user of this machine: chmod it to 0400`)
    const owned = ownerFault(place, files.owners)
    if (owned !== undefined) warning(path, owned)
  }
  const isReferred = (path: Path) => isReference(under(loaded.document.value, path))
  for (const { path } of isOpen(loaded.file) ? secretsWithPaths(loaded.config) : [])
    if (!isReferred(path))
      warning(
        path,
        'this file contains a secret, and every user of this machine can read it: write it as ${file:…} or ${env:…}, or chmod this file to 0400',
      )
  for (const { path, files: names } of loaded.references)
    if (under(loaded.config, path) instanceof Secret)
      for (const name of names) look(path, name, `\${file:${name}}`)
  for (const { path, name } of namedFiles(loaded, 'files'))
    if (String(path.at(-1)).endsWith('key_file')) look(path, name, name)
}

function collecting(
  loaded: LoadedConfig,
  files: Files,
): { look: Checking; faults: Fault[]; warnings: Fault[] } {
  const faults: Fault[] = []
  const warnings: Fault[] = []
  const into = (list: Fault[]) => (path: Path, message: string) => {
    list.push({ file: loaded.file, ...loaded.document.valueAt(path), path, message })
  }
  return { look: { loaded, files, fault: into(faults), warning: into(warnings) }, faults, warnings }
}

/** What would destroy data, or can never work. `faultOf`: checks a file that will be written. */
function checkAtStart(look: Checking, faultOf: typeof writeFault): void {
  checkSharedFiles(look)
  checkJournalNeighbours(look)
  checkOwnFiles(look)
  checkRotatedFiles(look)
  checkSharedPlaces(look)
  checkWrittenFiles(look, faultOf)
  checkPrivacy(look)
  checkReadFolders(look)
}

/** Reports all faults, not only the first. `nowAt`: epoch ms. */
export function checkEnvironment(loaded: LoadedConfig, files: Files, nowAt: number): EnvironmentFindings {
  const { look, faults, warnings } = collecting(loaded, files)
  checkAtStart(look, writeFault)
  checkReadFiles(look)
  checkJournal(look)
  checkOldJournal(look)
  checkOwners(look)
  checkSecretFiles(look)
  lint(loaded, nowAt, look.warning)
  return { faults, warnings }
}

/** `warnings`: about the files that it writes. */
interface ToRun extends LoadedConfig {
  readonly warnings: readonly Fault[]
}

/**
 * Loads a configuration to run. Throws ConfigFaults. Also rejects settings that would destroy data,
 * or paths that can never be files. A missing folder or permission blocks only its sink. `isStart`:
 * this process has not opened the journal yet.
 */
export function loadToRun(file: string, context: References, files: Files, isStart = false): ToRun {
  const { faults, loaded } = examineConfig(file, context)
  if (!loaded) throw new ConfigFaults(faults)
  const { look, faults: found, warnings } = collecting(loaded, files)
  checkAtStart(look, kindFault)
  if (isStart) checkOldJournal(look)
  const all = [...faults, ...found]
  if (all.length > 0) throw new ConfigFaults(all)
  return { ...loaded, warnings }
}
