// The `tls` keys that all network receivers share.
import { z } from 'zod'
import type { TlsOptions } from '../../contracts/platform.ts'
import type { NamedFile } from '../../contracts/sink-kind.ts'
import { certificateFault, privateKeyFault } from '../../core/secret.ts'

const file = () => z.string().min(1, 'expected the path of a PEM file').optional()

export const tlsOptions = () =>
  z
    .strictObject({
      ca_file: file().describe(
        "PEM file of the certificate authorities for the receiver's certificate; the public ones when absent.",
      ),
      cert_file: file().describe('PEM file of the client certificate; needs `key_file`.'),
      key_file: file().describe('PEM file of the private key of `cert_file`.'),
      server_name: z
        .string()
        .min(1)
        .optional()
        .describe("Name in the receiver's certificate, if it is not the host of the address."),
    })
    .refine((tls) => (tls.cert_file === undefined) === (tls.key_file === undefined), {
      error: 'expected both cert_file and key_file, or neither',
    })
    .optional()

type Read = (path: string) => string

/** A read error is reported by the check of that file. */
function textOr(path: string, read: Read): string | undefined {
  try {
    return read(path)
  } catch {
    return undefined
  }
}

export function tlsFiles(tls: TlsOptions | undefined): readonly NamedFile[] {
  const { ca_file: ca, cert_file: cert, key_file: key } = tls ?? {}
  const files = [
    { field: 'tls.ca_file', path: ca, fault: certificateFault },
    { field: 'tls.cert_file', path: cert, fault: certificateFault },
    {
      field: 'tls.key_file',
      path: key,
      fault: (text: string, read: Read) =>
        privateKeyFault(text, cert === undefined ? cert : textOr(cert, read)),
    },
  ]
  return files.flatMap(({ field, path, fault }) => (path === undefined ? [] : [{ field, path, fault }]))
}

// Runs a rule over several keys even if one of them is at fault: all faults are reported at once.
// Not for rules that use the value of a key.
export const always = (): boolean => true

// True for an address without a path: only scheme, host and port, for http or https.
export function isBareUrl(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, pathname, search, hash, username, password, host, port } = new URL(text)
  const bare = pathname === '/' && search + hash + username + password === '' && host !== '' && port !== '0'
  return bare && (protocol === 'https:' || protocol === 'http:')
}

/** Whether it uses TLS. The scheme may be in capitals. */
export const isEncrypted = (url: string): boolean => /^https:/i.test(url)
