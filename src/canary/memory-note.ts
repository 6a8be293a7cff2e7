// The canary's memory as a note in the journal: loaded once, written when it says something new.
import type { Journal } from '../model/journal.ts'
import { type CanaryMemory, readMemory } from './round.ts'

export class MemoryNote {
  readonly #journal: Pick<Journal, 'note' | 'putNote'>
  readonly #name: string
  #saved = ''

  constructor(journal: Pick<Journal, 'note' | 'putNote'>, workspace: string) {
    this.#journal = journal
    this.#name = `canary:${workspace}`
  }

  async load(): Promise<CanaryMemory> {
    this.#saved = (await this.#journal.note(this.#name)) ?? ''
    return readMemory(this.#saved === '' ? undefined : this.#saved)
  }

  async save(memory: CanaryMemory): Promise<void> {
    const text = JSON.stringify(memory)
    if (text === this.#saved) return
    await this.#journal.putNote(this.#name, text)
    this.#saved = text
  }
}
