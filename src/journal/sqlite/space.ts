// The space left for the journal's file and its log: the file never shrinks, so on a volume that it
// fills this is all there is.
import { randomFillSync } from 'node:crypto'
import {
  closeSync,
  existsSync,
  ftruncateSync,
  lstatSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  statfsSync,
  writeSync,
} from 'node:fs'
import { dirname } from 'node:path'
import type { Database } from 'better-sqlite3'
import { ConnectorError, errnoOf } from '../../core/errors.ts'
import { ballastPath, besideBytes, probePath, wantedBytes } from './files.ts'
import type { Bounds } from './files.ts'

/** From this fraction of the volume on, the journal's own file is named as the cause. */
const FILLING_SHARE = 0.5

/** Size of the file system of `folder`, bytes. */
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

  /** The file's bound, how far it may grow until there, and whether the system sets that bound. */
  get fileBytes(): { readonly bound: number; readonly left: number; readonly isSystems: boolean } {
    const pageBytes = this.#number('page_size')
    const bound = this.#number('max_page_count') * pageBytes
    const left = bound - this.#number('page_count') * pageBytes
    return { bound, left, isSystems: bound + pageBytes > this.#largestFileBytes }
  }

  /**
   * Moves the log's pages into the file and lets the log start over; the file may need new blocks
   * for them. RESTART, not TRUNCATE: another process could take the freed blocks of a full disk at
   * once, and the log could not grow again.
   */
  fold(): void {
    this.#db.pragma('wal_checkpoint(RESTART)')
  }

  /** True while the file has free pages for `bytes`, and for the ballast in addition. */
  hasPagesFor(bytes: number): boolean {
    return this.#number('freelist_count') * this.#number('page_size') >= bytes + this.#ballast.bytes
  }

  /**
   * True while a log after a checkpoint may become `bytes` long: in its own blocks, and in the free
   * space of the disk.
   */
  hasLogFor(bytes: number): boolean {
    const log = statSync(`${this.#path}-wal`, { throwIfNoEntry: false })?.size ?? 0
    return log + this.#ballast.freeBytes >= bytes
  }

  /** If there is no room for new entries: the cause, and the remedy if it is not the disk alone. */
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
      const what = `make room, or set journal.max_bytes and journal.keep_delivered to fit the volume (${wanted}; docs/operations/full-disk.md)`
      const own = `its own file takes ${inMib(bytes)} of ${inMib(volume)}`
      return { remedy: { what }, why: `${why}; ${own} and does not shrink` }
    }
    const least = besideBytes(this.#bounds)
    if (volume >= least) return { why }
    const what = `make room for journal.max_bytes and journal.keep_delivered on a larger volume (${wanted})`
    return {
      remedy: { what },
      why: `${why}; this one has ${inMib(volume)}, and log and ballast alone may take ${inMib(least)}`,
    }
  }

  #number(name: string): number {
    return this.#db.pragma(name, { simple: true }) as number
  }
}

// Ballast: a file of known size beside the journal. Deleting rows on a full disk needs space
// itself, which this file provides.

