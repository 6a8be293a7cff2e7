// What the system says of a file, in the words of our own closed list of codes.
// None of them ends the process: a sink's files may lie on a mount that goes away, and others are to have theirs meanwhile.
import { ConnectorError, errnoOf, isNoRoom, OUT_OF_FILES } from '../model/errors.ts'

const PLACE = 'check that its folder can be made and that this user may write there'

/** What somebody has to put right, with what to do. */
const wrong: Readonly<Record<string, string>> = {
  EACCES: PLACE,
  EPERM: PLACE,
  ENOENT: PLACE,
  ENOTDIR: PLACE,
  EISDIR: PLACE,
  EROFS: PLACE,
  ELOOP: PLACE,
  ENAMETOOLONG: PLACE,
  EEXIST: PLACE,
  EXDEV: PLACE,
  EBUSY: PLACE,
  ENXIO: PLACE,
  EMFILE: OUT_OF_FILES,
  ENFILE: OUT_OF_FILES,
}

const BY_ITSELF = 'and it goes on by itself'
/** What makes room. */
const remedies: Readonly<Record<string, string>> = {
  EDQUOT: `make room or raise the quota, ${BY_ITSELF}`,
  EFBIG:
    'set rotate.max_bytes below what a file may become here, or raise that limit (ulimit -f, LimitFSIZE) and start again',
}

/** Told as the journal tells it, which may be on the same disk: the fact, what to do, and the path last, since it may be long. */
function noRoom(code: string, what: string, path: string, cause: unknown): ConnectorError {
  const remedy = remedies[code] ?? `make room, ${BY_ITSELF}`
  return new ConnectorError('disk_full', `${what} (${code}): ${remedy}. The path is ${path}`, { cause })
}

const isSystems = (code: string): boolean => /^(E[A-Z0-9]+$|Unknown system error )/.test(code)

/** The error that an operator can act on; `doing` is such as "write". */
export function diskError(doing: string, path: string, cause: unknown): ConnectorError {
  const code = errnoOf(cause)
  const what = `cannot ${doing} ${path} (${code})`
  if (isNoRoom(code)) return noRoom(code, `cannot ${doing}`, path, cause)
  const next = wrong[code]
  if (next !== undefined) return new ConnectorError('misconfigured', `${what}: ${next}`, { cause })
  const away = 'the disk, or what is mounted there, does not answer as it should; check it'
  // ESTALE, ENOTCONN, EHOSTDOWN, EIO and whatever else a file system may say while it is away.
  if (isSystems(code)) return new ConnectorError('unreachable', `${what}: ${away}`, { cause })
  return new ConnectorError('disk_failed', `${what}: the call itself is at fault, please report it`, {
    cause,
  })
}

/** The kernel may have dropped the pages that it could not write, and tells it once: only what is written anew is there. */
export function syncError(path: string, cause: unknown): ConnectorError {
  const code = errnoOf(cause)
  const what = `cannot sync ${path} (${code})`
  const next = 'what was written may be lost and is written anew'
  if (isNoRoom(code)) return noRoom(code, `cannot sync, ${next}`, path, cause)
  const check = 'check the disk, or what is mounted there'
  return new ConnectorError('unreachable', `${what}: ${next}; ${check}`, { cause })
}
