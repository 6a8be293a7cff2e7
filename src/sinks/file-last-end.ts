// Where the file of a `file` sink ended when the sink last left it, over an orderly stop too: the same file, shorter, was cut by somebody else.
import { z } from 'zod'
import type { DiskFile } from '../model/disk.ts'
import type { SinkDeps } from '../model/sink-kind.ts'
import { jsonOf } from '../model/json-of.ts'
import type { FileEnd } from './file-place.ts'

const endSchema = z.object({ identity: z.string(), size: z.int().min(0), leftAt: z.number() })
type KnownEnd = z.output<typeof endSchema>

export interface Cut {
  /** how many are gone */
  readonly bytes: number
  /** epoch ms: when the file still had them; undefined: nobody knows */
  readonly leftAt: number | undefined
}

export class LastEnd {
  readonly #deps: Pick<SinkDeps, 'clock' | 'lastEnd'>
  #end: KnownEnd | undefined
  /** as the former process kept it */
  readonly #kept: Promise<KnownEnd | undefined>
  #isKept = true

  constructor(deps: Pick<SinkDeps, 'clock' | 'lastEnd'>) {
    this.#deps = deps
    this.#kept = deps.lastEnd?.kept().then(readEnd, () => undefined) ?? Promise.resolve(undefined)
  }

  get leftAt(): number | undefined {
    return this.#end?.leftAt
  }

  left({ identity, size }: Pick<FileEnd, 'identity' | 'size'>): void {
    this.#end = { identity, size, leftAt: this.#deps.clock.now() }
    if (!this.#isKept) return
    // From now on it would be out of date: after a kill nothing is claimed by it.
    this.#isKept = false
    void this.#keep('')
  }

  /** Asked before anything is written to `file`. `before`: where it ended before a batch in doubt. */
  async cutOf(file: DiskFile, before?: Pick<FileEnd, 'identity' | 'size'>): Promise<Cut | undefined> {
    const now = { identity: await file.identity(), size: await file.size() }
    const kept = this.#isKept ? await this.#kept : undefined
    const known: Partial<KnownEnd>[] = [this.#end, kept, before].filter((end) => end !== undefined)
    const end = known.find(({ identity }) => identity === now.identity)
    this.left(now)
    const bytes = (end?.size ?? 0) - now.size
    return bytes > 0 ? { bytes, leftAt: end?.leftAt } : undefined
  }

  async close(): Promise<void> {
    if (this.#end) await this.#keep(JSON.stringify(this.#end))
  }

  /** Nothing fails of it: without it a cut of just then goes untold, and no more. */
  async #keep(text: string): Promise<void> {
    await this.#deps.lastEnd?.keep(text).catch(() => undefined)
  }
}

const readEnd = (text = '') => jsonOf(endSchema, text)
