// The `file` sink: one line per entry, synced before it is acknowledged.
// After a kill or a power cut no line is doubled and none is missing.
import { basename, dirname, extname, join } from 'node:path'
import { z } from 'zod'
import type { Disk, DiskFile } from '../../contracts/platform.ts'
import type { SinkDeps, SinkKind } from '../../contracts/sink-kind.ts'
import type { CheckResult, Delivery, Lines, Sink } from '../../contracts/sink.ts'
import { ConnectorError } from '../../core/errors.ts'
import { jsonOf } from '../../core/json.ts'
import { DAY_MS, SECOND_MS, secondText } from '../../core/time.ts'
import { size } from '../../core/units.ts'
import { framedBytes, lineFrame } from '../kit/line-frame.ts'
import { begunAtEnd, endAfter, equalPrefix, placeAt, readPlace } from './place.ts'
import type { FileEnd } from './place.ts'
import { findPlace, unfinished } from './search.ts'
import type { Found } from './search.ts'
import { closeQuietly, closedOnThrow, endLine, rotate, writeWhole } from './steps.ts'

const options = z.strictObject({
  path: z
    .string()
    .min(1, 'expected the path of a file')
    .describe('The file to append to; it and its folders are created if missing.'),
  rotate: z
    .strictObject({
      max_bytes: size()
        .refine((bytes) => bytes >= 1, 'expected at least 1B')
        .prefault('256MiB')
        .describe('A batch that would exceed this begins a new file; a single batch may be larger.'),
      keep: z
        .int()
        .min(1)
        .max(10_000)
        .default(10)
        .describe(
          'How many full files are kept as `path.1` (the newest) to `path.N`; older ones are removed.',
        ),
    })
    .optional()
    .describe('When to begin a new file; without it the file grows until another program rotates it.'),
})

type FileOptions = z.output<typeof options>

/** The open file, with its end after our last batch. */
interface Pen {
  readonly file: DiskFile
  readonly end: FileEnd
}

const assurance = 'stored'

class FileSink implements Sink {
  readonly type = 'file'
  readonly assurance = assurance
  readonly frame = lineFrame
  readonly shape = ''
  readonly name: string
  readonly #options: FileOptions
  readonly #deps: SinkDeps
  /** Kept between batches; checked before each one, because another program may move the file away. */
  #pen: Pen | undefined
  /** the last result of `prepare`: the batch with this detail begins at the end of the pen */
  #prepared: string | undefined
  #folderSynced = false
  /** place of a batch whose sync may have failed: its bytes may be in memory only, so they are written again */
  #unsynced: string | undefined
  readonly #others: Others

  constructor(name: string, options: FileOptions, deps: SinkDeps) {
    this.name = name
    this.#options = options
    this.#deps = deps
    this.#others = new Others(name, options.path, deps)
  }

