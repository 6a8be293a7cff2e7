// The small number that stands for a source of a workspace in every table.
import type { Database } from 'better-sqlite3'
import type { Origin, SourceName } from '../model/source.ts'

export class Origins {
  readonly #ids = new Map<string, number>()
  readonly #origins = new Map<number, Origin>()
  readonly #insert

  constructor(db: Database) {
    this.#insert = db.prepare<[string, string]>('INSERT INTO sources (workspace, source) VALUES (?, ?)')
    const rows = db.prepare<[], { id: number; workspace: string; source: SourceName }>(
      'SELECT id, workspace, source FROM sources',
    )
    for (const { id, workspace, source } of rows.all()) this.remember(id, { workspace, source })
  }

  /** Inside a transaction; `remember` the answer when that has landed. */
  insert({ workspace, source }: Origin): number {
    return Number(this.#insert.run(workspace, source).lastInsertRowid)
  }

  find(origin: Origin): number | undefined {
    return this.#ids.get(nameOf(origin))
  }

  origin(id: number): Origin {
    const origin = this.#origins.get(id)
    if (origin === undefined) throw new Error(`The journal has no source ${id}`)
    return origin
  }

  remember(id: number, { workspace, source }: Origin): number {
    this.#ids.set(nameOf({ workspace, source }), id)
    this.#origins.set(id, { workspace, source })
    return id
  }
}

function nameOf({ workspace, source }: Origin): string {
  return `${workspace} ${source}`
}
