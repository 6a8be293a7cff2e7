// A header that the server refuses, or asks for: which one it names, and what can be done about it. Pure.
import type { Demands } from './demands.ts'

const NO_SETTING = 'no setting turns it off, so take a server that'

type Words = (set: Demands) => string | undefined

/** By what a server writes of it, in small letters. */
const headers: Readonly<Record<string, Words>> = {
  'if-none-match': () =>
    `refuses the header If-None-Match, without which an object could replace another: ${NO_SETTING} has conditional writes (Backblaze B2 has none)`,
  'content-md5': ({ object_lock: lock }) =>
    `wants the header Content-MD5, and takes no x-amz-checksum-sha256 in its place: ${lock ? 'it may want it for object_lock alone, so take that back, or' : 'no setting sends it, so'} take a server that knows the newer checksum`,
  'x-amz-checksum-sha256': () =>
    `refuses the header x-amz-checksum-sha256, the checksum of each object: ${NO_SETTING} knows it (Backblaze B2 does not)`,
  'x-amz-server-side-encryption': ({ sse }) =>
    sse && 'refuses the header x-amz-server-side-encryption: take sse back, or take a server that encrypts',
  'x-amz-object-lock': ({ object_lock: lock }) =>
    lock &&
    'refuses the headers of object_lock: take it back, or take a bucket and a server that have Object Lock',
}

/** `said`: the server's own words, in which a header is looked for and nothing else. */
export function refusedHeader(said: readonly unknown[], set: Demands): string | undefined {
  const all = said
    .filter((each) => typeof each === 'string')
    .join(' ')
    .toLowerCase()
  for (const [name, words] of Object.entries(headers))
    if (all.includes(name) || all.includes(name.replaceAll('-', ''))) return words(set)
  return undefined
}
