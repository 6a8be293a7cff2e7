// The records of the inventory, in our own format (docs/records.md). They contain the project's
// bytes unchanged.
import { hash } from 'node:crypto'
import { Entries, TRANSACTION_BYTES, TRANSACTION_ENTRIES, columnsOf } from '../../contracts/entries.ts'
import { ByteWriter, CLOSE_OBJECT } from '../../core/bytes.ts'
import type { Clock } from '../../core/clock.ts'
import { memberValue } from '../../core/json.ts'
import { isoMicros, parseInstantText } from '../../core/time.ts'
import type { Answer } from '../http/client.ts'
import type { Change } from './compare.ts'
import type { Pass, Principal, VaultCursor } from './cursor.ts'

/**
 * Copies of a project in the records of one reading take at most this; beyond it only the first
 * record contains the project.
 */
const COPIES_BYTES = 1024 * 1024
/** Members copied from the project into its records, so that they are found without parsing it. */
const lifted = ['creator_email', 'files_count', 'size_bytes', 'is_knowledge_base_project'] as const

interface Subject {
  readonly workspace: string
  readonly projectId: string
  readonly name: string
  /** undefined: deleted */
  readonly raw: Uint8Array | undefined
}

/** Collects records until they are taken as one part. */
export class Records {
  readonly #out = new ByteWriter()
  #columns: number[] = []
  #times: number[] = []
  #types: string[] = []

  get count(): number {
    return this.#times.length
  }

  get bytes(): number {
    return this.#out.length
  }

  /** True if one more could be too much for a transaction. */
  get full(): boolean {
    return this.count >= TRANSACTION_ENTRIES || this.bytes >= TRANSACTION_BYTES
  }

  /**
   * `ordinal`: number of the record in its workspace, so that two equal changes are two records.
   * `copies`: records about this project so far, including this one.
   */
  add(subject: Subject, change: Change, sighting: Sighting, ordinal: number, copies: number): void {
    const us = instantOf(change, sighting)
    const id = recordId(subject, change, ordinal)
    const time = isoMicros(us)
    const out = this.#out
    const start = out.length
    out.text('{"id":"')
    const idStart = out.length
    out.text(`${id}","timestamp":"`)
    const timeStart = out.length
    out.text(`${time}","type":"${change.type}","seen_at":"${isoMicros(sighting.seenUs)}"`)
    this.#subject(subject, change)
    if (subject.raw && (copies === 1 || copies * subject.raw.length <= COPIES_BYTES)) {
      out.text(',"project":')
      out.copy(subject.raw)
    }
    out.byte(CLOSE_OBJECT)
    const columns = columnsOf({
      raw: [start, out.length],
      id: [idStart, idStart + id.length],
      time: [timeStart, timeStart + time.length],
      type: this.#type(change.type),
    })
    this.#columns.push(...columns)
    this.#times.push(us)
  }

  /** All records so far; empties the collection. */
  take(): Entries {
    if (this.count === 0) return Entries.none
    const bytes = new Uint8Array(this.#out.view())
    const entries = new Entries(
      bytes,
      this.count,
      Uint32Array.from(this.#columns),
      Float64Array.from(this.#times),
      this.#types,
    )
    this.#out.clear()
    this.#columns = []
    this.#times = []
    this.#types = []
    return entries
  }

  #subject({ projectId, name, raw }: Subject, change: Change): void {
    const out = this.#out
    out.text(`,"project_id":${JSON.stringify(projectId)},"name":${JSON.stringify(name)}`)
    const { fields, share, principal, level, before } = change
    if (principal) {
      out.text(whoText(principal))
      if (level !== undefined) out.text(`,"permission_level":${JSON.stringify(level)}`)
      if (before !== undefined) out.text(`,"previous_permission_level":${JSON.stringify(before)}`)
      if (!share) return
      out.text(',"share":')
      out.copy(share.raw)
      return
    }
    if (fields) out.text(`,"changes":${JSON.stringify(fields)}`)
    for (const key of raw ? lifted : []) {
      const value = raw && memberValue(raw, key)
      if (!value) continue
      out.text(`,"${key}":`)
      out.copy(value)
    }
  }

  #type(type: string): number {
    const known = this.#types.indexOf(type)
    return known >= 0 ? known : this.#types.push(type) - 1
  }
}

function whoText({ kind, id, workspace, folder, email }: Principal): string {
  const members = {
    shared_with: kind,
    ...(email !== '' && { dest_user_email: email }),
    ...(kind === 'user' && id !== '' && { dest_user_id: id }),
    ...(folder !== '' && { vault_folder_id: folder }),
  }
  const text = `,${JSON.stringify(members).slice(1, -1)}`
  if (workspace === '') return text
  // The digits as received, never parsed as a number here.
  const isInteger = /^(0|[1-9]\d*)$/.test(workspace)
  return `${text},"dest_workspace_id":${isInteger ? workspace : JSON.stringify(workspace)}`
}

/** The API's own timestamp if plausible: not before the last complete pass, not after this one. */
function instantOf({ at }: Change, { seenUs, sinceUs }: Sighting): number {
  const us = at === undefined ? NaN : parseInstantText(at)
  // A Date header has whole seconds: a timestamp within that second is not in the future.
  return us >= sinceUs && us <= seenUs + 999_999 ? us : seenUs
}

/**
 * A UUID of version 8 (RFC 9562 §5.8) from the content of the record: the same reading with the
 * same cursor gives the same id.
 */
function recordId({ workspace, projectId, raw }: Subject, change: Change, ordinal: number): string {
  const { type, principal, level, before, fields } = change
  const what = JSON.stringify([workspace, projectId, ordinal, type, principal, level, before, fields])
  // The members above identify a share; hashing a large project for each share would take minutes.
  const content = principal || !raw ? '' : hash('sha256', raw, 'hex')
  const digest = hash('sha256', `${what}${content}`, 'buffer')
  digest[6] = ((digest[6] as number) & 0x0f) | 0x80
  digest[8] = ((digest[8] as number) & 0x3f) | 0x80
  const hex = digest.toString('hex', 0, 16)
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
}

// When projects were seen, by the server's clock, and what is new since the last complete pass.

/** A server without a `Date` header may be this far behind our clock. */
const CLOCK_MARGIN_US = 600_000_000

/** When a change was seen, and the earliest time it can have happened; µs by the server's clock. */
export interface Sighting {
  readonly seenUs: number
  readonly sinceUs: number
}

/**
 * When the projects of `answer` were seen, or the end of the list if undefined; the first of a pass
 * sets the start of the pass.
 */
export function sightingOf(
  { last }: VaultCursor,
  pass: Pass,
  answer: Answer | undefined,
  clock: Clock,
): Sighting {
  const at = answer?.serverAt ?? answer?.sentAt ?? clock.now()
  const marginUs = answer?.serverAt === undefined ? CLOCK_MARGIN_US : 0
  if (pass.startedUs === 0) pass.startedUs = at * 1000 - marginUs
  return { seenUs: at * 1000, sinceUs: last?.startedUs ?? Infinity }
}

/** Created since the last complete pass, by its timestamp; in the first pass nothing is new. */
export function isNew({ last }: VaultCursor, createdAt: string | undefined, { sinceUs }: Sighting): boolean {
  if (last === null) return false
  const createdUs = parseInstantText(createdAt ?? '')
  return Number.isNaN(createdUs) || createdUs >= sinceUs
}
