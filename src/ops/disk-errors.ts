// What the system says of a file, in the words of our own closed list of codes.
import { ConnectorError, errnoOf } from '../model/errors.ts'

const full = new Set(['ENOSPC', 'EDQUOT', 'EFBIG'])
const wrong = new Set([
  'EACCES',
  'EPERM',
  'ENOENT',
  'ENOTDIR',
  'EISDIR',
  'EROFS',
  'ELOOP',
  'ENAMETOOLONG',
  'EEXIST',
  'EXDEV',
  'EBUSY',
  'ENXIO',
])

/** The error that an operator can act on; `doing` is such as "write". */
export function diskError(doing: string, path: string, cause: unknown): ConnectorError {
  const code = errnoOf(cause)
  const what = `cannot ${doing} ${path} (${code})`
  if (full.has(code))
    return new ConnectorError('disk_full', `${what}: no room left; free some space`, { cause })
  if (wrong.has(code)) {
    const next = 'check that its folder can be made and that this user may write there'
    return new ConnectorError('misconfigured', `${what}: ${next}`, { cause })
  }
  return new ConnectorError('disk_failed', `${what}: the disk did not keep its word; check the disk`, {
    cause,
  })
}