  async prepare(lines: Lines): Promise<string> {
    const { rotate: limits } = this.#options
    const { length } = framedBytes(lines)
    let pen = await this.#atEnd()
    const full = limits && pen.end.size > 0 && pen.end.size + length > limits.max_bytes
    if (full) {
      await this.#leave()
      await rotate(this.#deps, this.#options.path, limits.keep)
      this.#folderSynced = false
      pen = await this.#takeUp()
    }
    this.#prepared = JSON.stringify(placeAt(pen.end, length))
    return this.#prepared
  }

  async deliver(delivery: Delivery, signal: AbortSignal) {
    if (signal.aborted) throw new ConnectorError('aborted', `${this.#options.path}: stopped before the batch`)
    const { lines, detail, possibleDuplicate } = delivery
    if (lines.count === 0) return { settled: 0, refused: [] }
    const bytes = framedBytes(lines)
    const prepared = this.#prepared === detail && !possibleDuplicate ? this.#pen : undefined
    this.#prepared = undefined
    if (prepared) {
      // Until the batch is synced the end of the file is unknown: after a failure it is read again.
      this.#pen = undefined
      await this.#append(prepared, bytes, detail)
    } else {
      await this.#leave()
      await this.#mend(detail, bytes)
    }
    return { settled: lines.count, refused: [] }
  }

  async #append({ file, end }: Pen, bytes: Uint8Array, detail: string): Promise<void> {
    await closedOnThrow(file, () => this.#write(file, bytes, end.size, detail))
    this.#pen = { file, end: endAfter(end, bytes) }
    this.#others.left(this.#pen.end)
  }

  /** For a batch that may be in the file already, whole or in part. */
  async #mend(detail: string, bytes: Uint8Array): Promise<void> {
    const { file, offset, found } = await this.#findAgain(detail, bytes)
    try {
      if (found?.refusal) {
        await this.#proveWhole(found, offset, bytes, detail)
        return
      }
      await this.#cutAfterEqual(file, offset, bytes)
      // The equal part is written again too: after a failed sync it may be in memory only, and a sync covers only new writes.
      // The bytes and the offset are the same, so a program that follows the file sees no change.
      await this.#write(file, bytes, offset, detail)
      this.#others.left({ identity: await file.identity(), size: offset + bytes.length })
    } finally {
      await closeQuietly(file)
    }
  }

