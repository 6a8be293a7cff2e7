// A file of known size beside the journal: deleting rows on a full disk needs room itself, and this is where it comes from.
import { randomFillSync } from 'node:crypto'
import {
  closeSync,
  existsSync,
  ftruncateSync,
  openSync,
  rmSync,
  statfsSync,
  statSync,
  writeSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { ballastPath } from '../model/journal-files.ts'

const PIECE_BYTES = 1024 * 1024

/** Free bytes for this user on the file system of `folder`. */
export type FreeBytes = (folder: string) => number

export function freeBytesOf(folder: string): number {
  const { bavail, bsize } = statfsSync(folder)
  return bavail * bsize
}

export class Ballast {
  readonly #path: string
  readonly #bytes: number
  readonly #freeBytes: FreeBytes
  #present = false

  constructor(journalPath: string, bytes: number, freeBytes: FreeBytes) {
    this.#path = ballastPath(journalPath)
    this.#bytes = bytes
    this.#freeBytes = freeBytes
  }

  /** True when the ballast is there, or could be put there: with less than twice its size free it is not tried. */
  ensure(): boolean {
    if (this.#bytes === 0 || this.#present) return true
    if (existsSync(this.#path) && statSync(this.#path).size === this.#bytes) return (this.#present = true)
    if (!this.hasRoom(0)) return false
    try {
      this.#write()
      return (this.#present = true)
    } catch {
      this.free()
      return false
    }
  }

  /** True while the disk has room for `bytes`, and for the ballast twice over. */
  hasRoom(bytes: number): boolean {
    return this.#freeBytes(dirname(this.#path)) >= bytes + 2 * this.#bytes
  }

  /** True when there was something to free. */
  free(): boolean {
    this.#present = false
    if (!existsSync(this.#path)) return false
    rmSync(this.#path, { force: true })
    return true
  }

  /**
   * Random bytes, since a file system that compresses would keep nothing for zeros. Twice over, then cut: of a quota the free
   * bytes tell nothing, and a ballast that is put where it was just given up would come and go with each try.
   */
  #write(): void {
    const file = openSync(this.#path, 'w', 0o600)
    try {
      const piece = randomFillSync(Buffer.allocUnsafe(Math.min(PIECE_BYTES, this.#bytes)))
      for (let left = 2 * this.#bytes; left > 0;)
        left -= writeSync(file, piece, 0, Math.min(piece.length, left))
      ftruncateSync(file, this.#bytes)
    } finally {
      closeSync(file)
    }
  }
}
