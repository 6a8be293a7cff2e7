// Which entries of the current page a replay has sent. Kept in memory and in state entries until
// the page is complete, so that neither a broken answer nor a restart sends them twice.
import { createHash } from 'node:crypto'
import type { Entries } from '../contracts/entries.ts'
import type { JobSpan } from '../contracts/jobs.ts'
import type { Append, State, StateChange } from '../contracts/journal.ts'
import { entryOf, keyOf } from './record.ts'
import type { JobRecord, JobState } from './record.ts'

/** Of all replays, some 50 MB. Entries beyond that are sent again if their answer breaks off. */
const MOST_MARKS = 500_000
/** Each state entry has at least one mark. */
const MOST_ENTRIES = MOST_MARKS + 1_000

/** Prefix of the names of the current page's state entries. */
const pagePrefix = (record: Pick<JobRecord, 'sink' | 'stream'>) => `replay-page:${keyOf(record)}:`

const MARK_LENGTH = 16

/** Identifies an entry of a page by id and content: 96 bits. @internal for tests */
export function markOf(entries: Entries, index: number): string {
  const digest = createHash('sha256').update(entries.id(index)).update('\n').update(entries.raw(index))
  return digest.digest('base64url').slice(0, MARK_LENGTH)
}

/** The mark of a malformed element, from the hash of its bytes. */
const markOfHash = (sha256: string): string => sha256.slice(0, MARK_LENGTH)

/** @internal for tests */
export function marksIn(value: string): string[] {
  return Array.from({ length: value.length / MARK_LENGTH }, (_, i) =>
    value.slice(i * MARK_LENGTH, (i + 1) * MARK_LENGTH),
  )
}

/** The entries in the span that were not sent from this page before, each once. */
export function unsentOf(
  { sent }: Pick<JobState, 'sent'>,
  { entries: all, quarantined }: Pick<Append, 'entries' | 'quarantined'>,
  { fromUs, toUs }: JobSpan,
) {
  const entries = all.between(fromUs, toUs)
  const marks: string[] = []
  const fresh: number[] = []
  const met = new Set<string>()
  const isNew = (mark: string) => !sent.has(mark) && met.size < met.add(mark).size
  for (let i = 0; i < entries.count; i++) {
    const mark = markOf(entries, i)
    if (!isNew(mark)) continue
    fresh.push(i)
    marks.push(mark)
  }
  const bad = quarantined.map(({ sha256 }) => markOfHash(sha256)).filter(isNew)
  return { entries, fresh, marks: [...marks, ...bad], malformed: bad.length }
}

/** How a page chunk changes its page. */
interface PageUpdate {
  /** the job's, with this page chunk */
  readonly record: JobRecord
  readonly marks: readonly string[]
  /** the page is complete, and nothing of it can come again */
  readonly isWhole: boolean
}

interface SentPagesOptions {
  readonly state: State
  /** all running jobs: they share the bound on marks */
  readonly open: () => readonly JobState[]
  readonly mostMarks: number | undefined
}

export class SentPages {
  readonly #options: SentPagesOptions
  /** marks that are being written */
  #marksInFlight = 0

  constructor(options: SentPagesOptions) {
    this.#options = options
  }

  /** Names of the state entries for a sink and stream, of this job or an earlier one. */
  async entriesOf(record: Pick<JobRecord, 'sink' | 'stream'>): Promise<string[]> {
    return (await this.#read(record)).map(({ name }) => name)
  }

  /** Call before the job continues. */
  async load(job: JobState): Promise<void> {
    if (job.isLoaded) return
    for (const { name, value } of await this.#read(job.record)) {
      job.pageEntries.push(name)
      for (const mark of marksIn(value)) job.sent.add(mark)
    }
    job.isLoaded = true
  }

  /** Writes entries and marks in one transaction with `write`, and remembers what was sent. */
  async land(
    job: JobState,
    { record, marks, isWhole }: PageUpdate,
    write: (change: StateChange) => Promise<void>,
  ): Promise<void> {
    const kept = isWhole ? [] : marks.slice(0, this.#left())
    const number = String(job.pageEntries.length).padStart(6, '0')
    const page = { name: `${pagePrefix(job.record)}${number}`, value: kept.join('') }
    this.#marksInFlight += kept.length
    try {
      const put = [entryOf(job, record), ...(kept.length > 0 ? [page] : [])]
      await write({ drop: isWhole ? job.pageEntries : [], put })
    } finally {
      this.#marksInFlight -= kept.length
    }
    if (isWhole) clear(job)
    else if (kept.length > 0) job.pageEntries.push(page.name)
    for (const mark of kept) job.sent.add(mark)
  }

  /** After the end of the span these pages do not come again. */
  async forget(job: JobState): Promise<void> {
    const { pageEntries: drop } = job
    if (drop.length > 0) await this.#options.state.change({ drop, put: [] })
    clear(job)
  }

  #read(record: Pick<JobRecord, 'sink' | 'stream'>) {
    return this.#options.state.list(pagePrefix(record), MOST_ENTRIES)
  }

  #left(): number {
    const { open, mostMarks = MOST_MARKS } = this.#options
    const inUse = open().reduce((sum, { sent }) => sum + sent.size, this.#marksInFlight)
    return Math.max(0, mostMarks - inUse)
  }
}

function clear(job: JobState): void {
  job.pageEntries = []
  job.sent.clear()
}
