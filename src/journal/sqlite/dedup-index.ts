// Dedup index: which entries were never seen before. Ids compare byte for byte, without
// normalisation.
import { hash } from 'node:crypto'
import type { Database, Statement } from 'better-sqlite3'
import { ID_END, ID_START } from '../../contracts/entries.ts'
import type { Entries } from '../../contracts/entries.ts'
import type { SourceName } from '../../contracts/source.ts'
import { DASH } from '../../core/bytes.ts'

// An id as 16 bytes: those of a UUID, or a hash of anything else.

const KEY_BYTES = 16

/** Values of lower-case hexadecimal digits; 255 for every other byte. */
const hexValues = new Uint8Array(256).fill(255)
for (let value = 0; value < 16; value++) hexValues[value.toString(16).charCodeAt(0)] = value

/** Position of the digits of each key byte in the text of a UUID. */
const digitPlaces = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34]

function digest(bytes: Uint8Array): Buffer {
  return hash('sha256', bytes, 'buffer').subarray(0, KEY_BYTES)
}

/**
 * A canonical lower-case UUID becomes its 16 bytes; anything else, including upper case, is another
 * id and becomes a hash.
 * @internal for tests
 */
export function writeKey(bytes: Uint8Array, start: number, end: number, out: Buffer, at: number): void {
  if (
    end - start === 36 &&
    bytes[start + 8] === DASH &&
    bytes[start + 13] === DASH &&
    bytes[start + 18] === DASH &&
    bytes[start + 23] === DASH
  ) {
    let seen = 0
    for (let i = 0; i < KEY_BYTES; i++) {
      const place = start + (digitPlaces[i] as number)
      const high = hexValues[bytes[place] as number] as number
      const low = hexValues[bytes[place + 1] as number] as number
      seen |= high | low
      out[at + i] = (high << 4) | low
    }
    if (seen < 16) return
  }
  out.set(digest(bytes.subarray(start, end)), at)
}

/**
 * For sources whose ids may return with other content: content that differs from the last one is a
 * new version. Otherwise the first is kept.
 */
const changing: ReadonlySet<SourceName> = new Set<SourceName>(['history.usage', 'history.query'])

export interface Claim {
  /** indices of the new entries; undefined: all that are wanted */
  readonly fresh: Uint32Array | undefined
  readonly freshCount: number
  readonly knownCount: number
  /** by entry index, for entries that are a new version of a known one */
  readonly versions: Uint32Array | undefined
}

interface PageKeys {
  /** 16 bytes each */
  readonly ids: Buffer
  readonly firstUs: number
  /**
   * JSON: the offset of each from `firstUs`, since small numbers are written and read in half the
   * time
   */
  readonly times: string
}

export class Keys {
  readonly #insertPage: Statement<[number, number, Buffer, string]>
  readonly #knownOfPage: Statement<[string, number, number, Buffer], number>
  readonly #find: Statement<[number, number, Buffer], Buffer>
  readonly #insert: Statement<[number, number, Buffer, Buffer]>
  readonly #update: Statement<[Buffer, number, number, Buffer]>
  #ids: Buffer = Buffer.allocUnsafeSlow(1000 * KEY_BYTES)
  /** Sources whose last page contained known entries: for these, looking first is faster. */
  readonly #rereading = new Set<number>()

