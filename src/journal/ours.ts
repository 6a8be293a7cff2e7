// Whether a SQLite file is a journal of this program: what another one keeps in its own is neither read nor changed.
import type { Database } from 'better-sqlite3'
import { ConnectorError } from '../model/errors.ts'

/** SQLite's mark of whose a file is: "afJr", in a place that each of its files has. */
export const APPLICATION_ID = 0x61664a72
/** Journals up to this schema bear no mark. */
const LAST_UNMARKED = 4
/** They have had these tables from the first on. */
const TELLING = ['chunks', 'intents', 'dead_letters', 'quarantine'] as const

/** Before anything is set in the file: the mode of its log is written into it. */
export function refuseForeign(db: Database, path: string): void {
  if (isOurs(db)) return
  throw new ConnectorError(
    'config_invalid',
    `The file ${path} is a SQLite database of another program and no journal; nothing in it was changed. Set journal.path to a journal of this program, or to a file that is not there yet`,
  )
}

function isOurs(db: Database): boolean {
  const number = (name: string) => db.pragma(name, { simple: true }) as number
  const mark = number('application_id')
  if (mark !== 0) return mark === APPLICATION_ID
  const names = db.prepare<[], string>('SELECT name FROM sqlite_master').pluck().all()
  const version = number('user_version')
  if (version === 0) return names.length === 0
  return version <= LAST_UNMARKED && TELLING.every((name) => names.includes(name))
}
