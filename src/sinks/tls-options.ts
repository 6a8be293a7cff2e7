// The `tls` keys that every receiver over the network shares.
import { z } from 'zod'
import { certificateFault, privateKeyFault } from '../model/pem.ts'
import type { NamedFile } from '../model/sink-kind.ts'
import type { TlsOptions } from '../model/socket.ts'

const file = () => z.string().min(1, 'want the path of a PEM file').optional()

export const tlsOptions = () =>
  z
    .strictObject({
      ca_file: file().describe(
        "PEM file of the authorities that may have signed the receiver's certificate; the public ones when absent.",
      ),
      cert_file: file().describe('PEM file of the certificate that this client shows; needs `key_file`.'),
      key_file: file().describe('PEM file of the private key of `cert_file`.'),
      server_name: z
        .string()
        .min(1)
        .optional()
        .describe("Name that the receiver's certificate must bear, where it is not the host of the address."),
    })
    .refine((tls) => (tls.cert_file === undefined) === (tls.key_file === undefined), {
      error: 'want both cert_file and key_file, or neither',
    })
    .optional()

type Read = (path: string) => string

/** What keeps a file from being read is told of that file itself. */
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
