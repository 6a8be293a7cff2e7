// The second layer of `validate`: what the configuration refers to on this machine; `doubts.ts` has what in it can hardly be meant so. Reads only.
import { basename, dirname, isAbsolute, join, resolve } from 'node:path'
import type { NamedFile } from '../contracts/sink-kind.ts'
import { folderFault, folderWarning, ownerFault, publicWarning } from '../core/file-owners.ts'
import { besideJournal, openWarnings, strayFault, unsafeFault } from '../journal/sqlite/files.ts'
import { placedSecretsIn, Secret } from '../core/secret.ts'
import { ConfigFaults, under, type Fault, type Path } from './faults.ts'
import { isJournalThere, journalFault, kindFault, networkUnder, writeFault, type Files } from './files.ts'
import { examineConfig, type LoadedConfig } from './load.ts'
import { isReference, reasonOf, type References } from './references.ts'
import { crampedOn } from './journal.ts'
import { doubts } from './lint.ts'
import { sinkFiles, sinkPlace } from './schema.ts'

interface Surroundings {
  readonly faults: readonly Fault[]
  readonly warnings: readonly Fault[]
}

interface Look {
  readonly loaded: LoadedConfig
  readonly files: Files
  readonly fault: (path: Path, message: string) => void
  readonly warning: (path: Path, message: string) => void
}

interface Named {
  readonly path: Path
  readonly name: string
  /** as `NamedFile` has it */
  readonly rotatedTo?: number | undefined
}

const nothingWrong = () => undefined

function namedFiles(
  loaded: LoadedConfig,
  which: 'files' | 'outputs',
): readonly (Named & { readonly faultOf: NonNullable<NamedFile['fault']> })[] {
  return loaded.config.sinks.flatMap((sink, index) =>
    sinkFiles(sink, which).map(({ field, path, fault, rotatedTo }) => ({
      // `redact.0.key_file` is in the first of a list.
      path: ['sinks', index, ...field.split('.').map((step) => (/^\d+$/.test(step) ? Number(step) : step))],
      name: path,
      rotatedTo,
      faultOf: fault ?? nothingWrong,
    })),
  )
}

/** A start must not fail because one sink's file is late: what `run` does where this is a fault of `validate`. */
const HELD =
  ' (run starts anyway, keeps the entries of this sink in the journal, and checks for the file again automatically)'

function lookAtReadFiles({ loaded, files, fault }: Look): void {
  for (const { path, name, faultOf } of namedFiles(loaded, 'files'))
    try {
      const wrong = faultOf(files.read(name), (other) => files.read(other))
      if (wrong !== undefined) fault(path, `the file cannot be used: ${wrong}${HELD}`)
    } catch (error) {
      fault(path, `the file cannot be used: ${reasonOf(error)}${HELD}`)
    }
}

function writtenFiles(loaded: LoadedConfig): readonly Named[] {
  return [{ path: ['journal', 'path'], name: loaded.config.journal.path }, ...namedFiles(loaded, 'outputs')]
}

const ownerAt = (path: Path) => (path[0] === 'journal' ? 'the journal' : `sinks[${String(path[1])}]`)

/** Two writers on one file overwrite each other, by whatever two names they know it. */
function lookAtSharedFiles({ loaded, files, fault }: Look): void {
  const owners = new Map<string, string>()
  for (const { path, name } of writtenFiles(loaded)) {
    const identity = files.identity(name)
    const owner = owners.get(identity)
    if (owner !== undefined) fault(path, `is the file of ${owner} already: use another file`)
    else owners.set(identity, ownerAt(path))
  }
}

/** Its log, its ballast, its socket: what a sink wrote there would be taken for the journal's own, or removed. */
function lookBesideTheJournal({ loaded, files, fault }: Look): void {
  const { path: journal } = loaded.config.journal
  const beside = new Set(besideJournal(journal, files.place(journal)).map((name) => files.identity(name)))
  for (const { path, name } of namedFiles(loaded, 'outputs'))
    if (beside.has(files.identity(name)))
      fault(path, 'is a file that the journal has beside it: use another name')
}

/** What a sink wrote there would be the next configuration, or the next key. */
function lookAtOwnFiles({ loaded, files, fault }: Look): void {
  const named = [...loaded.references.flatMap(({ files: named }) => named), loaded.file]
  const read = [...named, ...namedFiles(loaded, 'files').map(({ name }) => name)]
  const identities = new Set(read.map((name) => files.identity(name)))
  for (const { path, name } of namedFiles(loaded, 'outputs'))
    if (identities.has(files.identity(name)))
      fault(path, 'is a file that the configuration is read from: use another file')
}

