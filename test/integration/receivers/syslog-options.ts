// What the suites may ask of a syslog receiver, and its certificates as files.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** Pairs of PEM text. */
export interface ReceiverTls {
  readonly cert: string
  readonly key: string
  readonly ca: string
  /** asks for a client certificate of `ca` */
  readonly mutual?: boolean
}

export interface ReceiverOptions {
  readonly folder: string
  readonly transport: 'tcp' | 'udp' | 'tls'
  readonly tls?: ReceiverTls
  /** rsyslog's own default when absent */
  readonly maxMessageSize?: string
}

export function tlsFiles(folder: string, { cert, key, ca }: ReceiverTls) {
  const put = (name: string, text: string) => {
    writeFileSync(join(folder, name), text, { mode: 0o600 })
    return join(folder, name)
  }
  return { cert: put('cert.pem', cert), key: put('key.pem', key), ca: put('ca.pem', ca) }
}
