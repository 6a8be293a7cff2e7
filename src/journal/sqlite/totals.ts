// Totals for operators since the journal began, and the last findings: read from the disk once, so
// that reading the stats costs no query.
import type { Append, JournalStats } from '../../contracts/journal.ts'
import type { FindingRecord } from '../../contracts/records.ts'
import type { Appended } from '../../contracts/source.ts'
import type { Core } from './core.ts'
import type { Quarantine } from './quarantine.ts'
import type { Streams } from './streams.ts'

/** This many are returned with the totals; all of them stay stored. */
const LAST_FINDINGS = 10

type Stats = Pick<JournalStats, 'quarantined' | 'gaps' | 'findings' | 'lastFindings'>
type Sums = Pick<Stats, 'gaps' | 'findings'>

export class Totals {
  readonly #lastOnDisk: () => readonly FindingRecord[]
  readonly #quarantine: Quarantine
  #sums: Sums
  #last: readonly FindingRecord[]

  constructor(core: Core) {
    this.#quarantine = core.quarantine
    const last = core.db.prepare<[number], FindingRow>(
      'SELECT source, kind, entry_id AS entryId, at AS entryUs, found_at AS foundAt FROM findings ORDER BY id DESC LIMIT ?',
    )
    this.#lastOnDisk = () =>
      core.transactions.read(() => last.all(LAST_FINDINGS).map((row) => findingOf(core.streams, row)))
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
    return { quarantined: this.#quarantine.stored.count, ...this.#sums, lastFindings: this.#last }
  }
}

type FindingRow = Pick<FindingRecord, 'kind' | 'foundAt'> & {
  source: number
  entryId: Buffer
  entryUs: number | null
}

function findingOf(streams: Streams, { source, entryId, entryUs, ...row }: FindingRow): FindingRecord {
  const stream = streams.stream(source)
  return { ...row, stream, entryId: entryId.toString(), entryUs: entryUs ?? undefined }
}
