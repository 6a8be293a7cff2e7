// One stored object against what a manifest says of it: read as a stream, within the bounds that the manifest names.
import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { constants, createGunzip, createZstdDecompress } from 'node:zlib'
import type { Gunzip, ZstdDecompress } from 'node:zlib'
import { LF } from '../../../core/bytes.ts'
import { ConnectorError, errnoOf, isAbort } from '../../../core/errors.ts'
import { printable } from '../../../core/printable.ts'
import type { ManifestObject } from '../evidence/manifest.ts'

/** What is under one prefix of a bucket, or in a folder copied from there. */
export interface EvidenceStore {
  /** Keys as they stand under the prefix, in any order. `strange` is told what stands there and is not looked into. */
  list(strange: (key: string, what: string) => void): AsyncIterable<string>
  /** The body as it is stored; undefined where there is none. */
  get(key: string): Promise<AsyncIterable<Uint8Array> | undefined>
}

/** Packing makes lines longer by no more than this and once their length: where nobody said how long the body is. */
const PACKING_BYTES = 1024 * 1024
/** 2^24 bytes: more than any level that objects are written with. */
const ZSTD_WINDOW_LOG = 24

const keyPattern =
  /^(?:replay=[0-9A-Za-z._-]+\/)?workspace=[a-z0-9-]+\/source=[a-z0-9._-]+\/dt=(?<day>\d{4}-\d\d-\d\d|unknown)\/(?<first>\d{16})-(?<last>\d{16})-(?<hash>[0-9a-f]{16})\.ndjson(?<packed>\.gz|\.zst)?$/

export interface ObjectPlace {
  readonly day: string
  readonly first: number
  readonly last: number
  /** the beginning of the lines' SHA-256 */
  readonly hash: string
  readonly packed: '.gz' | '.zst' | ''
}

/** Undefined for the key of anything else. */
export function objectPlace(key: string): ObjectPlace | undefined {
  const found = keyPattern.exec(key)?.groups
  if (!found) return undefined
  const { day = '', hash = '', packed } = found
  const [first, last] = [Number(found['first']), Number(found['last'])]
  // A journal counts from 1, upwards, and no further than it can count.
  if (first < 1 || last < first || !Number.isSafeInteger(last)) return undefined
  return { day, first, last, hash, packed: (packed ?? '') as ObjectPlace['packed'] }
}

/** What is wrong with the name, by what the manifest says of the object. */
export function namingFault(object: ManifestObject): string | undefined {
  const place = objectPlace(object.key)
  if (!place) return 'has a name that no object of this program has'
  if (place.first !== object.first_sequence || place.last !== object.last_sequence)
    return 'has other sequence numbers in its name than its manifest says'
  if (!object.sha256.startsWith(place.hash)) return 'has another hash in its name than its manifest says'
  if (object.last_sequence - object.first_sequence + 1 < object.entries)
    return 'is listed with more entries than its sequence range allows'
  return undefined
}

class TooLong extends Error {}
/** Of the store, whatever it is: it says nothing of what is in the object. */
class Unread extends Error {}

async function* read(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    yield* body
  } catch (error) {
    throw new Unread('', { cause: error })
  }
}

function unpacker(packed: ObjectPlace['packed']): Gunzip | ZstdDecompress | undefined {
  if (packed === '.gz') return createGunzip()
  if (packed === '.zst')
    return createZstdDecompress({ params: { [constants.ZSTD_d_windowLogMax]: ZSTD_WINDOW_LOG } })
  return undefined
}

interface Seen {
  /** all of the body was unpacked: nothing stands behind the end that its packing names */
  wholeUnpacked: boolean
  storedSha256: string
  storedBytes: number
  sha256: string
  bytes: number
  lines: number
  lastByte: number | undefined
}

/**
 * Throws TooLong as soon as more bytes come than the manifest names, and Unread where the store does not give them. Whatever else
 * it throws is what unpacking makes of these bytes.
 */
