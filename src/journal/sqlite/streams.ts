// The small number that represents a source of a workspace in every table.
import type { Database } from 'better-sqlite3'
import type { ConfiguredWorkspace } from '../../contracts/journal.ts'
import type { Stream, SourceName } from '../../contracts/source.ts'
import type { Log } from '../../core/log.ts'
import { StreamIds, logLeftWorkspace, logNewWorkspace } from '../rules/streams.ts'

export class Streams extends StreamIds {
  readonly #insert

  constructor(db: Database) {
    super()
    this.#insert = db.prepare<[string, string]>('INSERT INTO sources (workspace, source) VALUES (?, ?)')
    const rows = db.prepare<[], { id: number; workspace: string; source: SourceName }>(
      'SELECT id, workspace, source FROM sources',
    )
    for (const { id, workspace, source } of rows.all()) this.remember(id, { workspace, source })
  }

  /** Call inside a transaction; `remember` the result once that has landed. */
  insert({ workspace, source }: Stream): number {
    return Number(this.#insert.run(workspace, source).lastInsertRowid)
  }
}

// Reports workspaces that are new to the journal, and known ones that left the configuration: a
// renamed one is both.

/** For one with pages that left the configuration. */
const LEFT = 'workspace_left:'
/** For a configured one: its first page may land much later. */
const MET = 'workspace_met:'

/** Call inside a transaction. Reports each once; none in an empty journal, where all are new. */
export function reportWorkspaces(db: Database, configured: readonly ConfiguredWorkspace[], log: Log): void {
  const known = db
    .prepare<[], string>('SELECT DISTINCT workspace FROM sources ORDER BY workspace')
    .pluck()
    .all()
  const isThere = new Set(configured.map(({ name }) => name))
  const forget = db.prepare('DELETE FROM state WHERE name = ?')
  const add = db.prepare("INSERT OR IGNORE INTO state VALUES (?, '')")
  const isNew = (name: string) => add.run(name).changes > 0
  for (const workspace of configured)
    if (isNew(MET + workspace.name) && known.length > 0 && !known.includes(workspace.name))
      logNewWorkspace(log, workspace)
  for (const workspace of met(db)) if (!isThere.has(workspace)) forget.run(MET + workspace)
  for (const workspace of known)
    if (isThere.has(workspace)) forget.run(LEFT + workspace)
    else if (isNew(LEFT + workspace)) logLeftWorkspace(log, workspace)
}

function met(db: Database): readonly string[] {
  const list = db.prepare<[number, string], string>('SELECT substr(name, ?) FROM state WHERE name GLOB ?')
  return list.pluck().all(MET.length + 1, `${MET}*`)
}
