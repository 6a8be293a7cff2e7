// What replays have sent of the pages they are in: remembered until a page is whole, in memory and in notes that land with its entries, so that neither an answer that breaks off nor a restart sends it twice.
import { createHash } from 'node:crypto'
import type { Entries } from '../model/entries.ts'
import type { Append, Journal } from '../model/journal.ts'
import type { NoteChange } from '../model/note.ts'
import type { PastSpan } from '../model/past.ts'
import { noteText } from './notes.ts'
import { jobOf } from './orders.ts'
import type { Job } from './orders.ts'
import { nameOf, pagePrefix } from './replay-order.ts'
import type { StoredReplay } from './replay-order.ts'

/** Of all replays together, however many sources they read: what an answer shows beyond comes once more where it breaks off behind it. Some 50 MB remember these. */
const MOST_MARKS = 500_000
/** A note holds one mark at least. */
const MOST_NOTES = MOST_MARKS + 1_000

/** A replay, and what of the page under way it has sent. */
export interface ReplayJob extends Job<StoredReplay> {
  /** what of the page under way was sent already, by this process or the one before */
  readonly sent: Set<string>
  /** names of the notes that say so */
  pageNotes: string[]
  /** both are here: of one that a restart found they are read when its turn comes */
  isLoaded: boolean
}

export const replayJobOf = (order: StoredReplay, atUs?: number): ReplayJob => ({
  ...jobOf(order, atUs),
  sent: new Set<string>(),
  pageNotes: [],
  isLoaded: false,
})

const MARK_LENGTH = 16

/** Tells an entry of a page from the others, by id and content: 96 bits. @internal for tests */
export function markOf(entries: Entries, index: number): string {
  const digest = createHash('sha256').update(entries.id(index)).update('\n').update(entries.raw(index))
  return digest.digest('base64url').slice(0, MARK_LENGTH)
}

/** The mark of what is no entry: by the hash of its bytes. */
const markOfHash = (sha256: string): string => sha256.slice(0, MARK_LENGTH)

/** @internal for tests */
export function marksIn(note: string): string[] {
  return Array.from({ length: note.length / MARK_LENGTH }, (_, i) =>
    note.slice(i * MARK_LENGTH, (i + 1) * MARK_LENGTH),
  )
}

/** What of a part lies in the span, and was not sent from this page before: once, however often the part has it. */
export function unsentOf(
  { sent }: Pick<ReplayJob, 'sent'>,
  { entries: all, quarantined }: Pick<Append, 'entries' | 'quarantined'>,
  { fromUs, toUs }: PastSpan,
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

/** What a part that is on its way into the journal changes of its page. */
interface PageUpdate {
  /** as it stands with this part */
  readonly order: StoredReplay
  readonly marks: readonly string[]
  /** with this part its page is whole, and nothing of it can come again */
  readonly isWhole: boolean
}

interface SentPagesOptions {
  readonly journal: Pick<Journal, 'notes' | 'changeNotes'>
  /** all that are under way: they share what may be remembered */
  readonly open: () => readonly ReplayJob[]
  readonly mostMarks: number | undefined
}

export class SentPages {
  readonly #options: SentPagesOptions
  /** marks of parts that are on their way into the journal */
  #marksOnTheirWay = 0

  constructor(options: SentPagesOptions) {
    this.#options = options
  }

  /** Names of the notes that stand in the journal for an order's sink and source, whoever left them. */
  async notesOf(order: Pick<StoredReplay, 'sink' | 'origin'>): Promise<string[]> {
    return (await this.#read(order)).map(({ name }) => name)
  }

  /** Before it is read on. */
  async load(job: ReplayJob): Promise<void> {
    if (job.isLoaded) return
    for (const { name, value } of await this.#read(job.order)) {
      job.pageNotes.push(name)
      for (const mark of marksIn(value)) job.sent.add(mark)
    }
    job.isLoaded = true
  }

  /** Has `write` put the entries and the notes in one transaction, and remembers what was sent. */
  async land(
    job: ReplayJob,
    { order, marks, isWhole }: PageUpdate,
    write: (notes: NoteChange) => Promise<void>,
  ): Promise<void> {
    const kept = isWhole ? [] : marks.slice(0, this.#left())
    const note = { name: nameOf(order), value: noteText(order, job) }
    const page = { name: nextName(job), value: kept.join('') }
    this.#marksOnTheirWay += kept.length
    try {
      const put = kept.length > 0 ? [note, page] : [note]
      await write({ drop: isWhole ? job.pageNotes : [], put })
    } finally {
      this.#marksOnTheirWay -= kept.length
    }
    if (isWhole) clear(job)
    else if (kept.length > 0) job.pageNotes.push(page.name)
    for (const mark of kept) job.sent.add(mark)
  }

  /** What comes behind the span's end shows nothing of these pages again. */
  async forget(job: ReplayJob): Promise<void> {
    const { pageNotes: drop } = job
    if (drop.length > 0) await this.#options.journal.changeNotes({ drop, put: [] })
    clear(job)
  }

  #read(order: Pick<StoredReplay, 'sink' | 'origin'>) {
    return this.#options.journal.notes(pagePrefix(order), MOST_NOTES)
  }

  #left(): number {
    const { open, mostMarks = MOST_MARKS } = this.#options
    const held = open().reduce((sum, { sent }) => sum + sent.size, this.#marksOnTheirWay)
    return Math.max(0, mostMarks - held)
  }
}

function nextName({ order, pageNotes }: ReplayJob): string {
  return `${pagePrefix(order)}${String(pageNotes.length).padStart(6, '0')}`
}

function clear(job: ReplayJob): void {
  job.pageNotes = []
  job.sent.clear()
}
