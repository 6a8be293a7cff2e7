// Certificates made on the spot, so that tests of TLS need no key in the repository and no openssl on the machine.
import { createPrivateKey, generateKeyPairSync, randomBytes, sign } from 'node:crypto'
import type { KeyObject } from 'node:crypto'
import { isIP } from 'node:net'

export interface Issued {
  /** PEM */
  readonly cert: string
  /** PEM */
  readonly key: string
  readonly name: string
}

const DAY_MS = 86_400_000
const SEQUENCE = 0x30
const EC_SHA256 = '1.2.840.10045.4.3.2'

/** One DER value: tag, length, content. */
function der(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts)
  const { length } = content
  if (length < 128) return Buffer.concat([Buffer.from([tag, length]), content])
  const bytes = length < 256 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from([tag, ...bytes]), content])
}

function oid(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split('.').map(Number)
  const bytes = [first * 40 + second]
  for (const part of rest) {
    const groups = [part & 0x7f]
    for (let left = part >> 7; left > 0; left >>= 7) groups.unshift((left & 0x7f) | 0x80)
    bytes.push(...groups)
  }
  return der(0x06, Buffer.from(bytes))
}

const text = (tag: number, value: string) => der(tag, Buffer.from(value, 'latin1'))
const nameOf = (common: string) => der(SEQUENCE, der(0x31, der(SEQUENCE, oid('2.5.4.3'), text(0x0c, common))))
const stamp = (at: number) => text(0x17, `${new Date(at).toISOString().replace(/[-:T]/g, '').slice(2, 14)}Z`)
const extension = (id: string, ...content: readonly Uint8Array[]) =>
  der(SEQUENCE, oid(id), der(0x04, ...content))

function altName(name: string): Buffer {
  const each = isIP(name) === 4 ? der(0x87, Buffer.from(name.split('.').map(Number))) : text(0x82, name)
  return extension('2.5.29.17', der(SEQUENCE, each))
}

interface Subject {
  readonly subject: string
  readonly issuer: string
  readonly publicKey: KeyObject
  readonly signer: KeyObject
  readonly from: number
  readonly until: number
  readonly extensions: readonly Buffer[]
}

function signed({ subject, issuer, publicKey, signer, from, until, extensions }: Subject): string {
  const algorithm = der(SEQUENCE, oid(EC_SHA256))
  const serial = randomBytes(8)
  // A leading byte between 1 and 127: positive, and no byte too long.
  serial[0] = ((serial[0] ?? 0) & 0x7f) | 1
  const body = der(
    SEQUENCE,
    der(0xa0, der(0x02, Buffer.from([2]))),
    der(0x02, serial),
    algorithm,
    nameOf(issuer),
    der(SEQUENCE, stamp(from), stamp(until)),
    nameOf(subject),
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, der(SEQUENCE, ...extensions)),
  )
  const signature = Buffer.concat([Buffer.from([0]), sign('sha256', body, signer)])
  const whole = der(SEQUENCE, body, algorithm, der(0x03, signature)).toString('base64')
  return `-----BEGIN CERTIFICATE-----\n${whole.replace(/.{64}(?=.)/g, '$&\n')}\n-----END CERTIFICATE-----\n`
}

/**
 * A certificate for one host name or IPv4 address, valid a day on either side of now by default (epoch ms).
 * Without an issuer it signs itself, and may then be the issuer of others.
 */
export function certificate(
  name: string,
  issuer?: Issued,
  from = Date.now() - DAY_MS,
  until = Math.max(from, Date.now()) + DAY_MS,
): Issued {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const signer = issuer ? createPrivateKey(issuer.key) : privateKey
  const isAuthority = extension('2.5.29.19', der(SEQUENCE, der(0x01, Buffer.from([0xff]))))
  const cert = signed({
    subject: name,
    issuer: issuer?.name ?? name,
    publicKey,
    signer,
    from,
    until,
    extensions: [altName(name), ...(issuer ? [] : [isAuthority])],
  })
  return { name, cert, key: privateKey.export({ type: 'pkcs8', format: 'pem' }) }
}
