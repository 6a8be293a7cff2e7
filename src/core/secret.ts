// A secret that cannot be printed by accident, and can be read again from its source.
import { X509Certificate, createPrivateKey } from 'node:crypto'
import { createSecureContext } from 'node:tls'
import { inspect } from 'node:util'
import type { Clock } from './clock.ts'
import { ConnectorError, errnoOf } from './errors.ts'

/** Why a value is not a valid secret, also at a later reading; undefined: it is valid. */
export function secretFault(value: string): string | undefined {
  if (value === '')
    return 'is empty: expected a secret, best as ${file:/run/secrets/…}, with something in that file'
  // A partial or invalid file must not replace a value that works.
  return /^[\x21-\x7e]+$/.test(value)
    ? undefined
    : 'contains white space or characters that are not allowed in a header, perhaps a byte order mark: store only the secret there, as plain text on one line'
}

/** How often sources of secrets are read: they rotate (spec §2.2 `api:token_mgmt_rotate`). */
const REREAD_MS = 1000

/** Where an operator has to change it. */
export type SecretSource = 'file' | 'environment' | 'configuration'

export class Secret {
  #value: string
  #reread: (() => string) | undefined
  #from = ''
  #source: SecretSource
  #file: string | undefined
  #unread: string | undefined

  constructor(value: string, reread?: () => string) {
    this.#value = value
    this.#reread = reread
    this.#source = reread ? 'file' : 'configuration'
  }

  get source(): SecretSource {
    return this.#source
  }

  /** The path of its file, for messages; undefined: unknown, or no file. */
  get file(): string | undefined {
    return this.#file
  }

  /** The value itself: use only where it is sent. */
  reveal(): string {
    return this.#value
  }

  /** Where the value can be read again; `from` identifies the source, and is never printed. */
  follow(reread: () => string, from = '', source: SecretSource = 'file', file?: string): void {
    this.#reread = reread
    this.#file = file
    this.#from = from
    this.#source = source
  }

  /** True if the secret comes from a source that may change later. */
  get mayChange(): boolean {
    return this.#reread !== undefined
  }

  /** True for the same value from the same source: they stay interchangeable when it changes. */
  isSame(other: Secret): boolean {
    return this.#value === other.#value && this.#from === other.#from
  }

  /** True if a change of the other one's value is a change of this one's too. */
  followsSame(other: Secret): boolean {
    return this.mayChange ? this.#from === other.#from : this.isSame(other)
  }

  /** Why the last re-reading failed; undefined: it succeeded. Names the source, never the value. */
  get unread(): string | undefined {
    return this.#unread
  }

  /** The source's current value; undefined while it is invalid or unreadable (a mount mid-swap). */
  fresh(): string | undefined {
    if (!this.#reread) return this.#value
    try {
      const fresh = this.#reread()
      const fault = secretFault(fresh)
      this.#unread = fault && `it ${fault}`
      return this.#unread === undefined ? fresh : undefined
    } catch (error) {
      this.#unread = error instanceof Error ? error.message : 'it cannot be read'
      return undefined
    }
  }

  become(value: string): void {
    this.#value = value
  }

  toString(): string {
    return '***'
  }

  toJSON(): string {
    return '***'
  }

  [inspect.custom](): string {
    return '***'
  }
}

/**
 * A secret in use, or several that belong together, such as the id of a key and its secret: re-read
 * from their sources.
 */
export class SecretLook {
  readonly #secrets: readonly Secret[]
  readonly #clock: Pick<Clock, 'elapsed'>
  #rereadAt = -Infinity
  #seen: readonly (string | undefined)[] = []

  constructor(secrets: readonly Secret[], clock: Pick<Clock, 'elapsed'>) {
    this.#secrets = secrets
    this.#clock = clock
  }

