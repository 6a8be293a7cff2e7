// The key of a keyed hash as it stands in a file: text, long enough that nobody guesses it.
import { ConnectorError, errnoOf } from './errors.ts'

/** RFC 2104 §3: a key shorter than the hash's output weakens it. */
const LEAST_BYTES = 32
const ADVICE = 'make one with: openssl rand -hex 32'

/** The key is the text between white space at its ends, as UTF-8. */
const keyOf = (text: string): Buffer => Buffer.from(text.trim())

/** What is wrong with the text of a key file, without a word of it; undefined: nothing. */
export function hashKeyFault(text: string): string | undefined {
  if (text.includes('\ufffd')) return `it is no text: ${ADVICE}`
  if (keyOf(text).length < LEAST_BYTES) return `its key is shorter than ${LEAST_BYTES} bytes: ${ADVICE}`
  return undefined
}

/** Throws ConnectorError `misconfigured`: without its key nothing may go out that was to be hashed. `read` throws as node:fs does. */
export function readHashKey(path: string, read: (path: string) => string): Uint8Array {
  let fault: string | undefined
  try {
    const text = read(path)
    fault = hashKeyFault(text)
    if (fault === undefined) return keyOf(text)
  } catch (error) {
    fault = errnoOf(error)
  }
  throw new ConnectorError(
    'misconfigured',
    `Nothing is sent, since what is to be hashed needs its key: the file ${path} named by key_file cannot be used (${fault}). It is looked at again by itself`,
  )
}
