// The small number that represents a source of a workspace in every table.
import type { Database } from 'better-sqlite3'
import type { ConfiguredWorkspace } from '../../contracts/journal.ts'
import type { Stream, SourceName } from '../../contracts/source.ts'
import type { Log } from '../../core/log.ts'
import { LEFT, MET, StreamIds, workspaceReport } from '../rules/streams.ts'
import type { StateTable } from './state.ts'

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

/** Call inside a transaction. */
export function reportWorkspaces(
  db: Database,
  state: StateTable,
  configured: readonly ConfiguredWorkspace[],
  log: Log,
): void {
  const known = db.prepare<[], string>('SELECT DISTINCT workspace FROM sources ORDER BY workspace').pluck()
  const noted = db
    .prepare<[string, string], string>('SELECT name FROM state WHERE name GLOB ? OR name GLOB ?')
    .pluck()
  const { change, report } = workspaceReport(configured, known.all(), noted.all(`${LEFT}*`, `${MET}*`))
  state.write(change)
  report(log)
}
