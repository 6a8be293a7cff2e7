// A secret that cannot be printed by accident, and that can be read again from where it came from.
import { X509Certificate, createPrivateKey } from 'node:crypto'
import { createSecureContext } from 'node:tls'
import { inspect } from 'node:util'
import type { Clock } from './clock.ts'
import { ConnectorError, errnoOf } from './errors.ts'

/** What is wrong with a value for a secret, at the start as at every later reading; undefined: nothing. */
export function secretFault(value: string): string | undefined {
  if (value === '')
    return 'is empty: expected a secret, best as ${file:/run/secrets/…}, with something in that file'
  // A torn or strange file must not replace a value that works.
  return /^[\x21-\x7e]+$/.test(value)
    ? undefined
    : 'contains white space or characters that are not allowed in a header, perhaps a byte order mark: store only the secret there, as plain text on one line'
}

/** Where secrets come from is looked at again this often, since they rotate (spec §2.2 `api:token_mgmt_rotate`). */
const LOOK_MS = 1000

/** Where a person has to change it. */
export type SecretPlace = 'file' | 'environment' | 'configuration'

export class Secret {
  #value: string
  #reread: (() => string) | undefined
  #from = ''
  #place: SecretPlace
  #unread: string | undefined

  constructor(value: string, reread?: () => string) {
    this.#value = value
    this.#reread = reread
    this.#place = reread ? 'file' : 'configuration'
  }

  get place(): SecretPlace {
    return this.#place
  }

  /** The value itself: only where it leaves for the other side. */
  reveal(): string {
    return this.#value
  }

  /** Where the value comes from, so that a look can ask again; `from` is its name, told to nobody. */
  follow(reread: () => string, from = '', place: SecretPlace = 'file'): void {
    this.#reread = reread
    this.#from = from
    this.#place = place
  }

  /** True where the secret comes from a place at which another one may stand later. */
  get mayChange(): boolean {
    return this.#reread !== undefined
  }

  /** True for the same value from the same place: one may stand for the other, also when it changes. */
  isSame(other: Secret): boolean {
    return this.#value === other.#value && this.#from === other.#from
  }

  /** Why it could not be read again when that was last tried; undefined: it could. Names the place, never the value. */
  get unread(): string | undefined {
    return this.#unread
  }

  /** As it is now where it comes from; undefined while that cannot be read (a mount in mid-swap) or is nothing that a start would take. */
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

/** A secret in use, or several that belong together, such as the id of a key and its secret: read again from where they come from. */
export class SecretLook {
  readonly #secrets: readonly Secret[]
  readonly #clock: Pick<Clock, 'elapsed'>
  #lookedAt = -Infinity
  #seen: readonly (string | undefined)[] = []

  constructor(secrets: readonly Secret[], clock: Pick<Clock, 'elapsed'>) {
    this.#secrets = secrets
    this.#clock = clock
  }

  /**
   * To be called before each request: looks once a second at most. True when they changed: all of them, or some that look the same
   * at two looks, since files that belong together are written one after another. While one cannot be read, all stay as they are.
   */
  look(): boolean {
    const now = this.#clock.elapsed()
    if (now - this.#lookedAt < LOOK_MS) return false
    this.#lookedAt = now
    return this.#take(false)
  }

  /** As a request bears them now. */
  get values(): readonly string[] {
    return this.#secrets.map((secret) => secret.reveal())
  }

  /**
   * After a refusal of what a request bore: looks at once, and takes a part that changed too, since what there was is worth nothing
   * any more. True when a request would bear something else now, whoever noticed it.
   */
  refresh(bore = this.values): boolean {
    this.#take(true)
    return this.values.some((value, i) => value !== bore[i])
  }

  #take(isPartTaken: boolean): boolean {
    const before = this.#seen
    const fresh = this.#secrets.map((secret) => secret.fresh())
    this.#seen = fresh
    const changed = this.#secrets.filter((secret, i) => secret.reveal() !== fresh[i]).length
    if (changed === 0 || fresh.includes(undefined)) return false
    const isSettled = changed === fresh.length || fresh.every((value, i) => value === before[i])
    if (!isSettled && !isPartTaken) return false
    for (const [i, secret] of this.#secrets.entries()) secret.become(fresh[i] ?? secret.reveal())
    return true
  }
}

interface PlacedSecret {
  readonly path: readonly (string | number)[]
  readonly secret: Secret
}

/** Every secret of a configuration, however deep it stands, and where. */
export function placedSecretsIn(value: unknown, path: PlacedSecret['path'] = []): readonly PlacedSecret[] {
  if (value instanceof Secret) return [{ path, secret: value }]
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, inner]) =>
    placedSecretsIn(inner, [...path, Array.isArray(value) ? Number(key) : key]),
  )
}

export const secretsIn = (value: unknown): readonly Secret[] =>
  placedSecretsIn(value).map(({ secret }) => secret)

// The key of a keyed hash as it stands in a file: text, long enough that nobody guesses it.

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
    `Nothing is sent, because hashing needs its key and the file ${path} in key_file cannot be used (${fault}). It is checked again automatically`,
  )
}

// What is wrong with a PEM file for TLS, told without a word of it: the same where it is validated and where it is used.

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

/** What is wrong with authorities in PEM; undefined: nothing. TLS itself does not say: it stops at the first that it cannot read, and takes every peer for a stranger. */
export function certificateFault(pem: string): string | undefined {
  const begun = pem.match(begins)?.length ?? 0
  const whole = pem.match(blocks) ?? []
  if (begun === 0) return 'it contains no certificate in PEM (BEGIN CERTIFICATE)'
  return whole.length < begun || whole.some((block) => isThrown(() => new X509Certificate(block)))
    ? 'a certificate in it is cut short or spoiled'
    : undefined
}

/** `cert`: the certificate that the key is for, as far as it can be read. */
export function privateKeyFault(key: string, cert: string | undefined): string | undefined {
  if (isThrown(() => createPrivateKey(key))) return 'it contains no private key in PEM without a passphrase'
  if (cert === undefined || certificateFault(cert) !== undefined) return undefined
  return isThrown(() => createSecureContext({ cert, key }))
    ? 'TLS does not take it with cert_file: it must be the key of that certificate'
    : undefined
}
