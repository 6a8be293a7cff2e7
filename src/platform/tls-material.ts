// TLS files, read again for each connection and each request: a file in mid-swap, or a pair that
// does not match, keeps the last working one in use.
import { X509Certificate } from 'node:crypto'
import { readFile, stat } from 'node:fs/promises'
import { isIP } from 'node:net'
import {
  checkServerIdentity,
  type ConnectionOptions,
  createSecureContext,
  type SecureContext,
} from 'node:tls'
import { ConnectorError, errnoOf, readFaults } from '../core/errors.ts'
import { certificateFault } from '../core/secret.ts'
import type { TlsOptions } from '../contracts/platform.ts'

export interface TlsMaterial {
  readonly secureContext: SecureContext
  /** epoch ms at which our own certificate expires; undefined if we have none */
  readonly ownEndsAt: number | undefined
}

/** Contents of the files of the authorities, of our certificate and of its key. */
type Contents = readonly (Buffer | undefined)[]

/** The last working material, by the options that named it. */
const lastGood = new WeakMap<TlsOptions, { readonly contents: Contents; readonly material: TlsMaterial }>()

/** A pipe may never end, and would also block the stop of the process. */
async function regular(path: string): Promise<Buffer> {
  if ((await stat(path)).isFile()) return readFile(path)
  throw Object.assign(new Error('not a regular file'), { code: 'not a regular file', path })
}

function contentsOf(tls: TlsOptions): Promise<Contents> {
  const bytesOf = async (path: string | undefined) => (path === undefined ? undefined : regular(path))
  return Promise.all([tls.ca_file, tls.cert_file, tls.key_file].map(bytesOf))
}

const alike = (one: Contents, other: Contents): boolean =>
  one.every((bytes, i) => (bytes ? bytes.equals(other[i] ?? Buffer.alloc(0)) : other[i] === undefined))

function materialOf(tls: TlsOptions, [ca, cert, key]: Contents): TlsMaterial {
  const fault = ca && certificateFault(ca.toString('latin1'))
  if (fault !== undefined) throw Object.assign(new Error(fault), { code: 'no PEM', path: tls.ca_file })
  const secureContext = createSecureContext({
    minVersion: 'TLSv1.2',
    ...(ca && { ca }),
    ...(cert && { cert }),
    ...(key && { key }),
  })
  const ownEndsAt = cert && new X509Certificate(cert).validToDate.getTime()
  return { secureContext, ownEndsAt }
}

/**
 * Returns the same object as before if nothing changed, or the change does not work. Throws
 * ConnectorError `tls_invalid` if the files never worked.
 */
export async function tlsMaterial(tls: TlsOptions): Promise<TlsMaterial> {
  try {
    const contents = await contentsOf(tls)
    const known = lastGood.get(tls)
    if (known && alike(contents, known.contents)) return known.material
    const material = materialOf(tls, contents)
    lastGood.set(tls, { contents, material })
    return material
  } catch (cause) {
    const known = lastGood.get(tls)
    if (known) return known.material
    const path = cause instanceof Error && 'path' in cause ? String(cause.path) : 'the TLS files'
    const code = errnoOf(cause, 'unreadable')
    const why =
      readFaults[code] ??
      'each must contain PEM and be readable for this user, and the key must belong to the certificate'
    const message = `cannot use ${path} (${code}): ${why}`
    throw new ConnectorError('tls_invalid', message, { cause })
  }
}

/** The name that the peer must prove: an IP address is compared, but not in the handshake. */
export function identityOptions(host: string, serverName: string | undefined): ConnectionOptions {
  const peerName = serverName ?? host
  return {
    rejectUnauthorized: true,
    ...(isIP(peerName) === 0 ? { servername: peerName } : {}),
    checkServerIdentity: (_, certificate) => checkServerIdentity(peerName, certificate),
  }
}