/** A full file is moved to `path.1`, and those before it one on: over whatever another one writes there. */
function lookAtRotatedFiles({ loaded, files, fault }: Look): void {
  const written = writtenFiles(loaded)
  for (const { path: rotating, name, rotatedTo = 0 } of written) {
    // A link itself is moved: the names lie in its own folder, not in that of its other end.
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

/** Two sinks in one place: each line would stand there twice, and what testifies for one would not know the other's. */
function lookAtSharedPlaces({ loaded, fault }: Look): void {
  const owners = new Map<string, number>()
  for (const [index, sink] of loaded.config.sinks.entries()) {
    const place = sinkPlace(sink)
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

/** `faultOf`: what is wrong with a file that is to be written. */
function lookAtWrittenFiles({ loaded, files, fault }: Look, faultOf: typeof writeFault): void {
  for (const { path, name } of writtenFiles(loaded)) {
    const message = faultOf(resolve(name), files)
    if (message === undefined) continue
    const isSinksDevice = path[0] === 'sinks' && files.look(name)?.kind === 'other'
    fault(path, isSinksDevice ? `${message} (for standard output there is the sink stdout)` : message)
  }
}

/** An earlier build took a relative `journal.path` from the working directory. What it left there may not be delivered yet. */
function lookAtOldJournal({ loaded, files, fault }: Look): void {
  const { path } = loaded.config.journal
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

function lookAtJournal({ loaded, files, fault, warning }: Look): void {
  const { journal } = loaded.config
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
      `would lie on a network file system (${network}), which cannot lock a journal or keep it whole: use a file on a local or block-backed volume`,
    )
  const cramped = crampedOn(files.volumeBytes(journal.path), journal)
  if (cramped !== undefined) warning(['journal', 'max_bytes'], cramped)
}

/** Whoever else may put a sink's file in place: its sink is blocked by that. */
function lookAtOwners({ loaded, files, fault }: Look): void {
  for (const { path, name } of namedFiles(loaded, 'outputs')) {
    const wrong = ownerFault(name, files.owners) ?? ownerFault(files.place(name), files.owners)
    if (wrong !== undefined) fault(path, wrong)
  }
}

/** Whoever else may read what is written, or change it. Also at each start, so: asks for names only. */
function lookAtPrivacy({ loaded, files, warning }: Look): void {
  for (const text of openWarnings(files.place(loaded.config.journal.path), files.owners))
    warning(['journal', 'path'], text)
  for (const { path, name } of namedFiles(loaded, 'outputs')) {
    const place = files.place(name)
    const text = folderFault(dirname(place), files.owners) ?? publicWarning(place, files.owners)
    if (text !== undefined) warning(path, text)
  }
}

/** The folders that the configuration, keys and certificates are read from: who can write there can replace them. */
function lookAtReadFolders({ loaded, files, warning }: Look): void {
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

/** How Kubernetes mounts a secret: readable in its own pod, whatever its mode. */
const isMountedSecret = (place: string) => /\/\.\.\d{4}_/.test(place)

function lookAtSecretFiles({ loaded, files, warning }: Look): void {
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
  for (const { path } of isOpen(loaded.file) ? placedSecretsIn(loaded.config) : [])
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

function looking(loaded: LoadedConfig, files: Files): { look: Look; faults: Fault[]; warnings: Fault[] } {
  const faults: Fault[] = []
  const warnings: Fault[] = []
  const into = (list: Fault[]) => (path: Path, message: string) => {
    list.push({ file: loaded.file, ...loaded.document.valueAt(path), path, message })
  }
  return { look: { loaded, files, fault: into(faults), warning: into(warnings) }, faults, warnings }
}

/** All of it, never only the first. `nowAt`: epoch ms. */
export function lookAround(loaded: LoadedConfig, files: Files, nowAt: number): Surroundings {
  const { look, faults, warnings } = looking(loaded, files)
  lookAtReadFiles(look)
  lookAtSharedFiles(look)
  lookBesideTheJournal(look)
  lookAtOwnFiles(look)
  lookAtRotatedFiles(look)
  lookAtSharedPlaces(look)
  lookAtWrittenFiles(look, writeFault)
  lookAtJournal(look)
  lookAtOldJournal(look)
  lookAtOwners(look)
  lookAtPrivacy(look)
  lookAtReadFolders(look)
  lookAtSecretFiles(look)
  doubts(loaded, nowAt, look.warning)
  return { faults, warnings }
}

/** `warnings`: of the files that it writes. */
interface ToRun extends LoadedConfig {
  readonly warnings: readonly Fault[]
}

/**
 * A configuration to run with. Settings that would destroy data, or name a path that can never be a file, are refused here
 * too, without `validate`. A missing folder or permission blocks only its sink. `isStart`: this process has no journal open
 * yet. Throws ConfigFaults.
 */
export function loadToRun(file: string, context: References, files: Files, isStart = false): ToRun {
  const { faults, loaded } = examineConfig(file, context)
  if (!loaded) throw new ConfigFaults(faults)
  const { look, faults: found, warnings } = looking(loaded, files)
  lookAtSharedFiles(look)
  lookBesideTheJournal(look)
  lookAtOwnFiles(look)
  lookAtRotatedFiles(look)
  lookAtSharedPlaces(look)
  lookAtWrittenFiles(look, kindFault)
  lookAtPrivacy(look)
  lookAtReadFolders(look)
  if (isStart) lookAtOldJournal(look)
  const all = [...faults, ...found]
  if (all.length > 0) throw new ConfigFaults(all)
  return { ...loaded, warnings }
}
