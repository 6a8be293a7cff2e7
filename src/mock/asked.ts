// The questions of a workspace, derived from its audit entries: no data is stored twice.
import { askKindOf } from './questions.ts'
import type { Ask, Completion } from './questions.ts'
import type { Backlog } from './backlog.ts'
import { Entry } from './entry.ts'
import type { Ledger } from './entry.ts'
import type { Switches } from './switches.ts'

/** An entry of the ledger, or a number of the backlog. */
export type AskRef = Entry | number

export class Asked {
  /** by the id of their audit entry: questions asked through the API */
  readonly completions = new Map<string, Completion>()
  readonly #backlog: Backlog | undefined
  readonly #ledger: Ledger
  readonly #switches: Switches

  constructor(backlog: Backlog | undefined, ledger: Ledger, switches: Switches) {
    this.#backlog = backlog
    this.#ledger = ledger
    this.#switches = switches
  }

  /** In order of time, [fromUs, untilUs). */
  between(fromUs: number, untilUs: number): AskRef[] {
    const early = this.#backlog?.asksBetween(fromUs, untilUs) ?? []
    const late = this.#ledger.between(fromUs, untilUs).filter(({ type }) => askKindOf(type))
    return [...early, ...late]
  }

  ask(ref: AskRef): Ask {
    if (ref instanceof Entry) {
      const { id, atUs, type, user, historyAt, historyDefect } = ref
      const completion = this.completions.get(id)
      return { entryId: id, atUs, type, user, visibleAt: historyAt, defect: historyDefect, completion }
    }
    const backlog = this.#backlog
    if (!backlog) throw new Error('mock API: there is no backlog')
    const atUs = backlog.atUs(ref)
    const visibleAt = Math.floor(atUs / 1000) + this.#switches.history_visible_after
    return { ...backlog.actOf(ref), atUs, visibleAt, defect: undefined, completion: undefined }
  }

  /** Records in which answers an event was sent: bits, for all of its versions. */
  mark(ref: AskRef, bits: number): void {
    if (ref instanceof Entry) ref.historyShown |= bits
    else this.#backlog?.markHistory(ref, bits)
  }

  marks(ref: AskRef): number {
    return ref instanceof Entry ? ref.historyShown : (this.#backlog?.historyMarks(ref) ?? 0)
  }
}
