// The vault's records, applied in their order, must lead to what the list shows, and no existing project is reported as gone.
import { isDeepStrictEqual } from 'node:util'
import type { Mock } from '../../src/mock/mock.ts'
import type { Judged, Line } from './lines.ts'
import { onOneLine } from './lines.ts'

/** What a run did to its vault. Instants are epoch ms. */
export interface VaultFacts {
  readonly mock: Mock
  /** when the last pass began that must be over */
  readonly passAt: number
  /** what was gone before it must have been reported */
  readonly goneBefore: number
  /** how far the clocks may be apart, ms */
  readonly clocksMs: number
}

/** One project according to the records. */
interface Told {
  name: string
  flag: boolean
  /** the text of its last record's `project` */
  raw: string
  /** who may see it, and how: sorted when compared */
  readonly shares: string[]
}

type Record_ = Readonly<Record<string, unknown>>

interface Shown {
  readonly id: string
  readonly name: string
  readonly is_knowledge_base_project: boolean
  readonly sharing: {
    readonly user_shares: readonly Record_[]
    readonly workspace_shares: readonly Record_[]
  }
}

const textOf = (value: unknown) =>
  typeof value === 'string' || typeof value === 'number' ? String(value) : ''

const shareText = (kind: string, share: Record_, level: unknown) =>
  [kind, textOf(share['dest_user_email']), textOf(share['dest_workspace_id']), textOf(level)].join(' ')

function sharesOf({ sharing }: Shown): string[] {
  return [
    ...sharing.user_shares.map((share) => shareText('user', share, share['permission_level'])),
    ...sharing.workspace_shares.map((share) => shareText('workspace', share, share['permission_level'])),
  ]
}

/** The project's own bytes are last in its record. */
function rawOf(text: string): string {
  const at = text.indexOf(',"project":')
  return at < 0 ? '' : text.slice(at + ',"project":'.length, -1)
}

class Inventory {
  readonly faults: string[] = []
  readonly projects = new Map<string, Told>()
  readonly #gone = new Set<string>()
  readonly #facts: VaultFacts

  constructor(facts: VaultFacts) {
    this.#facts = facts
  }

  apply({ record = {}, text }: Line): void {
    const [type, id] = [textOf(record['type']).slice('vault:'.length), textOf(record['project_id'])]
    const known = this.projects.get(id)
    if (type === 'project_deleted') this.#delete(id, known, textOf(record['seen_at']))
    else if (type === 'project_listed' || type === 'project_created')
      this.#learn(type, id, known, record, text)
    else if (known) this.#change(type, id, known, record, text)
    else this.faults.push(`${type} of project ${id}, which is not told of`)
  }

  #change(type: string, id: string, known: Told, record: Record_, text: string): void {
    known.raw = rawOf(text)
    known.name = textOf(record['name'])
    if (type.startsWith('knowledge_base_')) this.#flag(known, id, type === 'knowledge_base_set')
    const [, kind, verb] = /^(user|workspace)_share_(\w+)$/.exec(type) ?? []
    if (kind !== undefined && verb !== undefined) this.#share(known, id, kind, record)
  }

  #learn(type: string, id: string, known: Told | undefined, record: Record_, text: string): void {
    if (known || this.#gone.has(id)) this.faults.push(`project ${id} is told as new twice`)
    const project = record['project'] as Shown
    this.projects.set(id, {
      name: project.name,
      flag: project.is_knowledge_base_project,
      raw: rawOf(text),
      // Those of a new one follow.
      shares: type === 'project_listed' ? sharesOf(project) : [],
    })
  }

  #delete(id: string, known: Told | undefined, seenAt: string): void {
    if (!known)
      this.faults.push(`project ${id} is told as gone ${this.#gone.has(id) ? 'twice' : 'and was not known'}`)
    const { mock, clocksMs } = this.#facts
    const left = mock.projectChanges().find(({ project, kind }) => project === id && kind === 'deleted')
    if (!left || left.atUs / 1000 > Date.parse(seenAt) + clocksMs)
      this.faults.push(`project ${id} is told as gone at ${seenAt}, and was there`)
    this.projects.delete(id)
    this.#gone.add(id)
  }

  #flag(known: Told, id: string, flag: boolean): void {
    if (known.flag === flag) this.faults.push(`the flag of project ${id} is told twice`)
    known.flag = flag
  }

  #share(known: Told, id: string, kind: string, record: Record_): void {
    const { permission_level: level, previous_permission_level: before } = record
    if (before !== undefined) {
      const at = known.shares.indexOf(shareText(kind, record, before))
      if (at < 0) this.faults.push(`a share of project ${id} changes or ends that was not told`)
      else known.shares.splice(at, 1)
    }
    if (level !== undefined) known.shares.push(shareText(kind, record, level))
  }
}

/** `lines`: of the file sink, which has each record once and in order. */
export function judgeInventory(facts: VaultFacts, lines: readonly Line[]): string[] {
  const inventory = new Inventory(facts)
  for (const line of lines) if (line.source === 'vault.projects') inventory.apply(line)
  const { faults, projects } = inventory
  const { mock, passAt, goneBefore, clocksMs } = facts
  const moving = new Set<string>()
  for (const { atUs, project } of mock.projectChanges())
    if (atUs / 1000 >= passAt - clocksMs) moving.add(project)
  for (const { id, raw } of mock.projects())
    if (!moving.has(id)) faults.push(...different(id, raw, projects.get(id)))
  for (const { atUs, project, kind } of mock.projectChanges())
    if (kind === 'deleted' && atUs / 1000 < goneBefore && projects.has(project))
      faults.push(
        `project ${project} is gone since ${new Date(atUs / 1000).toISOString()}, and that is not told`,
      )
  return faults.slice(0, 4).map((fault) => `vault: ${fault}`)
}

function different(id: string, raw: Uint8Array, reported: Told | undefined): string[] {
  if (!reported) return [`project ${id} is listed and not told of`]
  const project = JSON.parse(Buffer.from(raw).toString()) as Shown
  if (reported.raw !== onOneLine(raw)) return [`project ${id} is told otherwise than it is listed`]
  const same =
    reported.name === project.name &&
    reported.flag === project.is_knowledge_base_project &&
    isDeepStrictEqual(reported.shares.toSorted(), sharesOf(project).toSorted())
  return same ? [] : [`the records of project ${id} do not lead to what it is`]
}

/** Every sink has the records that the file sink has. */
export function judgeRecords(sink: string, lines: readonly Line[], archive: readonly Line[]): Judged {
  const reported = new Map(
    archive.flatMap(({ source, id, text }) => (source === 'vault.projects' ? [[id, text]] : [])),
  )
  const seen = new Set<string | undefined>()
  const faults: string[] = []
  let repeats = 0
  for (const { source, id, text } of lines) {
    if (source !== 'vault.projects') continue
    if (seen.has(id)) repeats++
    seen.add(id)
    if (reported.get(id) !== text) faults.push(`${sink}: record ${id} is not that of the file`)
  }
  const missing = [...reported.keys()].filter((id) => !seen.has(id))
  if (missing.length > 0) faults.push(`${sink}: ${missing.length} records are missing, such as ${missing[0]}`)
  return { faults: faults.slice(0, 3), repeats }
}
