// TLS material by file, read anew for each connection: a file in mid-swap, or a pair that does not fit, keeps what worked before.
import { X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { isIP } from 'node:net'
import {
  checkServerIdentity,
  type ConnectionOptions,
  createSecureContext,
  type SecureContext,
} from 'node:tls'
import { ConnectorError, errnoOf } from '../model/errors.ts'
import type { TlsOptions } from '../model/socket.ts'

interface Material {
  readonly secureContext: SecureContext
  /** epoch ms at which our own certificate ends; undefined where we have none */
  readonly ownEndsAt: number | undefined
}

/** What worked last, by the options that named it. */
const lastGood = new WeakMap<TlsOptions, Material>()

async function read(tls: TlsOptions): Promise<Material> {
  const bytesOf = (path: string | undefined) =>
    path === undefined ? Promise.resolve(undefined) : readFile(path)
  const [ca, cert, key] = await Promise.all([tls.ca_file, tls.cert_file, tls.key_file].map(bytesOf))
  if (ca) mustHoldCertificates(ca, tls.ca_file)
  const secureContext = createSecureContext({
    minVersion: 'TLSv1.2',
    ...(ca && { ca }),
    ...(cert && { cert }),
    ...(key && { key }),
  })
  const ownEndsAt = cert && new X509Certificate(cert).validToDate.getTime()
  return { secureContext, ownEndsAt }
}

/** A file cut short would be taken for no authority at all, and every peer for a stranger. */
function mustHoldCertificates(ca: Buffer, path: string | undefined): void {
  const text = ca.toString('latin1')
  const begun = text.match(/-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----/g)?.length ?? 0
  const ended = text.match(/-----END (?:X509 |TRUSTED )?CERTIFICATE-----/g)?.length ?? 0
  if (begun === 0 || begun !== ended)
    throw Object.assign(new Error('no certificate'), { code: 'no PEM', path })
}

/** Throws ConnectorError `tls_invalid` where the files never worked. */
export async function tlsMaterial(tls: TlsOptions): Promise<Material> {
  try {
    const material = await read(tls)
    lastGood.set(tls, material)
    return material
  } catch (cause) {
    const known = lastGood.get(tls)
    if (known) return known
    const path = cause instanceof Error && 'path' in cause ? String(cause.path) : 'the TLS files'
    const next = 'each must hold PEM and be readable for this user, and the key belong to the certificate'
    const message = `cannot use ${path} (${errnoOf(cause, 'unreadable')}): ${next}`
    throw new ConnectorError('tls_invalid', message, { cause })
  }
}

/** The name that the peer must prove: an IP address may not stand in the handshake itself, only be compared. */
export function identityOptions(host: string, serverName: string | undefined): ConnectionOptions {
  const wanted = serverName ?? host
  return {
    rejectUnauthorized: true,
    ...(isIP(wanted) === 0 ? { servername: wanted } : {}),
    checkServerIdentity: (_, certificate) => checkServerIdentity(wanted, certificate),
  }
}