  async #write(file: DiskFile, bytes: Uint8Array, offset: number, detail: string): Promise<void> {
    this.#unsynced = detail
    await writeWhole(file, bytes, offset)
    this.#unsynced = undefined
  }

  /** For a read-only file: succeeds if the whole batch is there and synced. */
  async #proveWhole(found: Found, offset: number, bytes: Uint8Array, detail: string): Promise<void> {
    const isWhole = (await equalPrefix(found.file, offset, bytes)) === bytes.length
    if (!isWhole || this.#unsynced === detail) throw unfinished(found, offset)
    this.#unsynced = detail
    await found.file.sync()
    this.#unsynced = undefined
  }

  /** The pen at the end of the file that has the name now. */
  async #atEnd(): Promise<Pen> {
    const pen = this.#pen
    if (!pen) return this.#takeUp()
    // The file system may be away if the file cannot be examined: close it, and the next try opens it again.
    const there = await this.#deps.disk.look(this.#options.path).catch(async (error: unknown) => {
      await this.#leave()
      throw error
    })
    if (there?.identity === pen.end.identity) {
      this.#others.seen()
      if (there.size === pen.end.size) return pen
      if (there.size > pen.end.size) this.#others.tellWriter()
    } else await this.#others.tellRemoved(pen)
    await this.#leave()
    return this.#takeUp()
  }

  async #takeUp(): Promise<Pen> {
    const file = await this.#open()
    this.#pen = await closedOnThrow(file, async () => {
      await this.#others.tellCut(file)
      return { file, end: await endLine(file) }
    })
    return this.#pen
  }

  /** After the equal part of the batch comes our own torn write. After a whole batch another batch may follow. */
  async #cutAfterEqual(file: DiskFile, offset: number, bytes: Uint8Array): Promise<void> {
    const equal = await equalPrefix(file, offset, bytes)
    if (equal < bytes.length) await file.truncate(offset + equal)
  }

  /** The file of the in-flight record, under its current name; otherwise the end of the file at `path`. */
  async #findAgain(
    detail: string,
    bytes: Uint8Array,
  ): Promise<{ file: DiskFile; offset: number; found?: Found }> {
    const { disk, log } = this.#deps
    const { path } = this.#options
    const place = readPlace(detail)
    const open = (name: string) => this.#open(name)
    const found = place && (await findPlace({ disk, path, open }, place, bytes))
    if (found) return { file: found.file, offset: place.offset, found }
    const there = await disk.exists(path)
    const file = await this.#open()
    return closedOnThrow(file, async () => {
      await this.#others.tellCut(file, place && { identity: place.file, size: place.offset })
      const begun = await begunAtEnd(file, bytes)
      const offset = begun ?? (await endLine(file)).size
      // The part of the batch after this offset is not acknowledged, and we may cut it again.
      this.#others.left({ identity: await file.identity(), size: offset })
      const facts = { path, offset, expectedOffset: place?.offset ?? null, there }
      log.warn(
        'The file changed since the last delivery: the batch that may be a duplicate is written at its end',
        facts,
      )
      return { file, offset }
    })
  }

  async #open(path = this.#options.path): Promise<DiskFile> {
    const { disk } = this.#deps
    const file = await disk.open(path)
    return closedOnThrow(file, async () => {
      // A new file is empty; its name must be as durable as its content.
      if (!this.#folderSynced || (await file.size()) === 0) await disk.syncFolder(dirname(path))
      this.#folderSynced = true
      return file
    })
  }

  async #leave(): Promise<void> {
    const pen = this.#pen
    this.#pen = undefined
    if (pen) await closeQuietly(pen.file)
  }

  /** Opens an existing file to write. A missing file is not made: a program that follows it would see it appear. */
  async probe(): Promise<void> {
    const { disk } = this.#deps
    const { path } = this.#options
    if (await disk.exists(path)) await (await disk.open(path)).close()
    else await makeAndRemove(disk, `${path}.check`)
  }

  async check(): Promise<readonly CheckResult[]> {
    const { path } = this.#options
    try {
      await this.probe()
      return [{ what: path, ok: true, message: 'can be written' }]
    } catch (error) {
      return [
        { what: path, ok: false, message: error instanceof Error ? error.message : 'cannot be written' },
      ]
    }
  }

  async close(): Promise<void> {
    await Promise.all([this.#others.close(), this.#leave()])
  }
}

/** Takes a name that is free, so that no existing file is changed. */
async function makeAndRemove(disk: Disk, path: string): Promise<void> {
  let name = path
  for (let next = 1; await disk.exists(name); next++) name = `${path}-${next}`
  await (await disk.openNew(name)).close()
  await disk.remove(name)
}

export const file: SinkKind<typeof options> = {
  options,
  assurance: () => assurance,
  to: ({ path }) => [path],
  outputs: ({ path, rotate: limits }) => [{ field: 'path', path, ...(limits && { rotatedTo: limits.keep }) }],
  open: (name, fileOptions, deps) => new FileSink(name, fileOptions, deps),
}

// Remembers where the file of a `file` sink ended, across orderly stops.
// If the same file is shorter later, another program cut it.

const endSchema = z.object({ identity: z.string(), size: z.int().min(0), leftAt: z.number() })
type KnownEnd = z.output<typeof endSchema>

interface Cut {
  /** how many bytes are gone */
  readonly bytes: number
  /** epoch ms: when the file still had them; undefined: unknown */
  readonly leftAt: number | undefined
}

class LastEnd {
  readonly #deps: Pick<SinkDeps, 'clock' | 'lastEnd'>
  #end: KnownEnd | undefined
  /** the end that the previous process saved */
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
    // The saved end is out of date from now on: after a kill nothing is concluded from it.
    this.#isKept = false
    void this.#keep('')
  }

  /** Called before anything is written to `file`. `before`: where it ended before a possible duplicate. */
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

  /** A failure is ignored: it only means that a cut after this is not reported. */
  async #keep(text: string): Promise<void> {
    await this.#deps.lastEnd?.keep(text).catch(() => undefined)
  }
}

const readEnd = (text = '') => jsonOf(endSchema, text)

// Detects what other programs do to the file of a `file` sink: write to it, cut it, or remove it with its lines.
// A file that was moved away, as logrotate does, is no loss.

/** File system clocks have a coarse resolution, and the clock of another machine may differ. */
const SLACK_MS = 5_000

class Others {
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

  /** Everything up to this end is acknowledged. */
  left(end: Pick<FileEnd, 'identity' | 'size'>): void {
    this.#last.left(end)
  }

  close(): Promise<void> {
    return this.#last.close()
  }