  /**
   * Call before each request: re-reads at most once a second. True if they changed: all of them, or
   * some that are the same in two readings, since files that belong together are written one after
   * another. While one cannot be read, all stay unchanged.
   */
  look(): boolean {
    const now = this.#clock.elapsed()
    if (now - this.#rereadAt < REREAD_MS) return false
    this.#rereadAt = now
    return this.#take(false)
  }

  /** The values that a request uses now. */
  get values(): readonly string[] {
    return this.#secrets.map((secret) => secret.reveal())
  }

  /**
   * After a refusal: re-reads at once and accepts a partial change too, since the old values are
   * useless now. True if a request would use other values now, whichever caller noticed the change.
   */
  refresh(sent = this.values): boolean {
    this.#take(true)
    return this.values.some((value, i) => value !== sent[i])
  }

  #take(isPartTaken: boolean): boolean {
    const before = this.#seen
    const fresh = this.#secrets.map((secret) => secret.fresh())
    this.#seen = fresh
    const changed = this.#secrets.filter((secret, i) => secret.reveal() !== fresh[i]).length
    if (changed === 0 || fresh.includes(undefined)) return false
    const isStable = changed === fresh.length || fresh.every((value, i) => value === before[i])
    if (!isStable && !isPartTaken) return false
    for (const [i, secret] of this.#secrets.entries()) secret.become(fresh[i] ?? secret.reveal())
    return true
  }
}

interface SecretWithPath {
  readonly path: readonly (string | number)[]
  readonly secret: Secret
}

/** Every secret of a configuration, at any depth, with its path. */
export function secretsWithPaths(
  value: unknown,
  path: SecretWithPath['path'] = [],
): readonly SecretWithPath[] {
  if (value instanceof Secret) return [{ path, secret: value }]
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, inner]) =>
    secretsWithPaths(inner, [...path, Array.isArray(value) ? Number(key) : key]),
  )
}

export const secretsIn = (value: unknown): readonly Secret[] =>
  secretsWithPaths(value).map(({ secret }) => secret)

// The key of a keyed hash as stored in a file: text, long enough to be unguessable.

/** RFC 2104 §3: a key shorter than the hash's output weakens it. */
const MIN_BYTES = 32
const ADVICE = 'make one with: openssl rand -hex 32'

/** The key is the text without surrounding white space, as UTF-8. */
const keyOf = (text: string): Buffer => Buffer.from(text.trim())

/** Why the text of a key file is invalid, without quoting it; undefined: it is valid. */
export function hashKeyFault(text: string): string | undefined {
  if (text.includes('\ufffd')) return `it is not text: ${ADVICE}`
  if (keyOf(text).length < MIN_BYTES) return `its key is shorter than ${MIN_BYTES} bytes: ${ADVICE}`
  return undefined
}

/**
 * Throws ConnectorError `misconfigured`: without its key, nothing that must be hashed may be sent.
 * `read` throws as node:fs does.
 */
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
    `Nothing is sent, because hashing needs its key and the file ${path} in key_file cannot be used (${fault}). It is checked again automatically`,
  )
}

// Checks PEM files for TLS, without quoting them: the same checks in `validate` and in use.

const begins = /-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----/g
const blocks = /-----BEGIN ((?:X509 |TRUSTED )?CERTIFICATE)-----[^-]*-----END \1-----/g

const isThrown = (work: () => unknown): boolean => {
  try {
    work()
    return false
  } catch {
    return true
  }
}

/**
 * Why a PEM file of authorities is invalid; undefined: it is valid. TLS itself does not report
 * this: it stops at the first that it cannot read, and trusts no peer.
 */
export function certificateFault(pem: string): string | undefined {
  const begun = pem.match(begins)?.length ?? 0
  const complete = pem.match(blocks) ?? []
  if (begun === 0) return 'it contains no certificate in PEM (BEGIN CERTIFICATE)'
  return complete.length < begun || complete.some((block) => isThrown(() => new X509Certificate(block)))
    ? 'a certificate in it is incomplete or damaged'
    : undefined
}

/** `cert`: the certificate that the key is for, as far as it is readable. */
export function privateKeyFault(key: string, cert: string | undefined): string | undefined {
  if (isThrown(() => createPrivateKey(key))) return 'it contains no private key in PEM without a passphrase'
  if (cert === undefined || certificateFault(cert) !== undefined) return undefined
  return isThrown(() => createSecureContext({ cert, key }))
    ? 'it does not belong to the certificate in cert_file'
    : undefined
}
