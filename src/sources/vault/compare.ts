// Compares one project of the list with its last reported state. Yields the changes between both,
// and applies each one to the cursor as it is yielded.
import { eachMember, keyText, memberValue, valueText } from '../../core/json.ts'
import { Digests, beginningOf } from './digest.ts'
import { MARK, NO_MARK } from './cursor.ts'
import type { Known, Principal, VaultCursor } from './cursor.ts'
import { applyShare, readShares, shareChanges, sharingDigest, Tables } from './shares.ts'
import type { Share, ShareChange } from './shares.ts'

/** Members that are compared by name; for all others only a change of the project is known. */
const MAX_FIELDS = 64
const MAX_FIELD_LENGTH = 64
/** Members beyond this number have no mark: a change of theirs is reported without a name. */
const MAX_MARKS = 10_000
const MAX_NAME_LENGTH = 256
const FLAG = 'is_knowledge_base_project'

interface Project {
  readonly id: string
  readonly raw: Uint8Array
}

/** A change to report: the type of the record, and its fields beside the project. */
export interface Change {
  readonly type: string
  /** `updated`: names of the changed members */
  readonly fields?: readonly string[]
  readonly share?: Share
  readonly principal?: Principal
  readonly level?: string
  readonly before?: string
  /** when it happened, if the API says so: its timestamp as written */
  readonly at?: string | undefined
}

/** The current state of a project in the list. */
interface Facts {
  readonly name: string
  readonly flag: boolean | null
  readonly content: string
  readonly marks: ReadonlyMap<string, string>
  readonly sharing: Uint8Array | undefined
  readonly sharingDigest: string
}

function factsOf({ raw }: Project): Facts {
  const digests = new Digests()
  const marks = new Map<string, string>()
  let sharing: Uint8Array | undefined
  let flag: boolean | null = null
  eachMember(raw, ({ keyStart, keyEnd, valueStart, valueEnd }) => {
    const field = keyText(raw, keyStart, keyEnd) ?? ''
    const value = raw.subarray(valueStart, valueEnd)
    if (field === 'sharing') sharing = value
    else if (field === FLAG) flag = flagOf(value)
    else {
      const digest = digests.add(field, value)
      if (field !== 'id' && field.length <= MAX_FIELD_LENGTH && marks.size < MAX_MARKS)
        marks.set(field, digest.slice(0, MARK))
    }
  })
  const name = valueText(memberValue(raw, 'name')) ?? ''
  return {
    name: beginningOf(name, MAX_NAME_LENGTH),
    flag,
    content: digests.together(),
    marks,
    sharing,
    sharingDigest: sharingDigest(sharing),
  }
}

function flagOf(value: Uint8Array): boolean | null {
  const text = value.length <= 5 ? Buffer.from(value).toString() : ''
  return text === 'true' ? true : text === 'false' ? false : null
}

/** A project that exists but cannot be read: it counts as seen, and nothing is reported. */
export function markUnreadable(cursor: VaultCursor, id: string): Known {
  const known = cursor.projects.get(id) ?? stub(id)
  cursor.projects.set(id, known)
  return known
}

const stub = (id: string): Known => ({
  id,
  name: '',
  flag: null,
  content: '',
  marks: '',
  sharing: '',
  seen: 0,
  shares: [],
})

export class Comparison {
  readonly #cursor: VaultCursor
  readonly #tables: Tables

  constructor(cursor: VaultCursor) {
    this.#cursor = cursor
    this.#tables = new Tables(cursor)
  }

  /**
   * The changes to report for `project`, in order. When one is taken, the cursor has changed by
   * exactly that one, so a caller may stop in between, keep the cursor, and continue later. `isNew`
   * says whether an unknown project was created since the last complete pass, by its timestamp.
   */
  *changes(project: Project, isNew: (createdAt: string | undefined) => boolean): Generator<Change> {
    const { projects } = this.#cursor
    const known = projects.get(project.id) ?? stub(project.id)
    const facts = factsOf(project)
    const stamp = (field: string) => valueText(memberValue(project.raw, field))
    if (known.content === '') {
      const createdAt = stamp('created_at')
      const created = isNew(createdAt)
      this.#learn(known, facts, project)
      if (!created) this.#learnShares(known, facts, project)
      projects.set(project.id, known)
      yield created ? { type: 'vault:project_created', at: createdAt } : { type: 'vault:project_listed' }
    }
    const shares = this.#shareChanges(known, facts, project)
    yield* this.#updates(known, facts, project, shares)
    yield* this.#shares(known, facts, shares)
  }

