// The names of what lies beside the journal's file: for those who make it, and for who has to keep away from it.
import { createHash } from 'node:crypto'
import { basename, dirname, join } from 'node:path'
import {
  besideFault,
  folderFault,
  groupFileWarning,
  groupWarning,
  type OwnerCalls,
  ownerFault,
  privateFault,
  publicWarning,
} from './file-owners.ts'

/** An address of a socket holds 104 bytes on some systems, 108 on others, a final zero among them. */
const MAX_PATH_BYTES = 100

const fits = (path: string) => Buffer.byteLength(path) <= MAX_PATH_BYTES

/** What is tried there once SQLite could not write, and removed again. */
export const probePath = (place: string): string => `${place}.probe`

export const ballastPath = (place: string): string => `${place}.ballast`

/** What an `s3` sink has on its way lies in it. */
export const spoolPath = (journalPath: string): string =>
  join(dirname(journalPath), 'spool', basename(journalPath))

/** The control socket: `<journal>.sock`, or a short name in the same folder; undefined where even that is too long. */
export function controlPath(journalPath: string): string | undefined {
  const full = `${journalPath}.sock`
  if (fits(full)) return full
  const digest = createHash('sha256').update(basename(journalPath)).digest('hex').slice(0, 8)
  const short = join(dirname(journalPath), `${digest}.sock`)
  return fits(short) ? short : undefined
}

const sqlites = (place: string) => ['-wal', '-shm', '-journal'].map((end) => `${place}${end}`)

/** Why another user may read or change the journal, or what lies beside it; undefined: none may. `place`: where links lead. */
export function unsafeFault(journalPath: string, place: string, calls: OwnerCalls): string | undefined {
  const spool = spoolPath(journalPath)
  const faults = [
    () => folderFault(dirname(place), calls),
    () => ownerFault(journalPath, calls),
    () => privateFault(place, calls),
    ...[...sqlites(place), ballastPath(place)].map((path) => () => besideFault(path, calls)),
    ...[dirname(spool), spool].flatMap((path) => [
      () => ownerFault(path, calls),
      () => folderFault(path, calls),
    ]),
  ]
  for (const fault of faults) {
    const found = fault()
    if (found !== undefined) return found
  }
  return undefined
}

/** Who may read the journal beside this user, and by what. */
export const openWarnings = (place: string, calls: OwnerCalls): readonly string[] =>
  [
    groupWarning(dirname(place), calls),
    publicWarning(place, calls, 0o600) ?? groupFileWarning(place, calls),
  ].filter((text) => text !== undefined)

/** All but the socket lie beside the file itself, `place`, wherever a link leads to it; a `-journal` that SQLite finds there it would play back. */
export function besideJournal(journalPath: string, place: string): readonly string[] {
  const ours = [probePath(place), ballastPath(place), controlPath(journalPath)]
  return [...sqlites(place), ...ours].filter((name) => name !== undefined)
}
