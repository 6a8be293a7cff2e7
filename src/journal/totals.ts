// What a person should look at, summed up since the journal began: read from the disk once, so that who asks for the stats costs it nothing.
import type { Appended } from '../model/appended.ts'
import type { Append, JournalStats } from '../model/journal.ts'
import type { FindingRecord } from '../model/set-aside.ts'
import type { Core } from './core.ts'
import { type FindingStatement, list } from './findings.ts'
import type { Quarantine } from './quarantine.ts'

/** So many are told with the totals; all of them stay. */
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