const PIECE_BYTES = 1024 * 1024
/**
 * If it can wait, retry only once in this many times what a quota refused: each try writes up to
 * all the space that is left.
 */
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
  /** by this process, or perhaps by an earlier one */
  #givenUp: boolean
  /** refused tries that could have waited, since the last success */
  #refused = 0

  /** Create before the journal's file. */
  constructor(journalPath: string, bytes: number, freeBytes: FreeBytes) {
    this.#path = ballastPath(journalPath)
    this.bytes = bytes
    this.#freeBytes = freeBytes
    this.#givenUp = existsSync(journalPath)
  }

  /** True while it is known to exist, or none is configured. */
  get present(): boolean {
    return this.bytes === 0 || this.#present
  }

  /**
   * True if the ballast exists or could be created: not tried with less than twice its size free.
   * `sparing`: it can wait.
   */
  ensure(sparing = false): boolean {
    if (this.present) return true
    const there = this.#there()
    const thereBytes = there?.isFile() === true ? there.size : 0
    if (thereBytes === this.bytes) return (this.#present = true)
    // A ballast of another size, from an older version, is replaced.
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

  /** Free space of the disk. */
  get freeBytes(): number {
    return this.#freeBytes(dirname(this.#path))
  }

  /** True while the disk has space for `bytes` and twice the ballast. */
  hasSpace(bytes: number): boolean {
    return this.freeBytes >= bytes + 2 * this.bytes
  }

  /** For messages: free and required space; '' if the reason is a quota or another limit. */
  get shortage(): string {
    if (this.hasSpace(0)) return ''
    return `${inMib(this.freeBytes)} are free, the journal needs ${inMib(2 * this.bytes)}`
  }

  /** True if there was something to free. */
  free(): boolean {
    this.#present = false
    this.#givenUp = true
    if (!this.#there()) return false
    rmSync(this.#path, { force: true })
    return true
  }

  /** A link is not followed: it is not ours, and is removed like any other file there. */
  #there() {
    return lstatSync(this.#path, { throwIfNoEntry: false })
  }

  /**
   * Random bytes, since a compressing file system would reserve nothing for zeros. Once it was
   * given up, it is written at twice its size, then truncated: free bytes do not show a quota, and
   * a ballast restored right after it was given up would be created and deleted with each try.
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

// Limits of the system besides the disk's own space: a quota, and a maximum file size.
// SQLite recognises a full disk by its errno, but reports each of these as an ordinary I/O error
// without the errno, so a test write finds out.

/** More than any write of SQLite, a log page with its header: if that failed, this fails too. */
const PROBE_BYTES = 64 * 1024

const LIMITS = new Set(['EDQUOT', 'EFBIG'])

/** The system's error at the journal's file, not at a link to it: EDQUOT, EFBIG or none. */
export type LimitReached = (journalPath: string) => unknown

/**
 * Accepted only on the system's own error code. This is safe even if the disk failed as well:
 * SQLite has rolled back the failed write, and a failed sync has another code and never gets here.
 */
export function limitReachedAt(journalPath: string): unknown {
  try {
    const files = [journalPath, `${journalPath}-wal`]
    const sizes = files.map((path) => statSync(path, { throwIfNoEntry: false })?.size ?? 0)
    tryAt(probePath(journalPath), Math.max(...sizes))
    return undefined
  } catch (error) {
    return LIMITS.has(errnoOf(error)) ? error : undefined
  }
}

/**
 * Tests with a separate file, at an offset as large as the journal: opening and closing the
 * journal's files would drop SQLite's lock. The hole before `offset` takes no space.
 */
function tryAt(probe: string, offset: number): void {
  // An existing file may be a link, which is not followed.
  rmSync(probe, { force: true })
  const file = openSync(probe, 'wx', 0o600)
  try {
    // Random, like the ballast.
    const bytes = randomFillSync(Buffer.allocUnsafe(PROBE_BYTES))
    for (let done = 0; done < PROBE_BYTES;)
      done += writeSync(file, bytes, done, PROBE_BYTES - done, offset + done)
  } finally {
    closeSync(file)
    rmSync(probe, { force: true })
  }
}

/** The maximum file size of this process, if the system reports it. */
export function largestFileBytes(): number {
  try {
    const soft = /^Max file size +(\d+)/m.exec(readFileSync('/proc/self/limits', 'latin1'))?.[1]
    return soft === undefined ? Infinity : Number(soft)
  } catch {
    return Infinity
  }
}

// Messages for a journal that cannot grow: the cause, the remedy, and the path; sizes for people.

/** The remedy, in the imperative. `needsStart`: it works only after a restart. */
interface Remedy {
  readonly what: string
  readonly needsStart?: boolean
}

interface Lack {
  /** what prevents the journal from growing, a clause without a full stop */
  readonly why: string
  /** absent: make room */
  readonly remedy?: Remedy
}

export const RAISE_LIMIT: Remedy = {
  what: 'raise the limit on how large a file may become (ulimit -f, LimitFSIZE)',
  needsStart: true,
}

class NoDiskSpace extends ConnectorError {
  readonly path: string
  readonly lack: Lack

  constructor(path: string, lack: Lack, next: string, meanwhile: string, cause: unknown) {
    const { what } = lack.remedy ?? { what: 'make room' }
    super('disk_full', `${lack.why}: ${what}, and ${next}. ${meanwhile}. The journal is ${path}`, { cause })
    this.path = path
    this.lack = lack
  }
}

export function diskFull(path: string, lack: Lack, cause?: unknown): ConnectorError {
  const next = lack.remedy?.needsStart ? 'start again' : 'reading resumes automatically'
  return new NoDiskSpace(path, lack, next, 'Delivery continues', cause)
}

/**
 * A full journal reported at a start, which then fails: nothing is paused, and nothing resumes
 * automatically. `shortage`: how much space is missing; '' if unknown.
 */
export function atStart(error: unknown, shortage: () => string): unknown {
  if (!(error instanceof NoDiskSpace)) return error
  const { path, lack } = error
  const short = shortage()
  const why = short === '' ? lack.why : `${lack.why} (${short})`
  const meanwhile = 'Nothing was started and nothing is lost'
  return new NoDiskSpace(path, { ...lack, why }, 'start again', meanwhile, error)
}

/** `1572864` as `1.5 MiB`, rounded down. */
export function inMib(bytes: number): string {
  const mib = bytes / 2 ** 20
  return `${mib < 10 ? Math.floor(mib * 10) / 10 : Math.floor(mib)} MiB`
}
