// The history events of one workspace: which are visible in a range, their bytes, and the answers
// that contained them.
import type { AskRef } from './asked.ts'
import { queryEvent, remarkAt, remarksOf, rowOf, usageEvent, usageId } from './event.ts'
import type { Remark, Shape } from './event.ts'
import { keyedBy } from './people.ts'
import { SLICE_BYTES, filling } from './prose.ts'
import { askKindOf } from './questions.ts'
import type { Ask } from './questions.ts'
import { renderMembers } from './render.ts'
import type { MemberFields } from './render.ts'
import type { HistoryDefect } from './switches.ts'
import type { Workspace } from './workspace.ts'

export type HistoryKind = 'usage' | 'query'
export type HistoryVersion = 'v1' | 'v2'

const answersShowing = ['v1.usage', 'v1.query', 'v2.usage', 'v2.query'] as const
const BITS = answersShowing.length
const MOST_VERSIONS = 3

/** Marks where a response is to be made longer; it cannot occur in JSON text. */
const MARK = '\u0001'

/** An event that an answer is about to show. */
export interface Showing {
  readonly ref: AskRef
  /** which version of its content, from 0 */
  readonly version: number
}

/** One version of an event's content, for tests. */
interface MockHistoryVersion {
  /** epoch ms: from when on answers contained it, by the server's clock */
  readonly from: number
  /** as v2 and v1 serve it, including line breaks between tokens; created on demand */
  readonly raw: Uint8Array
  readonly rawV1: Uint8Array
  /** versions of the API that sent it, in an answer that was sent to its end */
  readonly shownBy: readonly HistoryVersion[]
}

/** The ground truth about one event, for tests. */
export interface MockHistoryEvent {
  /** `unique_usage_id`: shared by the usage and the query event of one question */
  readonly id: string
  readonly kind: HistoryKind
  /** of the audit entry of the same question */
  readonly entryId: string
  readonly user: string
  readonly atUs: number
  readonly visibleAt: number
  readonly defect: HistoryDefect | undefined
  /** those that began up to now, oldest first; in v1, which has no feedback, all are the same bytes */
  readonly versions: readonly MockHistoryVersion[]
}

/** A range of seconds, with ends as set by the switches: first and last whole second of it. */
export interface SecondRange {
  readonly first: number
  readonly last: number
}

export class HistoryEvents {
  readonly #workspace: Workspace

  constructor(workspace: Workspace) {
    this.#workspace = workspace
  }

  /** In order of time. Keeps one reference per event, no bytes. */
  within({ first, last }: SecondRange, kind: HistoryKind, now: number): Showing[] {
    const found: Showing[] = []
    const { seed, asked } = this.#workspace
    for (const ref of asked.between(first * 1e6, (last + 1) * 1e6)) {
      const ask = asked.ask(ref)
      if (ask.visibleAt > now) continue
      if (kind === 'usage') found.push({ ref, version: 0 })
      else if (askKindOf(ask.type)?.hasText) found.push({ ref, version: remarkAt(remarksOf(ask, seed), now) })
    }
    return found
  }