  /**
   * Two writers that append to one file overwrite each other's last batch, and each may cut the other's after a
   * crash.
   */
  tellWriter(): void {
    if (this.#isWriterTold) return
    this.#isWriterTold = true
    this.#deps.log.warn(
      'Another program writes to the file of this sink: give the sink a file of its own, or lines may be lost or doubled',
      { path: this.#path },
    )
  }

  /** Reports that the open file, with lines in it, no longer has its name. */
  async tellRemoved({ file, end }: { readonly file: DiskFile; readonly end: FileEnd }): Promise<void> {
    // A file that cannot be examined may be on a file system that is away: nothing is concluded from that.
    const isNamed = await file.isNamed().catch(() => true)
    if (isNamed || end.size === 0 || (await this.#isKeptBeside())) return
    this.#deps.log.warn(
      'The file of this sink was removed or replaced, with the lines in it: unless it was moved elsewhere they are lost. Delivery continues in a new file, and `auditferry replay` sends the lost lines again',
      { path: this.#path, bytes: end.size, replayTo: untilText(this.#last.leftAt) },
    )
    const what = `${this.#name}: ${this.#path} was removed or replaced with lines in it`
    this.#removed.tell(
      `${what}; unless it was moved elsewhere, this command sends the lines again: ${this.#replayTo(this.#last.leftAt)}`,
    )
  }

  /**
   * Reports that a file that was just opened is shorter than it was left. `before`: where it ended before a
   * possible duplicate.
   */
  async tellCut(file: DiskFile, before?: Pick<FileEnd, 'identity' | 'size'>): Promise<void> {
    const cut = await this.#last.cutOf(file, before)
    if (!cut) return
    const { bytes, leftAt } = cut
    this.#deps.log.warn(
      'The file of this sink was truncated: unless it was copied before (`copytruncate`), the lines at its end are lost. Delivery continues after the remaining lines, and `auditferry replay` sends the lost lines again',
      { path: this.#path, bytes, replayTo: untilText(leftAt) },
    )
    this.#cut.tell(
      `${this.#name}: ${this.#path} was truncated by another program, ${bytes} bytes are gone; unless they were copied before, this command sends the lines again: ${this.#replayTo(leftAt)}`,
    )
  }

  #replayTo(lastAt: number | undefined): string {
    return `auditferry replay --sink ${this.#name} --from <time> --to ${untilText(lastAt) ?? '<time>'}`
  }

  /** True if the file was moved and compressed since it was last seen: a newer file has a name that rotation gives. */
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

/**
 * End of the span that may be lost: the last write before. Later lines are in the file, and a replay would
 * double them.
 */
const untilText = (lastAt: number | undefined): string | undefined =>
  lastAt === undefined ? undefined : secondText((Math.floor(lastAt / SECOND_MS) + 1) * SECOND_MS)

/** A warning that ends one day after it was last reported. */
class ForADay {
  readonly #clock: SinkDeps['clock']
  readonly #warn: (message: string | undefined) => void
  #loggedAt: number | undefined

  constructor(clock: SinkDeps['clock'], warn: (message: string | undefined) => void = () => undefined) {
    this.#clock = clock
    this.#warn = warn
  }

  tell(message: string): void {
    this.#loggedAt = this.#clock.now()
    this.#warn(message)
  }

  look(): void {
    if (this.#loggedAt === undefined || this.#clock.now() - this.#loggedAt < DAY_MS) return
    this.#loggedAt = undefined
    this.#warn(undefined)
  }
}

/**
 * True for names that logrotate gives: `out.ndjson.1.gz`, `out.ndjson-20260131.gz`, `out-20260131.ndjson.gz`.
 * False for `out-errors.ndjson`, which may belong to another sink.
 */
function isRotated(name: string, own: string): boolean {
  if (name.startsWith(`${own}.`) || name.startsWith(`${own}-`)) return true
  const stem = basename(own, extname(own))
  return name.startsWith(stem) && /^[._-]?\d/.test(name.slice(stem.length))
}
