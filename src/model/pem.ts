// What is wrong with a PEM file for TLS, told without a word of it: the same where it is validated and where it is used.
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { createSecureContext } from 'node:tls'

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
  if (begun === 0) return 'it holds no certificate in PEM (BEGIN CERTIFICATE)'
  return whole.length < begun || whole.some((block) => isThrown(() => new X509Certificate(block)))
    ? 'a certificate in it is cut short or spoiled'
    : undefined
}

/** `cert`: the certificate that the key is for, as far as it can be read. */
export function privateKeyFault(key: string, cert: string | undefined): string | undefined {
  if (isThrown(() => createPrivateKey(key))) return 'it holds no private key in PEM without a passphrase'
  if (cert === undefined || certificateFault(cert) !== undefined) return undefined
  return isThrown(() => createSecureContext({ cert, key }))
    ? 'TLS does not take it with cert_file: it must be the key of that certificate'
    : undefined
}