  constructor(db: Database) {
    // One statement per page is 2.5 times as fast as one per entry.
    this.#insertPage = db.prepare(
      `INSERT OR IGNORE INTO keys (source, at, id) SELECT ?, ? + value, substr(?, key * ${KEY_BYTES} + 1, ${KEY_BYTES}) FROM json_each(?)`,
    )
    this.#knownOfPage = db
      .prepare<[string, number, number, Buffer], number>(
        `SELECT page.key FROM json_each(?) page CROSS JOIN keys ON keys.source = ? AND keys.at = ? + page.value
         AND keys.id = substr(?, page.key * ${KEY_BYTES} + 1, ${KEY_BYTES})`,
      )
      .pluck()
    this.#find = db
      .prepare<[number, number, Buffer], Buffer>(
        'SELECT content FROM keys WHERE source = ? AND at = ? AND id = ?',
      )
      .pluck()
    this.#insert = db.prepare('INSERT INTO keys (source, at, id, content) VALUES (?, ?, ?, ?)')
    this.#update = db.prepare('UPDATE keys SET content = ? WHERE source = ? AND at = ? AND id = ?')
  }

  /**
   * Takes the keys of the entries of `wanted` (all if undefined) and returns which were free. Must
   * come first in its transaction: `restart` rolls back and begins again.
   */
  claim(
    source: number,
    name: SourceName,
    entries: Entries,
    wanted: Uint32Array | undefined,
    restart: () => void,
  ): Claim {
    return changing.has(name)
      ? this.#claimVersions(source, entries, wanted)
      : this.#claimFirsts(source, entries, wanted, restart)
  }

  /**
   * One byte per entry: 1 if its key is taken, 2 if it is and this content would be a new version.
   */
  known(source: number, name: SourceName, entries: Entries): Uint8Array {
    const taken = new Uint8Array(entries.count)
    if (entries.count === 0) return taken
    const { ids, firstUs, times } = this.#keysOf(entries, undefined)
    if (!changing.has(name)) {
      for (const index of this.#knownOfPage.all(times, source, firstUs, ids)) taken[index] = 1
      return taken
    }
    for (let i = 0; i < entries.count; i++) {
      const id = ids.subarray(i * KEY_BYTES, (i + 1) * KEY_BYTES)
      const before = this.#find.get(source, entries.at(i), id)
      if (before) taken[i] = versionAfter(before, digest(entries.raw(i))) === 0 ? 1 : 2
    }
    return taken
  }

  /**
   * Takes no key: returns the version of each entry, by its index; unknown content has the version
   * that it would get.
   */
  versions(source: number, name: SourceName, entries: Entries): Uint32Array | undefined {
    if (!changing.has(name)) return undefined
    const { ids } = this.#keysOf(entries, undefined)
    const versions = new Uint32Array(entries.count)
    for (let i = 0; i < entries.count; i++) {
      const id = ids.subarray(i * KEY_BYTES, (i + 1) * KEY_BYTES)
      const mark = this.#find.get(source, entries.at(i), id)
      if (mark === undefined) continue
      const isLast = mark.subarray(0, KEY_BYTES).equals(digest(entries.raw(i)))
      const version = mark.readUInt32LE(KEY_BYTES) + (isLast ? 0 : 1)
      versions[i] = version === 1 ? 0 : version
    }
    return versions
  }

  #claimFirsts(
    source: number,
    entries: Entries,
    wanted: Uint32Array | undefined,
    restart: () => void,
  ): Claim {
    const count = wanted?.length ?? entries.count
    const all = { fresh: undefined, freshCount: count, knownCount: 0, versions: undefined }
    if (count === 0) return all
    const keys = this.#keysOf(entries, wanted)
    if (!this.#rereading.has(source)) {
      const { changes } = this.#insertPage.run(source, keys.firstUs, keys.ids, keys.times)
      if (changes === count) return all
      this.#rereading.add(source)
      // The count alone shows that all are known. A mixture does not show which, so look first and
      // insert again.
      if (changes === 0)
        return { fresh: new Uint32Array(0), freshCount: 0, knownCount: count, versions: undefined }
      restart()
    }
    return this.#claimMixed(source, entries, wanted, keys)
  }

  #claimMixed(
    source: number,
    entries: Entries,
    wanted: Uint32Array | undefined,
    { ids, firstUs, times }: PageKeys,
  ): Claim {
    const count = wanted?.length ?? entries.count
    const taken = new Uint8Array(count)
    const known = this.#knownOfPage.all(times, source, firstUs, ids)
    for (const index of known) taken[index] = 1
    if (known.length === 0) this.#rereading.delete(source)
    const seen = new Set<string>()
    const fresh: number[] = []
    for (let i = 0; i < count; i++) {
      if (taken[i] === 1) continue
      const index = wanted?.[i] ?? i
      const key = `${entries.at(index)} ${ids.toString('latin1', i * KEY_BYTES, (i + 1) * KEY_BYTES)}`
      if (seen.has(key)) continue
      seen.add(key)
      fresh.push(index)
    }
    const picked = Uint32Array.from(fresh)
    if (fresh.length > 0) {
      const keys = this.#keysOf(entries, picked)
      const { changes } = this.#insertPage.run(source, keys.firstUs, keys.ids, keys.times)
      if (changes !== fresh.length) throw new Error('Dedup keys that were free could not be taken')
    }
    return { fresh: picked, freshCount: fresh.length, knownCount: count - fresh.length, versions: undefined }
  }

  #claimVersions(source: number, entries: Entries, wanted: Uint32Array | undefined): Claim {
    const count = wanted?.length ?? entries.count
    const { ids } = this.#keysOf(entries, wanted)
    const versions = new Uint32Array(entries.count)
    const fresh: number[] = []
    let changed = false
    for (let i = 0; i < count; i++) {
      const index = wanted?.[i] ?? i
      const id = ids.subarray(i * KEY_BYTES, (i + 1) * KEY_BYTES)
      const version = this.#claimVersion(source, entries.at(index), id, digest(entries.raw(index)))
      if (version === 0) continue
      fresh.push(index)
      versions[index] = version === 1 ? 0 : version
      changed ||= version > 1
    }
    return {
      fresh: fresh.length === count && wanted === undefined ? undefined : Uint32Array.from(fresh),
      freshCount: fresh.length,
      knownCount: count - fresh.length,
      versions: changed ? versions : undefined,
    }
  }

  /**
   * The version of this content: 1, 2, …; 0 if it is the one that was seen last, or one of an entry
   * that alternates between contents.
   */
  #claimVersion(source: number, at: number, id: Buffer, contentHash: Buffer): number {
    const before = this.#find.get(source, at, id)
    if (before === undefined) {
      this.#insert.run(source, at, id, contentMark(contentHash, 1))
      return 1
    }
    const version = versionAfter(before, contentHash)
    if (version > 0) this.#update.run(contentMark(contentHash, version, before), source, at, id)
    return version
  }

  #keysOf(entries: Entries, wanted: Uint32Array | undefined): PageKeys {
    const count = wanted?.length ?? entries.count
    if (this.#ids.length < count * KEY_BYTES) this.#ids = Buffer.allocUnsafeSlow(count * KEY_BYTES)
    const firstUs = count === 0 ? 0 : entries.at(wanted?.[0] ?? 0)
    const times = new Array<number>(count)
    let isNear = true
    for (let i = 0; i < count; i++) {
      const index = wanted?.[i] ?? i
      const at = entries.at(index)
      // A key without a time would be rejected silently, and its entry lost as known.
      if (!Number.isSafeInteger(at))
        throw new Error(`Entry ${index} of a part has no time in whole microseconds`)
      times[i] = at - firstUs
      isNear &&= Number.isSafeInteger(at - firstUs)
      writeKey(
        entries.bytes,
        entries.column(index, ID_START),
        entries.column(index, ID_END),
        this.#ids,
        i * KEY_BYTES,
      )
    }
    const ids = this.#ids.subarray(0, count * KEY_BYTES)
    if (isNear) return { ids, firstUs, times: JSON.stringify(times) }
    // Over centuries the difference of two integers is not exact.
    const whole = times.map((_, i) => entries.at(wanted?.[i] ?? i))
    return { ids, firstUs: 0, times: JSON.stringify(whole) }
  }
}

