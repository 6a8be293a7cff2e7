// The `tls` keys that every receiver over the network shares.
import { z } from 'zod'
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

export function tlsFiles(tls: TlsOptions | undefined): readonly NamedFile[] {
  const files = [
    { field: 'tls.ca_file', path: tls?.ca_file },
    { field: 'tls.cert_file', path: tls?.cert_file },
    { field: 'tls.key_file', path: tls?.key_file },
  ]
  return files.flatMap(({ field, path }) => (path === undefined ? [] : [{ field, path }]))
}
