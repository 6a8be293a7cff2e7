// Whether other users of this machine may have planted a file, or may read or replace it: what is
// refused, and what causes a warning.
// Separate from real calls, so that `validate` reports what `run` does.
import { dirname } from 'node:path'

export interface FileFacts {
  readonly kind: 'file' | 'folder' | 'link' | 'other'
  /** permission bits, setgid and sticky among them */
  readonly mode: number
  readonly uid: number
  readonly gid: number
  readonly dev: number
}

/** As `Stats` of node:fs. */
interface Stats extends Omit<FileFacts, 'kind'> {
  isFile(): boolean
  isDirectory(): boolean
  isSymbolicLink(): boolean
}

export function factsOf(stats: Stats): FileFacts {
  const { mode, uid, gid, dev } = stats
  const kind = stats.isFile()
    ? 'file'
    : stats.isDirectory()
      ? 'folder'
      : stats.isSymbolicLink()
        ? 'link'
        : 'other'
  return { kind, mode, uid, gid, dev }
}

const [uid, gid] = [process.geteuid?.(), process.getegid?.()]
export const thisUser: OwnerCalls['user'] = uid === undefined || gid === undefined ? undefined : { uid, gid }

/** `lstat`: as `lstatSync` of node:fs. */
export const ownerCalls = (lstat: (path: string) => Stats): OwnerCalls => ({
  user: thisUser,
  facts(path) {
    try {
      return factsOf(lstat(path))
    } catch {
      return undefined
    }
  },
})

export interface OwnerCalls {
  /** Of the name itself, not of a link's target; undefined: none, or it cannot be examined. */
  readonly facts: (path: string) => FileFacts | undefined
  /** The user of this process; undefined on a system without such users. */
  readonly user: { readonly uid: number; readonly gid: number } | undefined
}

const [STICKY, SETGID] = [0o1000, 0o2000]
const [OTHERS_READ, OTHERS_WRITE, GROUP_READ, GROUP_WRITE] = [0o004, 0o002, 0o040, 0o020]
const ROOT = 0

const octal = (mode: number) => `mode ${(mode & 0o7777).toString(8).padStart(4, '0')}`

/**
 * A volume whose group Kubernetes set (`fsGroup`), or one set up in the same way: its group is
 * meant to share it.
 */
const isSharedWithGroup = (folder: FileFacts | undefined, gid: number) =>
  folder !== undefined && (folder.mode & SETGID) !== 0 && folder.gid === gid

/**
 * Files of another user are refused, except root's. If this process is root, only files that may
 * have been planted are.
 */
export function ownerFault(path: string, { facts, user }: OwnerCalls): string | undefined {
  const there = facts(path)
  if (!there || !user) return undefined
  const folder = facts(dirname(path))
  const { uid } = there
  if (uid === user.uid || uid === ROOT || isSharedWithGroup(folder, there.gid)) return undefined
  if (user.uid === ROOT && folder && (folder.uid === uid || (folder.mode & OTHERS_WRITE) === 0))
    return undefined
  const what = there.kind === 'link' ? 'a link of' : 'of'
  return `${path} is ${what} another user (uid ${uid}, this process is uid ${user.uid}), who may read and change it: remove it, or chown it if you know where it comes from`
}

/**
 * The root of a mount has the mode of its volume: an `emptyDir` of Kubernetes is writable for every
 * user in its pod.
 */
const isMount = (folder: string, { dev }: FileFacts, { facts }: OwnerCalls) =>
  facts(dirname(folder))?.dev !== dev

/** Why `folder` is not safe for a private file; undefined: it is. */
export function folderFault(folder: string, calls: OwnerCalls): string | undefined {
  const there = calls.facts(folder)
  if (there?.kind !== 'folder' || !calls.user) return undefined
  if ((there.mode & OTHERS_WRITE) === 0 || (there.mode & STICKY) !== 0) return undefined
  if (isMount(folder, there, calls)) return undefined
  return `the folder ${folder} can be written by every user of this machine (${octal(there.mode)}), who may replace what is in it: chmod o-w it, or use another folder`
}

/** Whether other users may replace files in a folder that this program reads from. */
export const folderWarning = (folder: string, calls: OwnerCalls): string | undefined =>
  folderFault(folder, calls) ?? groupWarning(folder, calls)

/** Why a file that only this program writes may not be used; undefined: it may, or is missing. */
export function privateFault(path: string, calls: OwnerCalls): string | undefined {
  const there = calls.facts(path)
  if (there?.kind !== 'file' || !calls.user) return undefined
  const { mode } = there
  const foreign = ownerFault(path, calls)
  if (foreign !== undefined || (mode & OTHERS_WRITE) === 0) return foreign
  return `${path} can be written by every user of this machine (${octal(mode)}): chmod it to 0600, if you know who wrote to it`
}

/** The same for a file whose name no operator chooses or links elsewhere. */
export function besideFault(path: string, calls: OwnerCalls): string | undefined {
  if (calls.facts(path)?.kind !== 'link' || !calls.user) return privateFault(path, calls)
  return `${path} is a link, which this program never creates there: find out who created it, and remove it`
}

/** Whether every user may read or change a file. `allowedMode`: what its mode may be at most. */
export function publicWarning(path: string, calls: OwnerCalls, allowedMode = 0o660): string | undefined {
  const there = calls.facts(path)
  if (there?.kind !== 'file' || !calls.user) return undefined
  const { mode } = there
  if ((mode & (OTHERS_READ | OTHERS_WRITE)) === 0) return undefined
  const what = (mode & OTHERS_WRITE) === 0 ? 'read' : 'changed'
  return `${path} can be ${what} by every user of this machine (${octal(mode)}): chmod it to ${octal(mode & allowedMode).slice(-4)}`
}

/** Whether a group may read or change a file that should be one user's. */
export function groupFileWarning(path: string, calls: OwnerCalls): string | undefined {
  const there = calls.facts(path)
  if (there?.kind !== 'file' || !calls.user) return undefined
  const { mode, gid } = there
  if ((mode & (GROUP_READ | GROUP_WRITE)) === 0 || isSharedWithGroup(calls.facts(dirname(path)), gid))
    return undefined
  return `${path} can be read by its group (gid ${gid}, ${octal(mode)}): chmod it to 0600`
}

/** A folder writable for its group, if that is not this process's own group. */
export function groupWarning(folder: string, calls: OwnerCalls): string | undefined {
  const there = calls.facts(folder)
  if (there?.kind !== 'folder' || !calls.user) return undefined
  const { mode, gid } = there
  if ((mode & GROUP_WRITE) === 0 || (mode & (SETGID | STICKY)) !== 0 || gid === calls.user.gid)
    return undefined
  return `the folder ${folder} can be written by its group (gid ${gid}, ${octal(mode)}), which may replace what is in it: chmod g-w it`
}
