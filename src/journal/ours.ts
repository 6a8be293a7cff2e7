// Whether a SQLite file is a journal of this program: what another one keeps in its own is neither read nor changed.
import type { Database } from 'better-sqlite3'
import { ConnectorError } from '../model/errors.ts'
import { isJournal } from '../model/journal-mark.ts'

/** Before anything is set in the file: the mode of its log is written into it. */
export function refuseForeign(db: Database, path: string): void {
  const number = (name: string) => db.pragma(name, { simple: true }) as number
  const [mark, version] = [number('application_id'), number('user_version')]
  const names = db.prepare<[], string>('SELECT name FROM sqlite_master').pluck().all()
  if (isJournal({ mark, version, isEmpty: names.length === 0, hasTable: (name) => names.includes(name) }))
    return
  throw new ConnectorError(
    'config_invalid',
    `The file ${path} is a SQLite database of another program and no journal; nothing in it was changed. Set journal.path to a journal of this program, or to a file that is not there yet`,
  )
}