// Data stored with the key of an entry that may change: its content hash, its version, and its
// earlier contents.

/**
 * This many versions of one entry are always sent. After that, content is new only if it is none of
 * the last versions: an API that alternates between two forms would otherwise have the entry sent
 * on every read.
 */
const CHANGES_TOLD = 16
const MARK_BYTES = KEY_BYTES + 4

/** The version of a content after this mark; 0: not new. */
function versionAfter(before: Buffer, contentHash: Buffer): number {
  if (before.subarray(0, KEY_BYTES).equals(contentHash)) return 0
  const version = before.readUInt32LE(KEY_BYTES) + 1
  return version > CHANGES_TOLD && wasOneOf(before, contentHash) ? 0 : version
}

/** The content's hash, its version (32 bits, little-endian), and the hashes of contents before, newest first. */
function contentMark(contentHash: Buffer, version: number, before?: Buffer): Buffer {
  const mark = Buffer.allocUnsafe(MARK_BYTES)
  contentHash.copy(mark)
  mark.writeUInt32LE(version, KEY_BYTES)
  if (before === undefined) return mark
  const older = before.subarray(MARK_BYTES, MARK_BYTES + (CHANGES_TOLD - 2) * KEY_BYTES)
  return Buffer.concat([mark, before.subarray(0, KEY_BYTES), older])
}

/** Marks of older journals contain no earlier contents. */
function wasOneOf(mark: Buffer, contentHash: Buffer): boolean {
  for (let at = MARK_BYTES; at < mark.length; at += KEY_BYTES)
    if (mark.subarray(at, at + KEY_BYTES).equals(contentHash)) return true
  return false
}
