// The key that signs manifests, read from its file: what is said where it cannot be used.
import type { KeyObject } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { ConnectorError, errnoOf } from '../../../model/errors.ts'
import type { CheckResult } from '../../../model/sink.ts'
import { keyId, readSigningKey } from './manifest-signature.ts'

const readText = (path: string): string => readFileSync(path, 'utf8')

/** Throws `misconfigured`: a key that cannot be used holds the manifests and is told. */
export function signingKey(keyFile: string, readKey: (path: string) => string = readText): KeyObject {
  try {
    return readSigningKey(readKey(keyFile))
  } catch (error) {
    const code = errnoOf(error, '')
    const why = code === '' && error instanceof Error ? error.message : code
    throw new ConnectorError(
      'misconfigured',
      `No manifest can be signed: the key file ${keyFile} cannot be used (${why}). Put an Ed25519 private key in PEM there (openssl genpkey -algorithm ed25519); entries are stored all the same, and the next manifest lists them`,
      { cause: error },
    )
  }
}

/** What `validate --connect` tells of the key. */
export function checkSigningKey(keyFile: string): CheckResult {
  const what = 'evidence.signing_key_file'
  try {
    const id = keyId(signingKey(keyFile))
    return { what, ok: true, message: `signs manifests; SHA-256 of its public key: ${id}` }
  } catch (error) {
    return { what, ok: false, message: error instanceof Error ? error.message : 'cannot be used' }
  }
}
