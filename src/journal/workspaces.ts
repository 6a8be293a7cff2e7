// Telling of workspaces that are new to the journal, and of those that it knows and the configuration has no more: a renamed one is both.
import type { Database } from 'better-sqlite3'
import type { Log } from '../model/log.ts'

/** A workspace of the configuration. */
export interface Configured {
  readonly name: string
  /** as the log is to tell them: from where on what is read of it */
  readonly starts: Readonly<Record<string, string>>
}

const LEFT = 'workspace_left:'

/** Inside a transaction. Of an empty journal all is new, and nothing is told. */
export function tellWorkspaces(db: Database, configured: readonly Configured[], log: Log): void {
  const known = db
    .prepare<[], string>('SELECT DISTINCT workspace FROM sources ORDER BY workspace')
    .pluck()
    .all()
  if (known.length === 0) return
  for (const { name: workspace, starts } of configured)
    if (!known.includes(workspace))
      log.info(
        'A workspace that the journal has not met is read from its start on, and all of that is sent: a renamed one too',
        { workspace, ...starts },
      )
  const isThere = new Set(configured.map(({ name }) => name))
  const forget = db.prepare('DELETE FROM notes WHERE name = ?')
  const note = db.prepare("INSERT OR IGNORE INTO notes VALUES (?, '')")
  for (const workspace of known)
    if (isThere.has(workspace)) forget.run(LEFT + workspace)
    else if (note.run(LEFT + workspace).changes > 0)
      log.warn(
        'A workspace left the configuration: nothing more of it is read. Under its old name it goes on where it was; under another it is a new one',
        { workspace },
      )
}