  #shape(ask: Ask, kind: HistoryKind, api: HistoryVersion, remark: Remark, mark: string): Shape {
    const workspace = this.#workspace
    if (api === 'v1') {
      const time = workspace.switches.history_v1_time === 'on'
      return rowOf(ask, workspace, { time, texts: kind === 'query', mark })
    }
    return kind === 'usage' ? usageEvent(ask, workspace) : queryEvent(ask, workspace, remark, mark)
  }

  /** Number of pieces that `pieces` yields per event. */
  piecesEach(kind: HistoryKind): number {
    const fill = this.#fill(kind)
    return fill > 0 ? 2 + Math.ceil(fill / SLICE_BYTES) : 1
  }

  #fill(kind: HistoryKind): number {
    return kind === 'query' ? this.#workspace.switches.history_event_bytes : 0
  }

  /** The bytes of an event, a long response in slices. Always the same for the same content. */
  *pieces({ ref, version }: Showing, kind: HistoryKind, api: HistoryVersion): Generator<Buffer, void> {
    const { asked, seed } = this.#workspace
    const ask = asked.ask(ref)
    const remark = remarksOf(ask, seed)[version] ?? { from: 0, comments: '', sentiments: '' }
    const fill = this.#fill(kind)
    const { fields, odd } = this.#shape(ask, kind, api, remark, fill > 0 ? MARK : '')
    const whole = spoiltText(renderMembers(spoiltFields(fields, ask.defect), odd), ask.defect)
    const at = whole.indexOf(MARK)
    if (at < 0) {
      yield whole
      return
    }
    yield whole.subarray(0, at)
    yield* filling(fill, keyedBy(ask.entryId, 41))
    yield whole.subarray(at + 1)
  }

  /** Records that an answer with these was sent to its end. If one is poisoned, it alone counts as shown. */
  shown(showings: readonly Showing[], kind: HistoryKind, api: HistoryVersion): void {
    const { asked } = this.#workspace
    const poisoned = showings.filter(({ ref }) => asked.ask(ref).defect === 'history_poison')
    for (const { ref, version } of poisoned.length > 0 ? poisoned : showings)
      asked.mark(ref, 1 << (version * BITS + answersShowing.indexOf(`${api}.${kind}`)))
  }

  /** Every event up to now, including those not visible yet, usage before query. */
  all(now: number): MockHistoryEvent[] {
    const { asked } = this.#workspace
    return asked.between(-Infinity, Infinity).flatMap((ref) => {
      const ask = asked.ask(ref)
      const usage = this.#event(ref, ask, 'usage', now)
      return askKindOf(ask.type)?.hasText ? [usage, this.#event(ref, ask, 'query', now)] : [usage]
    })
  }

  #event(ref: AskRef, ask: Ask, kind: HistoryKind, now: number): MockHistoryEvent {
    const { seed } = this.#workspace
    const remarks = remarksOf(ask, seed).slice(0, kind === 'usage' ? 1 : MOST_VERSIONS)
    const begun = remarks.filter(({ from }, number) => number === 0 || from <= now)
    return {
      id: usageId(ask, seed),
      kind,
      entryId: ask.entryId,
      user: ask.user,
      atUs: ask.atUs,
      visibleAt: ask.visibleAt,
      defect: ask.defect,
      versions: begun.map(({ from }, version) => this.#version(ref, kind, version, from)),
    }
  }

  #version(ref: AskRef, kind: HistoryKind, version: number, from: number): MockHistoryVersion {
    const bytes = (api: HistoryVersion) => Buffer.concat([...this.pieces({ ref, version }, kind, api)])
    const marks = () => this.#workspace.asked.marks(ref)
    return {
      from,
      get raw() {
        return bytes('v2')
      },
      get rawV1() {
        return bytes('v1')
      },
      get shownBy() {
        const bits = marks() >> (version * BITS)
        return (['v1', 'v2'] as const).filter((api) => bits & (1 << answersShowing.indexOf(`${api}.${kind}`)))
      },
    }
  }
}

// Malformed history events, which a reader must quarantine without losing the others.

const times = ['utc_time', 'timestamp']
const BAD_BYTE = '\u0002'

/** The members of an event with that defect. The last three are made from its text: see `spoiltText`. */
function spoiltFields(fields: MemberFields, defect: HistoryDefect | undefined): MemberFields {
  switch (defect) {
    case 'history_no_id':
      return fields.filter(([name]) => name !== 'unique_usage_id')
    case 'history_bad_time':
      return fields.map(([name, json]) => [name, times.includes(name) ? '"the day before yesterday"' : json])
    case 'history_invalid_utf8':
      return [...fields, ['note', `"caf${BAD_BYTE} au lait"`]]
    case 'history_poison':
      return [...fields, ['note', 'NaN']]
    default:
      return fields
  }
}

function spoiltText(text: string, defect: HistoryDefect | undefined): Buffer {
  if (defect === 'history_not_an_object') return Buffer.from('"an event was here"')
  const bytes = Buffer.from(text)
  if (defect === 'history_invalid_utf8') bytes[bytes.lastIndexOf(BAD_BYTE)] = 0xe9
  return bytes
}