async function see(
  body: AsyncIterable<Uint8Array>,
  packed: ObjectPlace['packed'],
  { bytes: mostBytes, stored_bytes: mostStored = 2 * mostBytes + PACKING_BYTES }: ManifestObject,
): Promise<Seen> {
  const stored = createHash('sha256')
  const lines = createHash('sha256')
  const none = { storedSha256: '', storedBytes: 0, sha256: '', bytes: 0, lines: 0, lastByte: undefined }
  const seen: Seen = { wholeUnpacked: true, ...none }
  async function* arriving() {
    for await (const part of read(body)) {
      stored.update(part)
      seen.storedBytes += part.length
      if (seen.storedBytes > mostStored) throw new TooLong()
      yield part
    }
  }
  async function count(source: AsyncIterable<Uint8Array>) {
    for await (const part of source) {
      seen.bytes += part.length
      if (seen.bytes > mostBytes) throw new TooLong()
      lines.update(part)
      for (let at = part.indexOf(LF); at >= 0; at = part.indexOf(LF, at + 1)) seen.lines++
      seen.lastByte = part.at(-1) ?? seen.lastByte
    }
  }
  const through = unpacker(packed)
  if (through) {
    await pipeline(Readable.from(arriving(), { objectMode: false }), through, count)
    seen.wholeUnpacked = through.bytesWritten === seen.storedBytes
  } else await count(arriving())
  seen.storedSha256 = stored.digest('hex')
  seen.sha256 = lines.digest('hex')
  return seen
}

function contentFault(object: ManifestObject, seen: Seen): string | undefined {
  if (seen.bytes < object.bytes) return `is cut: ${seen.bytes} of ${object.bytes} bytes of lines`
  if (seen.lines !== object.entries || seen.lastByte !== LF)
    return `holds ${seen.lines} whole lines, expected ${object.entries}`
  if (seen.sha256 !== object.sha256) return 'was changed: its lines have another SHA-256'
  if (object.stored_sha256 !== undefined && seen.storedSha256 !== object.stored_sha256)
    return 'was stored again: the lines are right, but the stored body has another SHA-256'
  if (!seen.wholeUnpacked) return 'was changed: the lines are right, but more bytes follow them'
  return undefined
}

/** What a pipe says whose middle has come to its end before its beginning. */
const endedEarly: ReadonlySet<string> = new Set(['ABORT_ERR', 'ERR_STREAM_PREMATURE_CLOSE'])

/** What is wrong with the stored object; undefined when all holds. Throws what the store throws. */
export async function objectFault(store: EvidenceStore, object: ManifestObject): Promise<string | undefined> {
  const place = objectPlace(object.key)
  // Told of its manifest already; such a name is not even asked for.
  if (!place) return undefined
  const body = await store.get(object.key)
  if (!body) return 'is missing'
  try {
    return contentFault(object, await see(body, place.packed, object))
  } catch (error) {
    if (error instanceof TooLong) return 'is longer than its manifest says'
    if (error instanceof Unread) throw error.cause
    const code = errnoOf(error)
    if (endedEarly.has(code))
      return 'was changed or damaged: it has bytes after the end of the compressed data'
    return `was changed or damaged: it cannot be decompressed (${code})`
  }
}

// What an auditor is told of a chain, and what it touches.

/** `fault`: the evidence does not hold. `note`: it holds, and an auditor should know this. */
export interface Finding {
  readonly level: 'fault' | 'note'
  readonly where: string
  readonly what: string
}

/** What a fault touches, as far as it is known. */
export interface Touched {
  readonly entries?: number
  readonly first: number
  readonly last: number
  /** of the entries, as the manifest has them */
  readonly from?: string | null
  readonly until?: string | null
}

export type Tell = (level: Finding['level'], where: string, what: string, touched?: Touched) => void

// What a store does not give of one object, or this program cannot look at, is a fault of that object alone: all others are checked, and the report is made.

/** Waits between tries of what may pass, such as a server that asks to slow down. */
const PAUSES_MS = [1_000, 5_000]

export type Pause = (ms: number) => Promise<unknown>

function whyOf(error: unknown): string {
  if (error instanceof ConnectorError) return `could not be read: ${printable(error.message)}`
  const name = error instanceof Error ? error.name : 'unknown error'
  return `could not be checked: this program failed on it (${printable(name)}), which is a bug; please report it`
}

/** What the work gives, or in its place what `told` makes of why it could not. Throws where it was called off. */
export async function unlessUnread<T, U>(
  work: () => Promise<T>,
  pause: Pause | undefined,
  told: (why: string) => U,
): Promise<T | U> {
  for (let tries = 0; ; tries++) {
    try {
      return await work()
    } catch (error) {
      if (isAbort(error)) throw error
      const pauseMs = PAUSES_MS[tries]
      const mayPass = error instanceof ConnectorError && error.action === 'retry'
      if (!mayPass || pauseMs === undefined || !pause) return told(whyOf(error))
      await pause(pauseMs)
    }
  }
}
