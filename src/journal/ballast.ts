// A file of known size beside the journal: deleting rows on a full disk needs room itself, and this is where it comes from.
import { randomFillSync } from 'node:crypto'
import {
  closeSync,
  existsSync,
  ftruncateSync,
  lstatSync,
  openSync,
  rmSync,
  statfsSync,
  writeSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { ballastPath } from '../model/journal-files.ts'
import { inMib } from './no-room.ts'

const PIECE_BYTES = 1024 * 1024
/** Where it can wait, one time in so many is enough to try again what a quota refused: each time writes up to all that is left. */
const SPARING = 64

/** Free bytes for this user on the file system of `folder`. */
export type FreeBytes = (folder: string) => number

export function freeBytesOf(folder: string): number {
  const { bavail, bsize } = statfsSync(folder)
  return bavail * bsize
}

export class Ballast {
  readonly bytes: number
  readonly #path: string
  readonly #freeBytes: FreeBytes
  #present = false
  /** by this process, or perhaps by one before it */
  #givenUp: boolean
  /** tries since one came through that could have waited */
  #refused = 0

  /** To be made before the journal's file is. */
  constructor(journalPath: string, bytes: number, freeBytes: FreeBytes) {
    this.#path = ballastPath(journalPath)
    this.bytes = bytes
    this.#freeBytes = freeBytes
    this.#givenUp = existsSync(journalPath)
  }

  /** True while it is known to be there, or where there is to be none. */
  get present(): boolean {
    return this.bytes === 0 || this.#present
  }

  /** True when the ballast is there, or could be put there: with less than twice its size free it is not tried. `sparing`: it can wait. */
  ensure(sparing = false): boolean {
    if (this.present) return true
    const there = this.#there()
    const thereBytes = there?.isFile() === true ? there.size : 0
    if (thereBytes === this.bytes) return (this.#present = true)
    // One of another size, an older version's, makes room for this one.
    if (!this.hasSpace(-thereBytes)) return false
    if (sparing && this.#refused++ % SPARING !== 0) return false
    try {
      this.#write()
      this.#refused = 0
      return (this.#present = true)
    } catch {
      this.free()
      return false
    }
  }

  /** What the disk has left. */
  get freeBytes(): number {
    return this.#freeBytes(dirname(this.#path))
  }

  /** True while the disk has room for `bytes`, and for the ballast twice over. */
  hasSpace(bytes: number): boolean {
    return this.freeBytes >= bytes + 2 * this.bytes
  }

  /** For messages: what the disk has, and what is wanted. '' where that is enough, and a quota or a limit is not. */
  get shortage(): string {
    if (this.hasSpace(0)) return ''
    return `${inMib(this.freeBytes)} are free, the journal wants ${inMib(2 * this.bytes)}`
  }

  /** True when there was something to free. */
  free(): boolean {
    this.#present = false
    this.#givenUp = true
    if (!this.#there()) return false
    rmSync(this.#path, { force: true })
    return true
  }

  /** A link is not followed: it is none of ours, and makes room for this file as any other would. */
  #there() {
    return lstatSync(this.#path, { throwIfNoEntry: false })
  }

  /**
   * Random bytes, since a file system that compresses would keep nothing for zeros. Once it was given up, twice over, then cut:
   * of a quota the free bytes tell nothing, and one that is put where it was just given up would come and go with each try.
   */
  #write(): void {
    rmSync(this.#path, { force: true })
    const file = openSync(this.#path, 'wx', 0o600)
    try {
      const piece = randomFillSync(Buffer.allocUnsafe(Math.min(PIECE_BYTES, this.bytes)))
      for (let left = (this.#givenUp ? 2 : 1) * this.bytes; left > 0;)
        left -= writeSync(file, piece, 0, Math.min(piece.length, left))
      ftruncateSync(file, this.bytes)
    } finally {
      closeSync(file)
    }
  }
}
