// What room the journal's own file and its log have left: the file never shrinks, so on a volume that it fills this is all there is.
import { statfsSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Database } from 'better-sqlite3'
import { type Bounds, besideBytes, wantedBytes } from '../model/volume.ts'
import type { Ballast } from './ballast.ts'
import { inMib, type Lack, RAISE_LIMIT } from './no-room.ts'

/** From this part of the volume on, the journal's own file is what fills it. */
const FILLING_SHARE = 0.5

/** Bytes of the whole file system of `folder`. */
export type VolumeBytes = (folder: string) => number

function volumeBytesOf(folder: string): number {
  const { blocks, bsize } = statfsSync(folder)
  return blocks * bsize
}

interface SpaceOptions {
  readonly path: string
  readonly db: Database
  readonly ballast: Ballast
  readonly largestFileBytes: number
  readonly volumeBytes?: VolumeBytes | undefined
  readonly bounds: Bounds
}

export class Space {
  readonly #db: Database
  readonly #ballast: Ballast
  readonly #largestFileBytes: number
  readonly #volumeBytes: VolumeBytes
  readonly #path: string
  readonly #bounds: Bounds

  constructor({ path, db, ballast, largestFileBytes, volumeBytes = volumeBytesOf, bounds }: SpaceOptions) {
    this.#bounds = bounds
    this.#path = path
    this.#db = db
    this.#ballast = ballast
    this.#largestFileBytes = largestFileBytes
    this.#volumeBytes = volumeBytes
  }

  /** The file's own bound, how far it may grow until there, and whether it is the system that allows no more. */
  get fileBytes(): { readonly bound: number; readonly left: number; readonly isSystems: boolean } {
    const pageBytes = this.#number('page_size')
    const bound = this.#number('max_page_count') * pageBytes
    const left = bound - this.#number('page_count') * pageBytes
    return { bound, left, isSystems: bound + pageBytes > this.#largestFileBytes }
  }

  /**
   * Brings the log's pages into the file, and lets the log begin anew: for pages that the file has no new block is wanted.
   * RESTART, not TRUNCATE: blocks that a full disk got back might be another's at once, and the log could not grow again.
   */
  fold(): void {
    this.#db.pragma('wal_checkpoint(RESTART)')
  }

  /** True while free pages of the file hold `bytes`, and as much as the ballast behind them. */
  hasPagesFor(bytes: number): boolean {
    return this.#number('freelist_count') * this.#number('page_size') >= bytes + this.#ballast.bytes
  }

  /** True while a log that was folded may become `bytes` long: in the blocks that it has, and in what the disk has free. */
  hasLogFor(bytes: number): boolean {
    const log = statSync(`${this.#path}-wal`, { throwIfNoEntry: false })?.size ?? 0
    return log + this.#ballast.freeBytes >= bytes
  }

  /** Where there is no room to take in more: why, and what helps where that is not the disk alone. */
  get lack(): Lack {
    const ballastBytes = 2 * this.#ballast.bytes
    if (this.#largestFileBytes < ballastBytes) {
      const allowed = inMib(this.#largestFileBytes)
      const why = `a file may have ${allowed} here, and the journal's ballast takes up to ${inMib(ballastBytes)}`
      return { remedy: RAISE_LIMIT, why }
    }
    const { shortage } = this.#ballast
    const why = shortage === '' ? 'the disk is too full to take in more' : shortage
    const bytes = this.#number('page_count') * this.#number('page_size')
    const volume = this.#volumeBytes(dirname(this.#path))
    const wanted = `they take ${inMib(wantedBytes(this.#bounds))} plus keys`
    if (bytes >= volume * FILLING_SHARE) {
      const what = `make room, or set journal.max_bytes and journal.keep_settled to fit the volume (${wanted}; docs/operations.md)`
      const own = `its own file takes ${inMib(bytes)} of ${inMib(volume)}`
      return { remedy: { what }, why: `${why}; ${own} and does not shrink` }
    }
    const least = besideBytes(this.#bounds)
    if (volume >= least) return { why }
    const what = `make room for journal.max_bytes and journal.keep_settled on a larger volume (${wanted})`
    return {
      remedy: { what },
      why: `${why}; this one has ${inMib(volume)}, and log and ballast alone may take ${inMib(least)}`,
    }
  }

  #number(name: string): number {
    return this.#db.pragma(name, { simple: true }) as number
  }
}
