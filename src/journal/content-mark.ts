// What is kept beside the key of an entry that may change: its content's hash, its version, and what it was before.
import { KEY_BYTES } from './key.ts'

/**
 * So many versions of one entry are told as they come. From then on only a content that is none of its last so many is a new
 * one: an API that writes the same now so, now so would have it shipped at every look for ever.
 */
const CHANGES_TOLD = 16
const MARK_BYTES = KEY_BYTES + 4

/** The version that a content is behind this mark; 0: no new one. */
export function versionAfter(before: Buffer, contentHash: Buffer): number {
  if (before.subarray(0, KEY_BYTES).equals(contentHash)) return 0
  const version = before.readUInt32LE(KEY_BYTES) + 1
  return version > CHANGES_TOLD && wasOneOf(before, contentHash) ? 0 : version
}

/** The content's hash, its version (32 bits, little-endian), and the hashes of contents before, newest first. */
export function contentMark(contentHash: Buffer, version: number, before?: Buffer): Buffer {
  const mark = Buffer.allocUnsafe(MARK_BYTES)
  contentHash.copy(mark)
  mark.writeUInt32LE(version, KEY_BYTES)
  if (before === undefined) return mark
  const older = before.subarray(MARK_BYTES, MARK_BYTES + (CHANGES_TOLD - 2) * KEY_BYTES)
  return Buffer.concat([mark, before.subarray(0, KEY_BYTES), older])
}

/** Marks of older journals know of no contents before. */
function wasOneOf(mark: Buffer, contentHash: Buffer): boolean {
  for (let at = MARK_BYTES; at < mark.length; at += KEY_BYTES)
    if (mark.subarray(at, at + KEY_BYTES).equals(contentHash)) return true
  return false
}
