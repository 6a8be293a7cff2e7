// Turns what SQLite and the file system throw into the errors that the conductors decide by.
import { ConnectorError, errnoOf } from '../model/errors.ts'
import { holderOf } from './holder.ts'
import { type LimitReached, limitReachedAt } from './limits.ts'
import { diskFull, RAISE_LIMIT } from './no-room.ts'

export function corrupt(path: string, what: string, cause?: unknown): ConnectorError {
  return new ConnectorError(
    'journal_corrupt',
    `The journal ${path} is damaged (${what}). Stop the program and move ${path} and ${path}-wal aside together, or put both back from a backup; ` +
      'with a new journal reading begins again at the configured start and entries may be sent again. Neither file is ever deleted by this program',
    { cause },
  )
}

/** A file of whatever kind, and nothing beside it says that it was ours: nobody is told to move what may be somebody else's. */
export function noJournal(path: string, cause?: unknown): ConnectorError {
  return new ConnectorError(
    'config_invalid',
    `The file ${path} is no journal, and is left as it is: set journal.path to a journal of this program, or to a file that is not there yet. Were it the journal once, and damaged, put it back from a copy`,
    { cause },
  )
}

export function inUse(path: string, cause?: unknown): ConnectorError {
  const pid = holderOf(path)
  const who = pid === undefined ? '' : ` (pid ${pid})`
  return new ConnectorError(
    'journal_in_use',
    `The journal ${path} is in use by another process${who}: stop that one, or set journal.path to another file and give each file sink a file of its own`,
    { cause },
  )
}

function atLimit(path: string, limit: unknown): ConnectorError {
  if (errnoOf(limit) === 'EDQUOT') {
    const remedy = { what: 'make room or raise the quota' }
    return diskFull(path, { remedy, why: 'the quota of this user or this folder is used up' }, limit)
  }
  const why = 'a file may not become larger here, by a limit of this process or of the file system'
  return diskFull(path, { remedy: RAISE_LIMIT, why }, limit)
}

/** What a limit looks like from here: of a write, and of a file that SQLite would make. A sync is another matter. */
const MAYBE_LIMIT = new Set(['SQLITE_IOERR_WRITE', 'SQLITE_CANTOPEN'])

/** What is no fault of the disk or the file comes back as it is: a bug, to stop the process. */
export function translate(
  error: unknown,
  path: string,
  limitReached: LimitReached = limitReachedAt,
): unknown {
  if (error instanceof ConnectorError) return error
  const code = errnoOf(error, '')
  if (code === 'SQLITE_FULL' || code === 'ENOSPC' || code === 'EDQUOT')
    return diskFull(path, { why: 'the disk is full or the file has reached its bound' }, error)
  const limit = MAYBE_LIMIT.has(code) ? limitReached(path) : undefined
  if (limit !== undefined) return atLimit(path, limit)
  if (code.startsWith('SQLITE_IOERR') || code === 'EIO') {
    return new ConnectorError(
      'disk_failed',
      `Reading or writing the journal ${path} failed (${code}): what the disk holds is uncertain until the file is opened again; check the disk and the system's log`,
      { cause: error },
    )
  }
  if (code.startsWith('SQLITE_CORRUPT') || code === 'SQLITE_NOTADB') return corrupt(path, code, error)
  if (code.startsWith('SQLITE_BUSY') || code.startsWith('SQLITE_LOCKED')) return inUse(path, error)
  if (/^E(NOENT|EXIST|LOOP|NAMETOOLONG)$/.test(code)) {
    return new ConnectorError(
      'config_invalid',
      `The folder of the journal ${path} cannot be made (${code}): a link on its way may lead nowhere, as when a volume is not mounted; mount it, or set journal.path to a file whose folder is there or can be made`,
      { cause: error },
    )
  }
  if (/^(SQLITE_(CANTOPEN|READONLY|PERM|AUTH)|E(ACCES|PERM|ROFS|NOTDIR|ISDIR)$)/.test(code)) {
    return new ConnectorError(
      'config_invalid',
      `The journal ${path} cannot be opened for writing (${code}): make its folder writable for this user, or set journal.path to another file, which may not be a folder`,
      { cause: error },
    )
  }
  return error
}
