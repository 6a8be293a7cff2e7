// Checks one stored object against its manifest: read as a stream, within the bounds that the
// manifest states.
import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { constants, createGunzip, createZstdDecompress } from 'node:zlib'
import type { Gunzip, ZstdDecompress } from 'node:zlib'
import { LF } from '../../../core/bytes.ts'
import { ConnectorError, errnoOf, isAbort } from '../../../core/errors.ts'
import { printable } from '../../../core/printable.ts'
import type { ManifestObject } from '../evidence/manifest.ts'

/** The content of one prefix of a bucket, or of a folder copied from it. */
export interface EvidenceStore {
  /** Keys relative to the prefix, in any order. `strange` gets what exists but cannot be read. */
  list(strange: (key: string, what: string) => void): AsyncIterable<string>
  /** The body as stored; undefined if there is none. */
  get(key: string): Promise<AsyncIterable<Uint8Array> | undefined>
}

/** A body of unknown length is read up to twice the length of its lines, plus this. */
const PACKING_BYTES = 1024 * 1024
/** 2^24 bytes: more than any compression level used here. */
const ZSTD_WINDOW_LOG = 24

const keyPattern =
  /^(?:replay=[0-9A-Za-z._-]+\/)?workspace=[a-z0-9-]+\/source=[a-z0-9._-]+\/dt=(?:\d{4}-\d\d-\d\d|unknown)\/(?<first>\d{16})-(?<last>\d{16})-(?<hash>[0-9a-f]{16})\.ndjson(?<packed>\.gz|\.zst)?$/

export interface ObjectPlace {
  readonly first: number
  readonly last: number
  /** the first part of the lines' SHA-256 */
  readonly hash: string
  readonly packed: '.gz' | '.zst' | ''
}

/** Undefined for any other key. */
export function objectPlace(key: string): ObjectPlace | undefined {
  const found = keyPattern.exec(key)?.groups
  if (!found) return undefined
  const { hash = '', packed } = found
  const [first, last] = [Number(found['first']), Number(found['last'])]
  // Sequence numbers start at 1, ascend, and are safe integers.
  if (first < 1 || last < first || !Number.isSafeInteger(last)) return undefined
  return { first, last, hash, packed: (packed ?? '') as ObjectPlace['packed'] }
}

/** The fault of the name, compared with the manifest. */
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

/** The message: what the manifest allows. */
class TooLong extends Error {}
/** The store failed: this says nothing about the object's content. */
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
  /** the whole body was decompressed: nothing follows the end of the compressed data */
  wholeUnpacked: boolean
  storedSha256: string
  storedBytes: number
  sha256: string
  bytes: number
  lines: number
  lastByte: number | undefined
}

/**
 * Throws TooLong when more bytes come than the manifest states, and Unread if the store fails. Any
 * other error comes from the decompression of these bytes.
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
      if (seen.storedBytes > mostStored) throw new TooLong(`${mostStored} stored bytes`)
      yield part
    }
  }
  async function count(source: AsyncIterable<Uint8Array>) {
    for await (const part of source) {
      seen.bytes += part.length
      if (seen.bytes > mostBytes) throw new TooLong(`${mostBytes} bytes of lines`)
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

/** Errors of a pipeline whose middle ended before its source. */
const endedEarly: ReadonlySet<string> = new Set(['ABORT_ERR', 'ERR_STREAM_PREMATURE_CLOSE'])

/** The fault of the stored object; undefined if there is none. Throws the errors of the store. */
export async function objectFault(store: EvidenceStore, object: ManifestObject): Promise<string | undefined> {
  const place = objectPlace(object.key)
  // Its manifest is reported already; an object with such a name is not requested.
  if (!place) return undefined
  const body = await store.get(object.key)
  if (!body) return 'is missing'
  try {
    return contentFault(object, await see(body, place.packed, object))
  } catch (error) {
    if (error instanceof TooLong)
      return `was changed: it has more than ${error.message}, the size in its manifest`
    if (error instanceof Unread) throw error.cause
    const code = errnoOf(error)
    if (endedEarly.has(code))
      return 'was changed or damaged: it has bytes after the end of the compressed data'
    return `was changed or damaged: it cannot be decompressed (${code})`
  }
}

// What the verification of a chain reports, and which entries are affected.

/** `fault`: the evidence is not valid. `note`: it is valid, and an auditor should know this. */
export interface Finding {
  readonly level: 'fault' | 'note'
  readonly where: string
  readonly what: string
}

/** What a fault affects, as far as it is known. */
export interface Touched {
  readonly entries?: number
  readonly first: number
  readonly last: number
  /** of the entries, as in the manifest */
  readonly from?: string | null
  readonly until?: string | null
}

export type ReportFinding = (level: Finding['level'], where: string, what: string, touched?: Touched) => void

// A failure of the store or of this program at one object is a fault of that object only.
// All others are checked, and the report is written.

/** Waits between retries of temporary errors, such as a request to slow down. */
const PAUSES_MS = [1_000, 5_000]

export type Pause = (ms: number) => Promise<unknown>

function whyOf(error: unknown): string {
  if (error instanceof ConnectorError) return `could not be read: ${printable(error.message)}`
  const name = error instanceof Error ? error.name : 'unknown error'
  return `could not be checked: this program failed on it (${printable(name)}), which is a bug; please report it`
}

/** The result of `work`, or the result of `reported` for its error. Throws if it was aborted. */
export async function unlessUnread<T, U>(
  work: () => Promise<T>,
  pause: Pause | undefined,
  reported: (why: string) => U,
): Promise<T | U> {
  for (let tries = 0; ; tries++) {
    try {
      return await work()
    } catch (error) {
      if (isAbort(error)) throw error
      const pauseMs = PAUSES_MS[tries]
      const mayPass = error instanceof ConnectorError && error.action === 'retry'
      if (!mayPass || pauseMs === undefined || !pause) return reported(whyOf(error))
      await pause(pauseMs)
    }
  }
}
