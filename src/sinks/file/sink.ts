// The `file` sink: one line per entry, synced before it is acknowledged.
// After a kill or a power cut no line is doubled and none is missing.
import { dirname } from 'node:path'
import type { Disk, DiskFile } from '../../contracts/platform.ts'
import type { SinkDeps, SinkKind } from '../../contracts/sink-kind.ts'
import type { CheckResult, Delivery, Lines, Sink } from '../../contracts/sink.ts'
import { ConnectorError } from '../../core/errors.ts'
import { jsonOf } from '../../core/json.ts'
import { framedBytes, lineFrame } from '../kit/body.ts'
import { FileChanges } from './changes.ts'
import { begunAtEnd, endAfter, equalPrefix, offsetAt, offsetSchema } from './offset.ts'
import type { FileEnd } from './offset.ts'
import { options } from './options.ts'
import type { FileOptions } from './options.ts'
import { findOffset, unfinished } from './search.ts'
import type { Found } from './search.ts'
import { closeQuietly, closedOnThrow, endLine, rotate, writeWhole } from './steps.ts'

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
  /** Checked before each batch, because another program may move the file away. */
  #pen: Pen | undefined
  /** the last result of `prepare`: the batch with this detail begins at the end of the pen */
  #prepared: string | undefined
  #folderSynced = false
  /** detail of a batch whose sync may have failed: it is written again */
  #unsynced: string | undefined
  readonly #changes: FileChanges

  constructor(name: string, options: FileOptions, deps: SinkDeps) {
    this.name = name
    this.#options = options
    this.#deps = deps
    this.#changes = new FileChanges(name, options.path, deps)
  }

  async prepare(lines: Lines): Promise<string> {
    const { rotate: limits } = this.#options
    const { length } = framedBytes(lines)
    let pen = await this.#atEnd()
    const full = limits && pen.end.size > 0 && pen.end.size + length > limits.max_bytes
    if (full) {
      await this.#closePen()
      await rotate(this.#deps, this.#options.path, limits.keep)
      this.#folderSynced = false
      pen = await this.#openPen()
    }
    this.#prepared = JSON.stringify(offsetAt(pen.end, length))
    return this.#prepared
  }

  async deliver(delivery: Delivery, signal: AbortSignal) {
    if (signal.aborted) throw new ConnectorError('aborted', `${this.#options.path}: stopped before the batch`)
    const { lines, detail, possibleDuplicate } = delivery
    if (lines.count === 0) return { acknowledged: 0, rejected: [] }
    const bytes = framedBytes(lines)
    const prepared = this.#prepared === detail && !possibleDuplicate ? this.#pen : undefined
    this.#prepared = undefined
    if (prepared) {
      // Until the batch is synced the end of the file is unknown: after a failure it is read again.
      this.#pen = undefined
      await this.#append(prepared, bytes, detail)
    } else {
      await this.#closePen()
      await this.#repair(detail, bytes)
    }
    return { acknowledged: lines.count, rejected: [] }
  }

  async #append({ file, end }: Pen, bytes: Uint8Array, detail: string): Promise<void> {
    await closedOnThrow(file, () => this.#write(file, bytes, end.size, detail))
    this.#pen = { file, end: endAfter(end, bytes) }
    this.#changes.wrote(this.#pen.end)
  }

  /** For a batch that may be in the file already, whole or in part. */
  async #repair(detail: string, bytes: Uint8Array): Promise<void> {
    const { file, offset, found } = await this.#findAgain(detail, bytes)
    try {
      if (found?.refusal) {
        await this.#proveWhole(found, offset, bytes, detail)
        return
      }
      await this.#cutAfterEqual(file, offset, bytes)
      // The equal part is written again too: it may be in memory only after a failed sync.
      // The bytes and the offset are the same, so a program that follows the file sees no change.
      await this.#write(file, bytes, offset, detail)
      this.#changes.wrote({ identity: await file.identity(), size: offset + bytes.length })
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
    if (!pen) return this.#openPen()
    // The file system may be away: close the file, and the next try opens it again.
    const there = await this.#deps.disk.look(this.#options.path).catch(async (error: unknown) => {
      await this.#closePen()
      throw error
    })
    if (there?.identity === pen.end.identity) {
      this.#changes.seen()
      if (there.size === pen.end.size) return pen
      if (there.size > pen.end.size) this.#changes.reportWriter()
    } else await this.#changes.reportRemoved(pen)
    await this.#closePen()
    return this.#openPen()
  }

  async #openPen(): Promise<Pen> {
    const file = await this.#open()
    this.#pen = await closedOnThrow(file, async () => {
      await this.#changes.reportCut(file)
      return { file, end: await endLine(file) }
    })
    return this.#pen
  }

  /** After the equal part comes our own torn write; after a whole batch, perhaps another batch. */
  async #cutAfterEqual(file: DiskFile, offset: number, bytes: Uint8Array): Promise<void> {
    const equal = await equalPrefix(file, offset, bytes)
    if (equal < bytes.length) await file.truncate(offset + equal)
  }

  /** The file of the in-flight record, under its current name; otherwise the end of `path`. */
  async #findAgain(
    detail: string,
    bytes: Uint8Array,
  ): Promise<{ file: DiskFile; offset: number; found?: Found }> {
    const { disk, log } = this.#deps
    const { path } = this.#options
    const start = jsonOf(offsetSchema, detail)
    const open = (name: string) => this.#open(name)
    const found = start && (await findOffset({ disk, path, open }, start, bytes))
    if (found) return { file: found.file, offset: start.offset, found }
    const there = await disk.exists(path)
    const file = await this.#open()
    return closedOnThrow(file, async () => {
      await this.#changes.reportCut(file, start && { identity: start.file, size: start.offset })
      const begun = await begunAtEnd(file, bytes)
      const offset = begun ?? (await endLine(file)).size
      // The part of the batch after this offset is not acknowledged, and we may cut it again.
      this.#changes.wrote({ identity: await file.identity(), size: offset })
      const facts = { path, offset, expectedOffset: start?.offset ?? null, there }
      log.warn(
        'The file changed since the last delivery, and the end of the interrupted batch was not found in it: the batch is written at the end of the file, and some of its lines may be there twice',
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

  async #closePen(): Promise<void> {
    const pen = this.#pen
    this.#pen = undefined
    if (pen) await closeQuietly(pen.file)
  }

  /** Does not create a missing file: a program that follows it would see it appear. */
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
      const message = error instanceof Error ? error.message : 'cannot be written'
      return [{ what: path, ok: false, message }]
    }
  }

  async close(): Promise<void> {
    await Promise.all([this.#changes.close(), this.#closePen()])
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
