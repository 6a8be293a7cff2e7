// What others do to the file of a `file` sink: write to it, cut it, or remove it with what stood in it. Moved away, as logrotate does, it is no loss.
import { basename, dirname, extname, join } from 'node:path'
import type { DiskFile } from '../model/disk.ts'
import type { SinkDeps } from '../model/sink-kind.ts'
import { DAY_MS, SECOND_MS, secondText } from '../model/time.ts'
import type { FileEnd } from './file-place.ts'
import { LastEnd } from './file-last-end.ts'

/** The clocks of file systems go in steps, and another machine's may be apart. */
const SLACK_MS = 5_000

export class Others {
  readonly #name: string
  readonly #path: string
  readonly #deps: SinkDeps
  #isWriterTold = false
  /** epoch ms: when the open file was last found under its name */
  #seenAt: number
  readonly #last: LastEnd
  readonly #removed: ForADay
  readonly #cut: ForADay

  constructor(name: string, path: string, deps: SinkDeps) {
    this.#name = name
    this.#path = path
    this.#deps = deps
    this.#seenAt = deps.clock.now()
    this.#last = new LastEnd(deps)
    this.#removed = new ForADay(deps.clock, deps.fileRemoved)
    this.#cut = new ForADay(deps.clock, deps.fileCut)
  }

  seen(): void {
    this.#seenAt = this.#deps.clock.now()
    this.#removed.look()
    this.#cut.look()
  }

  /** What is settled ends there. */
  left(end: Pick<FileEnd, 'identity' | 'size'>): void {
    this.#last.left(end)
  }

  close(): Promise<void> {
    return this.#last.close()
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
    this.#deps.log.warn(
      'The file of this sink was removed or replaced with the lines that stood in it: unless somebody moved it elsewhere they are lost there. Delivery goes on in a new file, and `auditferry replay` sends the lost ones again',
      { path: this.#path, bytes: end.size, replayTo: untilText(this.#last.leftAt) },
    )
    const what = `${this.#name}: ${this.#path} was removed or replaced while lines stood in it`
    this.#removed.tell(
      `${what}; unless somebody moved it elsewhere, this sends again what is to be there: ${this.#replayTo(this.#last.leftAt)}`,
    )
  }

  /** Tells of a file that was just opened that it is shorter than it was left, if that is so. `before`: where it ended before a batch in doubt. */
  async tellCut(file: DiskFile, before?: Pick<FileEnd, 'identity' | 'size'>): Promise<void> {
    const cut = await this.#last.cutOf(file, before)
    if (!cut) return
    const { bytes, leftAt } = cut
    this.#deps.log.warn(
      'The file of this sink was cut, it is shorter than it was left: unless somebody copied it before (`copytruncate`), the lines at its end are lost. Delivery goes on behind what is there, and `auditferry replay` sends the lost ones again',
      { path: this.#path, bytes, replayTo: untilText(leftAt) },
    )
    this.#cut.tell(
      `${this.#name}: ${this.#path} was cut by somebody, ${bytes} bytes of what stood in it are gone; unless somebody copied them before, this sends again what is to be there: ${this.#replayTo(leftAt)}`,
    )
  }

  #replayTo(lastAt: number | undefined): string {
    return `auditferry replay --sink ${this.#name} --from <time> --to ${untilText(lastAt) ?? '<time>'}`
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

/** The end of what may be lost, the last write before: what came later stands in the file, and would be there twice. */
const untilText = (lastAt: number | undefined): string | undefined =>
  lastAt === undefined ? undefined : secondText((Math.floor(lastAt / SECOND_MS) + 1) * SECOND_MS)

/** A warning that is over a day after it was last told. */
class ForADay {
  readonly #clock: SinkDeps['clock']
  readonly #warn: (message: string | undefined) => void
  #toldAt: number | undefined

  constructor(clock: SinkDeps['clock'], warn: (message: string | undefined) => void = () => undefined) {
    this.#clock = clock
    this.#warn = warn
  }

  tell(message: string): void {
    this.#toldAt = this.#clock.now()
    this.#warn(message)
  }

  look(): void {
    if (this.#toldAt === undefined || this.#clock.now() - this.#toldAt < DAY_MS) return
    this.#toldAt = undefined
    this.#warn(undefined)
  }
}

/** As logrotate names them: `out.ndjson.1.gz`, `out.ndjson-20260131.gz`, `out-20260131.ndjson.gz`; not `out-errors.ndjson` of another sink. */
function isRotated(name: string, own: string): boolean {
  if (name.startsWith(`${own}.`) || name.startsWith(`${own}-`)) return true
  const stem = basename(own, extname(own))
  return name.startsWith(stem) && /^[._-]?\d/.test(name.slice(stem.length))
}
