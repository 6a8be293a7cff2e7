// A file as a sink: a line an entry, on the disk before it counts; after a kill or a power cut no line twice, none missing.
import { dirname } from 'node:path'
import { z } from 'zod'
import type { Disk, DiskFile } from '../model/disk.ts'
import { ConnectorError } from '../model/errors.ts'
import type { CheckResult, Delivery, Lines, Sink } from '../model/sink.ts'
import type { SinkDeps, SinkKind } from '../model/sink-kind.ts'
import { size } from '../model/units.ts'
import { begunAtEnd, endAfter, equalPrefix, type FileEnd, placeAt, readPlace } from './file-place.ts'
import { findPlace, type Found, unfinished } from './file-search.ts'
import { closedOnThrow, closeQuietly, endLine, rotate, writeWhole } from './file-steps.ts'
import { Others } from './file-others.ts'
import { framedBytes, lineFrame } from './line-frame.ts'

const options = z.strictObject({
  path: z
    .string()
    .min(1, 'want the path of a file')
    .describe('The file to append to; it and its folders are made where there are none.'),
  rotate: z
    .strictObject({
      max_bytes: size()
        .refine((bytes) => bytes >= 1, 'want at least 1B')
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
      log.warn('The file is not as it was left: the batch in doubt goes to its end.', facts)
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
