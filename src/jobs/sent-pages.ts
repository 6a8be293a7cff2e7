// What replays have sent of the pages they are in: remembered until a page is whole, in memory and in state entries that land with its entries, so that neither an answer that breaks off nor a restart sends it twice.
import { createHash } from 'node:crypto'
import type { Entries } from '../contracts/entries.ts'
import type { JobSpan } from '../contracts/jobs.ts'
import type { Append, Journal } from '../contracts/journal.ts'
import type { NoteChange } from '../contracts/records.ts'
import { entryOf, keyOf } from './record.ts'
import type { JobRecord, JobState } from './record.ts'

/** Of all replays together, however many streams they read: what an answer shows beyond comes once more where it breaks off behind it. Some 50 MB remember these. */
const MOST_MARKS = 500_000
/** An entry holds one mark at least. */
const MOST_ENTRIES = MOST_MARKS + 1_000

/** Entries of the page under way begin like this. */
const pagePrefix = (record: Pick<JobRecord, 'sink' | 'origin'>) => `replay-page:${keyOf(record)}:`

const MARK_LENGTH = 16

/** Tells an entry of a page from the others, by id and content: 96 bits. @internal for tests */
export function markOf(entries: Entries, index: number): string {
  const digest = createHash('sha256').update(entries.id(index)).update('\n').update(entries.raw(index))
  return digest.digest('base64url').slice(0, MARK_LENGTH)
}

/** The mark of what is no entry: by the hash of its bytes. */
const markOfHash = (sha256: string): string => sha256.slice(0, MARK_LENGTH)

/** @internal for tests */
export function marksIn(value: string): string[] {
  return Array.from({ length: value.length / MARK_LENGTH }, (_, i) =>
    value.slice(i * MARK_LENGTH, (i + 1) * MARK_LENGTH),
  )
}

/** What of a part lies in the span, and was not sent from this page before: once, however often the part has it. */
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

/** What a part that is being written to the journal changes of its page. */
interface PageUpdate {
  /** as it is with this part */
  readonly record: JobRecord
  readonly marks: readonly string[]
  /** with this part its page is whole, and nothing of it can come again */
  readonly isWhole: boolean
}

interface SentPagesOptions {
  readonly journal: Pick<Journal, 'notes' | 'changeNotes'>
  /** all that are under way: they share what may be remembered */
  readonly open: () => readonly JobState[]
  readonly mostMarks: number | undefined
}

export class SentPages {
  readonly #options: SentPagesOptions
  /** marks of parts that are being written */
  #marksInFlight = 0

  constructor(options: SentPagesOptions) {
    this.#options = options
  }

  /** Names of the entries that are in the journal for a sink and stream, of this job or of one before it. */
  async entriesOf(record: Pick<JobRecord, 'sink' | 'origin'>): Promise<string[]> {
    return (await this.#read(record)).map(({ name }) => name)
  }

  /** Before it is read on. */
  async load(job: JobState): Promise<void> {
    if (job.isLoaded) return
    for (const { name, value } of await this.#read(job.record)) {
      job.pageEntries.push(name)
      for (const mark of marksIn(value)) job.sent.add(mark)
    }
    job.isLoaded = true
  }

  /** Has `write` put the entries and the marks in one transaction, and remembers what was sent. */
  async land(
    job: JobState,
    { record, marks, isWhole }: PageUpdate,
    write: (change: NoteChange) => Promise<void>,
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

  /** What comes behind the span's end shows nothing of these pages again. */
  async forget(job: JobState): Promise<void> {
    const { pageEntries: drop } = job
    if (drop.length > 0) await this.#options.journal.changeNotes({ drop, put: [] })
    clear(job)
  }

  #read(record: Pick<JobRecord, 'sink' | 'origin'>) {
    return this.#options.journal.notes(pagePrefix(record), MOST_ENTRIES)
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
