// Review tables: a question a column, a document a row, generated answers and what people wrote over them (spec §2.6).
import { below, dice, mix, pick, streamSeed } from './random.ts'

export interface ReviewTable {
  readonly id: number
  readonly title: string
  readonly createdUs: number
  readonly fileIds: readonly string[]
  readonly columns: readonly string[]
  readonly seed: number
  /** how often its answers were generated */
  runs: number
  /** by file and column */
  readonly edits: Map<string, CellEdit>
}

/** What a person set; what is left out stays as generated. */
export interface CellEdit {
  readonly summary?: string
  readonly additional_context?: string
  readonly verified?: boolean
  readonly flagged?: boolean
}

const columns: readonly string[] = [
  'Governing law',
  'Term',
  'Change of control',
  'Liability cap',
  'Assignment',
  'Notice period',
]

const answers = ['Yes', 'No', 'Not found', 'England and Wales', '24 months', 'With consent', 'EUR 2,000,000']
const reasons = [
  'Clause 14.2 says so in terms.',
  'The parties struck the sentence out in the last draft.',
  'Two schedules disagree; the later one prevails.',
  'The document is silent.',
]

const placeOf = (fileId: string, column: string) => `${fileId} ${column}`

export function editCell(table: ReviewTable, fileId: string, column: string, edit: CellEdit): void {
  const place = placeOf(fileId, column)
  table.edits.set(place, { ...table.edits.get(place), ...edit })
}

function cellOf(table: ReviewTable, fileId: string, column: string) {
  const at = mix(mix(table.seed, table.fileIds.indexOf(fileId)), table.columns.indexOf(column))
  const random = dice(mix(at, table.runs))
  const generated = {
    column,
    summary: pick(random, answers),
    additional_context: pick(random, reasons),
    citations: [{ file_id: fileId, page: below(random, 40) + 1, quote: pick(random, reasons) }],
    verified: false,
    flagged: random() < 0.1,
  }
  return { ...generated, ...table.edits.get(placeOf(fileId, column)) }
}

/** Cells as shown: what a user wrote before what was generated. Undefined when the file has no row. */
export function rowOf(table: ReviewTable, fileId: string) {
  if (!table.fileIds.includes(fileId)) return undefined
  return { file_id: fileId, cells: table.columns.map((column) => cellOf(table, fileId, column)) }
}

interface NewReview {
  readonly id: number
  readonly title: string
  readonly atUs: number
  readonly fileIds: readonly string[]
  readonly seed: number
}

/** Some of its cells were looked through by somebody already. */
export function makeReview({ id, title, atUs, fileIds, seed }: NewReview): ReviewTable {
  const random = dice(streamSeed(seed, 'review'))
  const table: ReviewTable = {
    id,
    title,
    createdUs: atUs,
    fileIds,
    columns: columns.filter((_, i) => i === 0 || random() < 0.6),
    seed,
    runs: 1,
    edits: new Map(),
  }
  for (const fileId of fileIds)
    for (const column of table.columns)
      if (random() < 0.1) editCell(table, fileId, column, { summary: 'Checked by hand', verified: true })
  return table
}
