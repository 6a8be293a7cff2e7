// What room the journal's own file and its log have left: the file never shrinks, so on a volume that it fills this is all there is.
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

// A file of known size beside the journal: deleting rows on a full disk needs room itself, and this is where it comes from.

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

// The limits that a system sets beside the disk's own room: a quota, and how large a file may become.
// SQLite knows a full disk by its number, either of these is an I/O error to it as any other, and the number does not come through
// to us: so it is tried.

/** More than any write of SQLite's, a page of its log with a head: where that found no room this finds none either. */
const PROBE_BYTES = 64 * 1024

const LIMITS = new Set(['EDQUOT', 'EFBIG'])

/** What the system says where the journal's file lies, no link: an error, EDQUOT or EFBIG; undefined: neither. */
export type LimitReached = (journalPath: string) => unknown

/**
 * Held to be so on the system's own word only. Should the disk have failed as well, nothing is believed too much: SQLite
 * has taken back the write that failed, and a sync that fails has another code and is never looked at here.
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

/** Tries it on a file of its own, as far out as the journal's reach: to open and close those would drop SQLite's lock. What lies before `offset` takes no room. */
function tryAt(probe: string, offset: number): void {
  // What is there may be a link, which is not followed.
  rmSync(probe, { force: true })
  const file = openSync(probe, 'wx', 0o600)
  try {
    // Random, as the ballast is.
    const bytes = randomFillSync(Buffer.allocUnsafe(PROBE_BYTES))
    for (let done = 0; done < PROBE_BYTES;)
      done += writeSync(file, bytes, done, PROBE_BYTES - done, offset + done)
  } finally {
    closeSync(file)
    rmSync(probe, { force: true })
  }
}

/** How large a file of this process may become, where the system tells. */
export function largestFileBytes(): number {
  try {
    const soft = /^Max file size +(\d+)/m.exec(readFileSync('/proc/self/limits', 'latin1'))?.[1]
    return soft === undefined ? Infinity : Number(soft)
  } catch {
    return Infinity
  }
}

// What is told where the journal cannot grow: first why, then what to do, and where it lies; sizes for people.

/** What helps, in the imperative. `needsStart`: only with a start behind it, as a limit of this process does. */
interface Remedy {
  readonly what: string
  readonly needsStart?: boolean
}

interface Lack {
  /** what keeps the journal from growing, a clause without its stop */
  readonly why: string
  /** absent: to make room */
  readonly remedy?: Remedy
}

export const RAISE_LIMIT: Remedy = {
  what: 'raise the limit on how large a file may become (ulimit -f, LimitFSIZE)',
  needsStart: true,
}

class JournalFull extends ConnectorError {
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
  const next = lack.remedy?.needsStart ? 'start again' : 'reading goes on by itself'
  return new JournalFull(path, lack, next, 'Delivery goes on', cause)
}

/** A full journal as told at a start, which ends with it: nothing is paused then, and nothing goes on by itself. `shortage`: how much room is missing; '' where that is not known. */
export function atStart(error: unknown, shortage: () => string): unknown {
  if (!(error instanceof JournalFull)) return error
  const { path, lack } = error
  const short = shortage()
  const why = short === '' ? lack.why : `${lack.why} (${short})`
  const meanwhile = 'Nothing was begun or lost'
  return new JournalFull(path, { ...lack, why }, 'start again', meanwhile, error)
}

/** `1572864` as `1.5 MiB`, never more than there are. */
export function inMib(bytes: number): string {
  const mib = bytes / 2 ** 20
  return `${mib < 10 ? Math.floor(mib * 10) / 10 : Math.floor(mib)} MiB`
}
