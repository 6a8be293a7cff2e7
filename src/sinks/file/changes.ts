// Detects what other programs do to the file of a `file` sink: write to it, cut or remove it.
// A file that was moved away, as logrotate does, is no loss.
import { basename, dirname, extname, join } from 'node:path'
import { z } from 'zod'
import type { DiskFile } from '../../contracts/platform.ts'
import type { SinkDeps } from '../../contracts/sink-kind.ts'
import { jsonOf } from '../../core/json.ts'
import { SECOND_MS, secondText } from '../../core/time.ts'
import type { FileEnd } from './offset.ts'

/** Where the file ended after our last write. Saved at an orderly stop, for the next process. */
const endSchema = z.object({ identity: z.string(), size: z.int().min(0), leftAt: z.number() })
type KnownEnd = z.output<typeof endSchema>
type End = Pick<FileEnd, 'identity' | 'size'>

/** Name of the state entry with that end. */
const STATE = 'file_end'

/** File system clocks have a coarse resolution, and the clock of another machine may differ. */
const SLACK_MS = 5_000

export class FileChanges {
  readonly #name: string
  readonly #path: string
  readonly #deps: SinkDeps
  #isWriterReported = false
  /** epoch ms: when the open file was last found under its name */
  #seenAt: number
  #end: KnownEnd | undefined
  /** the end that the previous process saved; valid until the first write */
  readonly #saved: Promise<KnownEnd | undefined>
  #isSaved = true

  constructor(name: string, path: string, deps: SinkDeps) {
    this.#name = name
    this.#path = path
    this.#deps = deps
    this.#seenAt = deps.clock.now()
    const saved = deps.state?.get(STATE).then((text = '') => jsonOf(endSchema, text))
    this.#saved = saved?.catch(() => undefined) ?? Promise.resolve(undefined)
  }

  seen(): void {
    this.#seenAt = this.#deps.clock.now()
  }

  /** Everything up to this end is acknowledged. */
  wrote({ identity, size }: End): void {
    this.#end = { identity, size, leftAt: this.#deps.clock.now() }
    if (!this.#isSaved) return
    // The saved end is out of date from now on: after a kill nothing is concluded from it.
    this.#isSaved = false
    void this.#save('')
  }

  async close(): Promise<void> {
    if (this.#end) await this.#save(JSON.stringify(this.#end))
  }

  /** A failure is ignored: it only means that a cut after this is not reported. */
  async #save(text: string): Promise<void> {
    await this.#deps.state?.put(STATE, text).catch(() => undefined)
  }

  /** Two writers to one file overwrite each other's last batch, or cut it after a crash. */
  reportWriter(): void {
    if (this.#isWriterReported) return
    this.#isWriterReported = true
    this.#deps.log.warn(
      'Another program writes to the file of this sink: give the sink a file of its own, or lines may be lost or doubled',
      { path: this.#path },
    )
  }

  /** Reports that the open file, with lines in it, no longer has its name. */
  async reportRemoved({ file, end }: { readonly file: DiskFile; readonly end: FileEnd }): Promise<void> {
    // A file that cannot be examined proves nothing: its file system may be away.
    const isNamed = await file.isNamed().catch(() => true)
    if (isNamed || end.size === 0 || (await this.#isRotatedBeside())) return
    this.#deps.log.warn(
      'The file of this sink was removed or replaced, with the lines in it: unless it was moved elsewhere they are lost. Delivery continues in a new file, and `auditferry replay` sends the lost lines again',
      { path: this.#path, bytes: end.size, replayTo: untilText(this.#end?.leftAt) },
    )
    const what = `${this.#name}: ${this.#path} was removed or replaced with lines in it`
    this.#deps.warn?.(
      'file_removed',
      `${what}; unless it was moved elsewhere, this command sends the lines again: ${this.#replayTo(this.#end?.leftAt)}`,
    )
  }

  /**
   * Reports that a file that was just opened is shorter than it was left.
   * `before`: where it ended before a possible duplicate.
   */
  async reportCut(file: DiskFile, before?: End): Promise<void> {
    const now = { identity: await file.identity(), size: await file.size() }
    const saved = this.#isSaved ? await this.#saved : undefined
    const known: Partial<KnownEnd>[] = [this.#end, saved, before].filter((end) => end !== undefined)
    const { size = 0, leftAt } = known.find(({ identity }) => identity === now.identity) ?? {}
    this.wrote(now)
    const bytes = size - now.size
    if (bytes <= 0) return
    this.#deps.log.warn(
      'The file of this sink was truncated: unless it was copied before (`copytruncate`), the lines at its end are lost. Delivery continues after the remaining lines, and `auditferry replay` sends the lost lines again',
      { path: this.#path, bytes, replayTo: untilText(leftAt) },
    )
    this.#deps.warn?.(
      'file_cut',
      `${this.#name}: ${this.#path} was truncated by another program, ${bytes} bytes are gone; unless they were copied before, this command sends the lines again: ${this.#replayTo(leftAt)}`,
    )
  }

  #replayTo(lastAt: number | undefined): string {
    return `auditferry replay --sink ${this.#name} --from <time> --to ${untilText(lastAt) ?? '<time>'}`
  }

  /** True if the file was moved and compressed: a newer file has a name that rotation gives. */
  async #isRotatedBeside(): Promise<boolean> {
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

/** End of the span that may be lost. Later lines are in the file: a replay would double them. */
const untilText = (lastAt: number | undefined): string | undefined =>
  lastAt === undefined ? undefined : secondText((Math.floor(lastAt / SECOND_MS) + 1) * SECOND_MS)

/**
 * True for names that logrotate gives: `out.ndjson.1.gz`, `out.ndjson-20260131.gz`,
 * `out-20260131.ndjson.gz`. False for `out-errors.ndjson`, which may belong to another sink.
 */
function isRotated(name: string, own: string): boolean {
  if (name.startsWith(`${own}.`) || name.startsWith(`${own}-`)) return true
  const stem = basename(own, extname(own))
  return name.startsWith(stem) && /^[._-]?\d/.test(name.slice(stem.length))
}
