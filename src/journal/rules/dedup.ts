// Which entries are new: their keys, and the versions of entries that may change. Ids compare byte
// for byte, without normalisation.
import { hash } from 'node:crypto'
import { ID_END, ID_START } from '../../contracts/entries.ts'
import type { Entries } from '../../contracts/entries.ts'
import type { SourceName } from '../../contracts/source.ts'
import { DASH } from '../../core/bytes.ts'

/** An id as 16 bytes: those of a UUID, or a hash of anything else. */
export const KEY_BYTES = 16

/** The result of looking up the entries of a page chunk. */
export interface NewEntries {
  /** indices of the new entries; undefined: all that are wanted */
  readonly fresh: Uint32Array | undefined
  readonly freshCount: number
  readonly knownCount: number
  /** by entry index, for entries that are a new version of a known one */
  readonly versions: Uint32Array | undefined
}

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

/** Writes the key of entry `index` as the `i`th; returns the entry's time, its other half. */
export function keyInto(out: Buffer, i: number, entries: Entries, index: number): number {
  const at = entries.at(index)
  // A key without a time would be rejected silently, and its entry lost as known.
  if (!Number.isSafeInteger(at)) throw new Error(`Entry ${index} of a part has no time in whole microseconds`)
  const [start, end] = [entries.column(index, ID_START), entries.column(index, ID_END)]
  writeKey(entries.bytes, start, end, out, i * KEY_BYTES)
  return at
}

/**
 * The entries of `wanted` (all if undefined) that are not `taken`, each once, by index. `ids`:
 * their keys, 16 bytes each. `ids` and `taken` are in the order of `wanted`.
 */
export function firstsOf(
  entries: Entries,
  wanted: Uint32Array | undefined,
  ids: Buffer,
  taken: Uint8Array,
): Uint32Array {
  const seen = new Set<string>()
  const fresh: number[] = []
  for (let i = 0; i < taken.length; i++) {
    if (taken[i] === 1) continue
    const index = wanted?.[i] ?? i
    const key = `${entries.at(index)} ${ids.toString('latin1', i * KEY_BYTES, (i + 1) * KEY_BYTES)}`
    if (seen.has(key)) continue
    seen.add(key)
    fresh.push(index)
  }
  return Uint32Array.from(fresh)
}

// Versions: an id of these sources may return with other content, and content that differs from the
// last one is a new version. Of all other sources the first content is kept.

const changing: ReadonlySet<SourceName> = new Set<SourceName>(['history.usage', 'history.query'])

export const hasVersions = (source: SourceName): boolean => changing.has(source)

// The mark of such an entry, kept with its key: its content's hash, its version (32 bits,
// little-endian), and the hashes of contents before, newest first.

/**
 * This many versions of one entry are always sent. After that, content is new only if it is none of
 * the last versions: an API that alternates between two forms would otherwise have the entry sent
 * on every read.
 */
const VERSIONS_SENT = 16
const MARK_BYTES = KEY_BYTES + 4

/** `mark` undefined: the entry is known under this version already. */
interface Versioned {
  /** 0: not new */
  readonly version: number
  /** to be stored with the key; undefined: not new */
  readonly mark: Buffer | undefined
}

/** `before`: the mark that is stored; undefined: the entry's key is free. */
export function versionOf(raw: Uint8Array, before: Buffer | undefined): Versioned {
  const contentHash = digest(raw)
  const version = before === undefined ? 1 : versionAfter(before, contentHash)
  return { version, mark: version === 0 ? undefined : markOf(contentHash, version, before) }
}

/** The marks of keys, as an engine stores them. `index`: of the entry; `id`: its key, a view. */
interface Marks {
  get(index: number, id: Buffer): Buffer | undefined
  /** `before`: the mark that it replaces */
  put(index: number, id: Buffer, mark: Buffer, before: Buffer | undefined): void
}

/** Which entries of `wanted` (all if undefined) are new, or a new version; `ids`: their keys. */
export function newVersions(
  entries: Entries,
  wanted: Uint32Array | undefined,
  ids: Buffer,
  marks: Marks,
): NewEntries {
  const count = wanted?.length ?? entries.count
  const versions = new Uint32Array(entries.count)
  const fresh: number[] = []
  let changed = false
  for (let i = 0; i < count; i++) {
    const index = wanted?.[i] ?? i
    const id = ids.subarray(i * KEY_BYTES, (i + 1) * KEY_BYTES)
    const before = marks.get(index, id)
    const { version, mark } = versionOf(entries.raw(index), before)
    if (mark === undefined) continue
    marks.put(index, id, mark, before)
    fresh.push(index)
    versions[index] = storedVersion(version)
    changed ||= version > 1
  }
  return {
    fresh: fresh.length === count && wanted === undefined ? undefined : Uint32Array.from(fresh),
    freshCount: fresh.length,
    knownCount: count - fresh.length,
    versions: changed ? versions : undefined,
  }
}

/** The version that this content has, or would get; as stored, where the first is 0. */
export function versionToSend(raw: Uint8Array, mark: Buffer): number {
  const isLast = mark.subarray(0, KEY_BYTES).equals(digest(raw))
  return storedVersion(mark.readUInt32LE(KEY_BYTES) + (isLast ? 0 : 1))
}

/** @internal for tests */
export const storedVersion = (version: number): number => (version === 1 ? 0 : version)

function versionAfter(before: Buffer, contentHash: Buffer): number {
  if (before.subarray(0, KEY_BYTES).equals(contentHash)) return 0
  const version = before.readUInt32LE(KEY_BYTES) + 1
  return version > VERSIONS_SENT && wasOneOf(before, contentHash) ? 0 : version
}

function markOf(contentHash: Buffer, version: number, before?: Buffer): Buffer {
  const mark = Buffer.allocUnsafe(MARK_BYTES)
  contentHash.copy(mark)
  mark.writeUInt32LE(version, KEY_BYTES)
  if (before === undefined) return mark
  const older = before.subarray(MARK_BYTES, MARK_BYTES + (VERSIONS_SENT - 2) * KEY_BYTES)
  return Buffer.concat([mark, before.subarray(0, KEY_BYTES), older])
}

/** Marks of older journals contain no earlier contents. */
function wasOneOf(mark: Buffer, contentHash: Buffer): boolean {
  for (let at = MARK_BYTES; at < mark.length; at += KEY_BYTES)
    if (mark.subarray(at, at + KEY_BYTES).equals(contentHash)) return true
  return false
}
