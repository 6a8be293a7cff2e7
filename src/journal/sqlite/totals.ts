// Totals for operators since the journal began: read from the disk once, so that reading the stats
// costs no query.
import type { Database } from 'better-sqlite3'
import type { Append, JournalStats } from '../../contracts/journal.ts'
import type { FindingRecord } from '../../contracts/records.ts'
import type { Appended } from '../../contracts/source.ts'
import type { Core } from './core.ts'
import type { Quarantine } from './quarantine.ts'

/** This many are returned with the totals; all of them stay stored. */
const LAST_FINDINGS = 10

type Stats = Pick<JournalStats, 'quarantined' | 'gaps' | 'findings' | 'lastFindings'>
type Sums = Pick<Stats, 'gaps' | 'findings'>

export class Totals {
  readonly #lastOnDisk: () => readonly FindingRecord[]
  readonly #quarantine: Quarantine
  #sums: Sums
  #last: readonly FindingRecord[]

  constructor(core: Core, statement: FindingStatement) {
    this.#quarantine = core.quarantine
    this.#lastOnDisk = () => core.transactions.read(() => list(core, statement, LAST_FINDINGS))
    const sums = core.db.prepare<[], Sums>(
      'SELECT (SELECT total(gaps) FROM sources) AS gaps, (SELECT count(*) FROM findings) AS findings',
    )
    this.#sums = { gaps: 0, findings: 0, ...sums.get() }
    this.#last = this.#lastOnDisk()
  }

  add({ gaps }: Append, appended: Appended): void {
    const sums = this.#sums
    this.#sums = { gaps: sums.gaps + gaps, findings: sums.findings + appended.findings }
    if (appended.findings > 0) this.#last = this.#lastOnDisk()
  }

  get stats(): Stats {
    return { quarantined: this.#quarantine.held.count, ...this.#sums, lastFindings: this.#last }
  }
}

// Reading findings: audit fetches under our user that none of our instances made.

interface FindingRow {
  source: number
  kind: FindingRecord['kind']
  entry_id: Buffer
  at: number | null
  found_at: number
}

export type FindingStatement = ReturnType<typeof prepareFindings>

export function prepareFindings(db: Database) {
  return db.prepare<[number], FindingRow>(
    'SELECT source, kind, entry_id, at, found_at FROM findings ORDER BY id DESC LIMIT ?',
  )
}

/** Newest first. */
export function list({ origins }: Core, statement: FindingStatement, limit: number): FindingRecord[] {
  return statement.all(limit).map(({ source, kind, entry_id, at, found_at }) => ({
    stream: origins.stream(source),
    kind,
    entryId: entry_id.toString(),
    entryUs: at ?? undefined,
    foundAt: found_at,
  }))
}
