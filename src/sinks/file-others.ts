// What others do to the file of a `file` sink: write to it, or remove it with what stood in it. Moved away, as logrotate does, it is no loss.
import { basename, dirname, extname, join } from 'node:path'
import type { DiskFile } from '../model/disk.ts'
import type { SinkDeps } from '../model/sink-kind.ts'
import { DAY_MS } from '../model/time.ts'
import type { FileEnd } from './file-place.ts'

/** The clocks of file systems go in steps, and another machine's may be apart. */
const SLACK_MS = 5_000

export class Others {
  readonly #name: string
  readonly #path: string
  readonly #deps: SinkDeps
  #isWriterTold = false
  /** epoch ms: when the open file was last found under its name */
  #seenAt: number
  #removedAt: number | undefined

  constructor(name: string, path: string, deps: SinkDeps) {
    this.#name = name
    this.#path = path
    this.#deps = deps
    this.#seenAt = deps.clock.now()
  }

  seen(): void {
    this.#seenAt = this.#deps.clock.now()
    if (this.#removedAt === undefined || this.#seenAt - this.#removedAt < DAY_MS) return
    this.#removedAt = undefined
    this.#deps.fileRemoved?.(undefined)
  }

  /** Two that append to one file write over each other's last batch, and each may cut the other's after a crash. */
  tellWriter(): void {
    if (this.#isWriterTold) return
    this.#isWriterTold = true
    this.#deps.log.warn(
      'Somebody else writes to the file of this sink: give it a file of its own, or lines may be lost or doubled.',
      { path: this.#path },
    )
  }

  /** Tells of an open file with lines in it that it no longer bears its name, if that is so. */
  async tellRemoved({ file, end }: { readonly file: DiskFile; readonly end: FileEnd }): Promise<void> {
    // What cannot be looked at may be away with all that is there: nothing is claimed of it.
    const isNamed = await file.isNamed().catch(() => true)
    if (isNamed || end.size === 0 || (await this.#isKeptBeside())) return
    this.#removedAt = this.#deps.clock.now()
    this.#deps.log.warn(
      'The file of this sink was removed or replaced with the lines that stood in it: unless somebody moved it elsewhere they are lost there. Delivery goes on in a new file, and `auditferry replay` sends the lost ones again',
      { path: this.#path, bytes: end.size },
    )
    const what = `${this.#name}: ${this.#path} was removed or replaced while lines stood in it`
    this.#deps.fileRemoved?.(
      `${what}; unless somebody moved it elsewhere, this sends again what is to be there: auditferry replay --sink ${this.#name} --from <time>`,
    )
  }

  /** Moved and compressed since it was last seen: under a name that rotation gives stands a file that was made meanwhile. */
  async #isKeptBeside(): Promise<boolean> {
    const { disk } = this.#deps
    const folder = dirname(this.#path)
    const own = basename(this.#path)
    const listed = await disk.list(folder).catch(() => [])
    for (const { name } of listed) {
      if (!isRotated(name, own)) continue
      const there = await disk.look(join(folder, name)).catch(() => undefined)
      if (there && there.changedAt >= this.#seenAt - SLACK_MS) return true
    }
    return false
  }
}

/** As logrotate names them: `out.ndjson.1.gz`, `out.ndjson-20260131.gz`, `out-20260131.ndjson.gz`; not `out-errors.ndjson` of another sink. */
function isRotated(name: string, own: string): boolean {
  if (name.startsWith(`${own}.`) || name.startsWith(`${own}-`)) return true
  const stem = basename(own, extname(own))
  return name.startsWith(stem) && /^[._-]?\d/.test(name.slice(stem.length))
}
