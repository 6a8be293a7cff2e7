// A file as a sink: a line an entry, on the disk before it counts; after a kill or a power cut no line twice, none missing.
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
    .describe('The file to append to; it and its folders are made where there are none.'),
  rotate: z
    .strictObject({
      max_bytes: size()
        .refine((bytes) => bytes >= 1, 'expected at least 1B')
        .prefault('256MiB')
        .describe('A batch that would take the file over this begins a new one; alone it may be larger.'),
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
    .describe(
      'When to begin a new file; without it the file grows for ever or is moved away by another program.',
    ),
})

type FileOptions = z.output<typeof options>

/** The open file, its end as our last batch left it. */
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
  /** Kept from batch to batch; looked at before each, since another program may move the file away. */
  #pen: Pen | undefined
  /** what `prepare` answered last: the batch that goes out with it begins where the pen stands */
  #prepared: string | undefined
  #folderSynced = false
  /** the place of a batch on which a sync may have failed: its bytes may stand in memory alone, and are written anew */
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
    const { lines, detail, doubtful } = delivery
    if (lines.count === 0) return { settled: 0, refused: [] }
    const bytes = framedBytes(lines)
    const prepared = this.#prepared === detail && !doubtful ? this.#pen : undefined
    this.#prepared = undefined
    if (prepared) {
      // Until the batch is on the disk the file's end is not known: what fails leaves it to be read anew.
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

  /** A batch that may be there, whole or in part. */
  async #mend(detail: string, bytes: Uint8Array): Promise<void> {
    const { file, offset, found } = await this.#findAgain(detail, bytes)
    try {
      if (found?.refusal) {
        await this.#proveWhole(found, offset, bytes, detail)
        return
      }
      await this.#cutAfterEqual(file, offset, bytes)
      // The equal part is written again too: a sync that failed before may have left it in memory alone, and only
      // what is written anew is synced anew. The same bytes in the same place: whoever follows the file sees nothing.
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

  /** Where it may only be read: all of it stands there, and is on the disk. */
  async #proveWhole(found: Found, offset: number, bytes: Uint8Array, detail: string): Promise<void> {
    const isWhole = (await equalPrefix(found.file, offset, bytes)) === bytes.length
    if (!isWhole || this.#unsynced === detail) throw unfinished(found, offset)
    this.#unsynced = detail
    await found.file.sync()
    this.#unsynced = undefined
  }

  /** The pen at the end of the file that bears the name now. */
  async #atEnd(): Promise<Pen> {
    const pen = this.#pen
    if (!pen) return this.#takeUp()
    // Whoever cannot be looked at may be away, and what is open with it: the next try opens anew.
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

  /** What stands behind the batch's equal part is our own torn write. A batch that is there whole may have a neighbour behind it. */
  async #cutAfterEqual(file: DiskFile, offset: number, bytes: Uint8Array): Promise<void> {
    const equal = await equalPrefix(file, offset, bytes)
    if (equal < bytes.length) await file.truncate(offset + equal)
  }

  /** The file that the intent names, by whatever name it has now; else the end of the one at `path`. */
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
      // The part of the batch that stands behind it is not settled, and may be cut again by ourselves.
      this.#others.left({ identity: await file.identity(), size: offset })
      const facts = { path, offset, expectedOffset: place?.offset ?? null, there }
      log.warn('The file is not as it was left: the possible duplicate goes to its end.', facts)
      return { file, offset }
    })
  }

  async #open(path = this.#options.path): Promise<DiskFile> {
    const { disk } = this.#deps
    const file = await disk.open(path)
    return closedOnThrow(file, async () => {
      // An empty file may be one that was just made; its name must last as long as its content.
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

  /** Opens it to write. One that is not there is not made: whoever follows it would see it come. */
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

/** A file of somebody else's stays: its name is not taken. */
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

// Where the file of a `file` sink ended when the sink last left it, over an orderly stop too: the same file, shorter, was cut by somebody else.

const endSchema = z.object({ identity: z.string(), size: z.int().min(0), leftAt: z.number() })
type KnownEnd = z.output<typeof endSchema>

interface Cut {
  /** how many are gone */
  readonly bytes: number
  /** epoch ms: when the file still had them; undefined: nobody knows */
  readonly leftAt: number | undefined
}

class LastEnd {
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

// What others do to the file of a `file` sink: write to it, cut it, or remove it with what stood in it. Moved away, as logrotate does, it is no loss.

/** The clocks of file systems go in steps, and another machine's may be apart. */
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
