// The vault's names, files and review tables, and a project's bytes in the listing (spec §2.5).
import type { Random } from '../core/clock.ts'
import { below, dice, listOf, mix, pick, streamSeed } from './random.ts'
import { stampOf } from './render.ts'
import type { Project, VaultFile } from './vault-state.ts'

/** The number of the workspace, and the ids of its users. */
export type Identities = Readonly<{ workspaceId: number; userId: (user: string) => string }>

export function liveFiles(project: Project): VaultFile[] {
  return project.files.filter((file) => file.deletedUs === undefined)
}

function sharingOf({ id, shares }: Project, { workspaceId, userId }: Identities) {
  const common = shares.map(({ partner, createdUs, byUser, permission }) => ({
    partner,
    createdAt: { created_at: stampOf(createdUs) },
    source: {
      permission_level: permission,
      src_user_id: userId(byUser),
      src_workspace_id: workspaceId,
      vault_folder_id: id,
    },
  }))
  const users = common.flatMap(({ partner, createdAt, source }) => {
    if (!('user' in partner)) return []
    const destination = { dest_user_email: partner.user, dest_user_id: userId(partner.user) }
    return [{ ...createdAt, ...destination, dest_workspace_id: workspaceId, ...source }]
  })
  const workspaces = common.flatMap(({ partner, createdAt, source }) =>
    'workspace' in partner ? [{ ...createdAt, dest_workspace_id: partner.workspace, ...source }] : [],
  )
  return {
    user_count: users.length,
    user_shares: users,
    workspace_count: workspaces.length,
    workspace_shares: workspaces,
  }
}

/** As in the listing. */
export function renderProject(project: Project, identities: Identities): Buffer {
  const files = liveFiles(project)
  const shown = {
    id: project.id,
    name: project.name,
    creator_email: project.creator,
    created_at: stampOf(project.createdUs),
    updated_at: stampOf(project.updatedUs),
    project_updated_at: stampOf(project.contentUs),
    files_count: files.length,
    query_count: project.queries,
    size_bytes: files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
    is_knowledge_base_project: project.knowledgeBase,
    sharing: sharingOf(project, identities),
  }
  const text = JSON.stringify(shown, null, project.spelling === 'indented' ? 2 : 0)
  return Buffer.from(project.spelling === 'escaped' ? text.replace('"id":', '"\\u0069d":') : text)
}

/** The formats that may be uploaded (spec §2.6). */
const contentTypes = new Map(
  listOf(`
    doc application/msword; docx application/vnd.openxmlformats-officedocument.wordprocessingml.document;
    xls application/vnd.ms-excel; xlsx application/vnd.openxmlformats-officedocument.spreadsheetml.sheet;
    ppt application/vnd.ms-powerpoint;
    pptx application/vnd.openxmlformats-officedocument.presentationml.presentation; txt text/plain;
    md text/markdown; html text/html; csv text/csv; rtf application/rtf; xml application/xml;
    eml message/rfc822; msg application/vnd.ms-outlook; jpeg image/jpeg; png image/png; tiff image/tiff;
    c text/x-c; cpp text/x-c++; java text/x-java; js text/javascript; json application/json;
    php application/x-php; py text/x-python; tex application/x-tex; ts text/x-typescript; rb text/x-ruby;
    css text/css
  `).map((pair) => pair.split(' ') as [extension: string, type: string]),
)

/** Undefined if files with that name cannot be uploaded. */
export function contentTypeOf(fileName: string): string | undefined {
  const extension = /\.([a-z]+)$/i.exec(fileName)?.[1]?.toLowerCase() ?? ''
  return contentTypes.get(extension)
}

const matters = 'Alder Birch Cedar Dogwood Elm Fir Ginkgo Hazel Juniper Larch Maple Oak'.split(' ')
const works = ['acquisition', 'lease review', 'due diligence', 'arbitration', 'financing', 'tender', 'audit']
const bases = ['Precedents', 'Clause library', 'Playbooks', 'Know-how', 'Market terms']
/** Legal, but careless readers break. */
const unusual = ['Žluťoučký kůň 法務 🦀', 'R&D "Phase 2" \\ final', ' leading and trailing ', 'شركة / 2026']

export function looseProjectName(random: Random, knowledgeBase: boolean): string {
  if (random() < 0.05) return pick(random, unusual)
  if (knowledgeBase) return `${pick(random, bases)} ${below(random, 9) + 1}`
  return `Project ${pick(random, matters)} ${pick(random, works)}`
}

const folders = ['', '', 'Contracts', 'Contracts/Signed', 'Correspondence', 'Data room/Finance']
const documents = ['Agreement', 'Amendment', 'Minutes', 'Memo', 'Schedule', 'Disclosure letter', 'Invoice']
const usual = ['docx', 'docx', 'docx', 'xlsx', 'pptx', 'eml', 'msg', 'txt', 'csv', 'tiff']

export interface NewFile {
  readonly name: string
  readonly folder: string
  readonly sizeBytes: number
}

export function someFile(random: Random): NewFile {
  return {
    name: `${pick(random, documents)} ${below(random, 900) + 100}.${pick(random, usual)}`,
    folder: pick(random, folders),
    sizeBytes: 2_000 + Math.floor(random() ** 4 * 40e6),
  }
}

export function reviewTitle(random: Random): string {
  return `${pick(random, documents)} review ${below(random, 90) + 10}`
}

// Review tables (spec §2.6): a question per column, a document per row, edits by people.

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

/** Values set by a person; omitted ones stay as generated. */
export interface CellEdit {
  readonly summary?: string
  readonly additional_context?: string
  readonly verified?: boolean
  readonly flagged?: boolean
}

const columns = listOf('Governing law; Term; Change of control; Liability cap; Assignment; Notice period')

const answers = ['Yes', 'No', 'Not found', 'England and Wales', '24 months', 'With consent', 'EUR 2,000,000']
const reasons = [
  'Clause 14.2 says so in terms.',
  'The parties struck the sentence out in the last draft.',
  'Two schedules disagree; the later one prevails.',
  'The document is silent.',
]

const cellKey = (fileId: string, column: string) => `${fileId} ${column}`

export function editCell(table: ReviewTable, fileId: string, column: string, edit: CellEdit): void {
  const key = cellKey(fileId, column)
  table.edits.set(key, { ...table.edits.get(key), ...edit })
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
  return { ...generated, ...table.edits.get(cellKey(fileId, column)) }
}

/** Cells as shown: edits replace generated text. Undefined if the file has no row. */
export function rowOf(table: ReviewTable, fileId: string) {
  if (!table.fileIds.includes(fileId)) return undefined
  return { file_id: fileId, cells: table.columns.map((column) => cellOf(table, fileId, column)) }
}

/** Some of its cells were already reviewed by a person. */
export function makeReview(given: Omit<ReviewTable, 'columns' | 'runs' | 'edits'>): ReviewTable {
  const random = dice(streamSeed(given.seed, 'review'))
  const asked = columns.filter((_, i) => i === 0 || random() < 0.6)
  const table: ReviewTable = { ...given, columns: asked, runs: 1, edits: new Map() }
  for (const fileId of table.fileIds)
    for (const column of asked)
      if (random() < 0.1) editCell(table, fileId, column, { summary: 'Checked by hand', verified: true })
  return table
}