  *#updates(known: Known, facts: Facts, project: Project, shares: readonly ShareChange[]): Generator<Change> {
    const fields = known.content === facts.content ? [] : this.#changed(known, facts)
    // Something in it changed that no share shows.
    const sharing = known.sharing !== '' && known.sharing !== facts.sharingDigest && shares.length === 0
    if (sharing) fields.push('sharing')
    const { content, flag } = known
    this.#learn(known, facts, project)
    if (sharing) known.sharing = facts.sharingDigest
    if (sharing || content !== facts.content) {
      // The flag has its own record, which must not be lost if the caller stops in between.
      known.flag = flag
      yield { type: 'vault:project_updated', fields, at: updatedAt(project.raw, fields) }
    }
    known.flag = facts.flag
    if ((flag ?? false) !== (facts.flag ?? false))
      yield { type: `vault:knowledge_base_${facts.flag ? 'set' : 'cleared'}` }
  }

  *#shares(known: Known, facts: Facts, changes: readonly ShareChange[]): Generator<Change> {
    if (changes.length > 0) known.sharing = ''
    for (const change of changes) {
      applyShare(known.shares, change, this.#tables)
      yield shareRecord(change)
    }
    known.sharing = facts.sharingDigest
  }

  #shareChanges(known: Known, facts: Facts, project: Project): readonly ShareChange[] {
    if (known.sharing === facts.sharingDigest) return []
    const shares = readShares(project.id, facts.sharing)
    return shares ? shareChanges(known.shares, shares, this.#tables) : []
  }

  #learn(known: Known, { name, flag, content, marks }: Facts, project: Project): void {
    const { fields } = this.#cursor
    for (const field of marks.keys())
      if (fields.length < MAX_FIELDS && !fields.includes(field)) fields.push(field)
    known.name = name
    known.flag = flag
    known.content = content
    known.marks = fields.map((field) => marks.get(field) ?? NO_MARK).join('')
    this.#cursor.projects.set(project.id, known)
  }

  #learnShares(known: Known, { sharing, sharingDigest: digest }: Facts, project: Project): void {
    known.shares = (readShares(project.id, sharing) ?? []).flatMap(({ principal, level }) => [
      this.#tables.principal(principal),
      this.#tables.level(level),
    ])
    known.sharing = digest
  }

  /** Names of the members whose bytes have changed. */
  #changed({ marks }: Known, facts: Facts): string[] {
    const { fields } = this.#cursor
    const changed: string[] = []
    fields.forEach((field, index) => {
      const before = marks.slice(index * MARK, (index + 1) * MARK) || NO_MARK
      if (before !== (facts.marks.get(field) ?? NO_MARK)) changed.push(field)
    })
    for (const field of facts.marks.keys())
      if (!fields.includes(field) && fields.length < MAX_FIELDS) changed.push(field)
    return changed
  }
}

/** Both timestamps mean an update; which of them a change moves is unspecified. */
function updatedAt(raw: Uint8Array, fields: readonly string[]): string | undefined {
  const stamps = ['project_updated_at', 'updated_at'].filter((field) => fields.includes(field))
  const texts = stamps.map((field) => valueText(memberValue(raw, field)) ?? '')
  return texts.sort().at(-1)
}

function shareRecord(change: ShareChange): Change {
  const type = (kind: Principal['kind']) => `vault:${kind}_share_${change.kind}`
  if (change.kind === 'removed') {
    const { principal, before } = change
    return { type: type(principal.kind), principal, before }
  }
  const { share } = change
  const { principal, level, createdAt } = share
  return change.kind === 'added'
    ? { type: type(principal.kind), share, principal, level, at: createdAt }
    : { type: type(principal.kind), share, principal, level, before: change.before }
}
