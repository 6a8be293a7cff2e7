// A strict reader of concatenated JSON objects that keeps the raw bytes of each member: what the HEC fake needs to see what was really sent.
import { isUtf8 } from 'node:buffer'

/** `start` and `end` are offsets into the body. */
interface Member {
  readonly key: string
  readonly start: number
  readonly end: number
}

export interface Scanned {
  readonly members: readonly Member[]
  readonly start: number
  readonly end: number
}

export class Malformed extends Error {}

const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d
const OPEN_ARRAY = 0x5b
const CLOSE_ARRAY = 0x5d
const QUOTE = 0x22
const COLON = 0x3a
const COMMA = 0x2c
const BACKSLASH = 0x5c

/** The first offset from `at` that is no white space. */
export function skipSpace(bytes: Uint8Array, at: number): number {
  let next = at
  for (;;) {
    const byte = bytes[next]
    if (byte !== 0x20 && byte !== 0x09 && byte !== 0x0a && byte !== 0x0d) return next
    next++
  }
}

function stringEnd(bytes: Uint8Array, at: number): number {
  if (bytes[at] !== QUOTE) throw new Malformed('expected a string')
  for (let next = at + 1; ; next++) {
    const byte = bytes[next]
    if (byte === undefined) throw new Malformed('a string has no end')
    if (byte === QUOTE) return next + 1
    if (byte === BACKSLASH) next++
  }
}

function literalEnd(bytes: Uint8Array, at: number): number {
  let next = at
  for (; next < bytes.length; next++) {
    const byte = bytes[next] ?? 0
    const part = (byte >= 0x30 && byte <= 0x39) || (byte >= 0x61 && byte <= 0x7a)
    if (!part && byte !== 0x2b && byte !== 0x2d && byte !== 0x2e && byte !== 0x45) break
  }
  if (next === at) throw new Malformed('expected a value')
  return next
}

/** Finds the end by brackets alone: JSON.parse checks the whole object. */
function valueEnd(bytes: Uint8Array, at: number): number {
  const first = bytes[at]
  if (first === QUOTE) return stringEnd(bytes, at)
  if (first !== OPEN_OBJECT && first !== OPEN_ARRAY) return literalEnd(bytes, at)
  let depth = 0
  for (let next = at; ;) {
    const byte = bytes[next]
    if (byte === undefined) throw new Malformed('a value has no end')
    if (byte === QUOTE) {
      next = stringEnd(bytes, next)
      continue
    }
    if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) depth++
    if (byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) depth--
    next++
    if (depth === 0) return next
  }
}

function scanMember(bytes: Uint8Array, at: number): Member {
  const keyEnd = stringEnd(bytes, at)
  const colon = skipSpace(bytes, keyEnd)
  if (bytes[colon] !== COLON) throw new Malformed('expected a colon')
  const start = skipSpace(bytes, colon + 1)
  const end = valueEnd(bytes, start)
  return { key: parseRange(bytes, at, keyEnd) as string, start, end }
}

/** `JSON.parse` of a range, for the members that are read by value. */
export function parseRange(bytes: Uint8Array, start: number, end: number): unknown {
  try {
    return JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString('utf8'))
  } catch {
    throw new Malformed('no JSON')
  }
}

/** Reads the one object that begins at `at`; throws Malformed when it is not valid JSON in valid UTF-8. */
export function scanObject(bytes: Uint8Array, at: number): Scanned {
  if (bytes[at] !== OPEN_OBJECT) throw new Malformed('expected an object')
  const members: Member[] = []
  let next = skipSpace(bytes, at + 1)
  while (bytes[next] !== CLOSE_OBJECT || members.length > 0) {
    const member = scanMember(bytes, next)
    members.push(member)
    next = skipSpace(bytes, member.end)
    if (bytes[next] === CLOSE_OBJECT) break
    if (bytes[next] !== COMMA) throw new Malformed('expected a comma')
    next = skipSpace(bytes, next + 1)
  }
  const end = next + 1
  if (!isUtf8(bytes.subarray(at, end))) throw new Malformed('no UTF-8')
  parseRange(bytes, at, end)
  return { members, start: at, end }
}
