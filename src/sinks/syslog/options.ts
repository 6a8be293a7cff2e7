// The configuration of a `syslog` sink.
import { z } from 'zod'
import type { Assurance } from '../../contracts/sink.ts'
import type { Address } from '../../contracts/platform.ts'
import { duration, size } from '../../core/units.ts'
import { tlsOptions } from '../kit/options.ts'

type Scheme = 'udp' | 'tcp' | 'tls' | 'relp' | 'relp+tls'

/** In the order of their numbers. */
export const facilities = [
  'kern',
  'user',
  'mail',
  'daemon',
  'auth',
  'syslog',
  'lpr',
  'news',
  'uucp',
  'cron',
  'authpriv',
  'ftp',
  'ntp',
  'audit',
  'alert',
  'clock',
  'local0',
  'local1',
  'local2',
  'local3',
  'local4',
  'local5',
  'local6',
  'local7',
] as const

/** The minimum that RFC 5424 requires of a receiver. */
const LEAST_BYTES = 480
/** Larger messages are not usual in syslog, and entries are in memory while they are split. */
const MOST_BYTES = 16 * 2 ** 20
/** Maximum size of a datagram over IPv4. */
const DATAGRAM_BYTES = 65_507

const pattern = /^(udp|tcp|tls|relp|relp\+tls):\/\/(?:\[([0-9a-fA-F:.]+)\]|([A-Za-z0-9._-]+)):(\d{1,5})$/

export interface Receiver extends Address {
  readonly scheme: Scheme
}

/** Schemes are case-insensitive; after the schema they are lower-case. */
const plainScheme = (address: string) => address.replace(/^[A-Za-z+]+(?=:)/, (scheme) => scheme.toLowerCase())

/** Undefined if it is not a valid address. */
export function receiverOf(address: string): Receiver | undefined {
  const [, scheme, ipv6, name, digits] = pattern.exec(address) ?? []
  const host = ipv6 ?? name
  const port = Number(digits)
  if (host === undefined || !(port >= 1 && port <= 65_535)) return undefined
  return { scheme: scheme as Scheme, host, port }
}

/** For values that the header contains unchanged: other characters would be replaced silently. */
const word = (most: number) =>
  z.string().regex(new RegExp(`^[\\x21-\\x7e]{1,${most}}$`), {
    error: `want ASCII letters, digits and marks without a blank, ${most} at most`,
  })

const messageBytes = () =>
  z
    .union([z.int(), size()], { error: 'expected a number of bytes such as 8192, or a size such as 8KiB' })
    .refine((bytes) => bytes >= LEAST_BYTES && bytes <= MOST_BYTES, {
      error: `expected at least ${LEAST_BYTES} bytes and at most 16MiB`,
    })

const encrypted = (address: string) => /^(tls|relp\+tls):/.test(address)

export const options = z
  .strictObject({
    address: z
      .string()
      .refine((text) => receiverOf(plainScheme(text)) !== undefined, {
        error:
          'expected udp://, tcp://, tls://, relp:// or relp+tls:// with host:port, such as tls://siem:6514',
      })
      .transform(plainScheme)
      .describe(
        'The receiver as `scheme://host:port`; the scheme is `udp`, `tcp`, `tls`, `relp` or `relp+tls`.',
      ),
    rfc: z
      .literal([5424, 3164])
      .default(5424)
      .describe('Format of a message: `5424`, or the older `3164` for receivers that support only that.'),
    facility: z.enum(facilities).default('local0').describe('The facility in the priority of each message.'),
    app_name: word(48).default('auditferry').describe('APP-NAME, with `rfc: 3164` the tag.'),
    hostname: word(255)
      .optional()
      .describe(
        "HOSTNAME of the messages; default: the host of the workspace's `base_url`, or with `rfc: 3164` the workspace's name if that is an IPv6 address.",
      ),
    enterprise_id: z
      .int()
      .min(1)
      .max(4_294_967_295)
      .default(32_473)
      .describe(
        'Private enterprise number in the structured data (`auditferry@32473`); the default is the one reserved for documentation.',
      ),
    max_message_bytes: messageBytes()
      .prefault(8192)
      .describe('Most bytes of a message, including its header.'),
    oversize: z
      .enum(['split', 'compact', 'dead_letter'])
      .default('split')
      .describe(
        'What to do with a larger one: `split` into numbered parts, `compact` by leaving out its largest fields, or `dead_letter`.',
      ),
    tcp_linger: duration()
      .prefault('30s')
      .describe(
        'With `tcp` and `tls`: how long sent lines are kept, at most 8 MiB, to send them again after a reset.',
      ),
    tls: tlsOptions().describe(
      'With `tls` and `relp+tls`: whom to trust and what to show: `ca_file`, `cert_file`, `key_file`, `server_name`.',
    ),
  })
  .refine(({ address, tls }) => tls === undefined || encrypted(address), {
    error: 'has an effect with tls:// and relp+tls:// only: change the address, or leave it out',
    path: ['tls'],
  })
  .refine(({ rfc, hostname }) => rfc !== 3164 || hostname?.includes(':') !== true, {
    error: 'with rfc: 3164 a colon ends the host: expected a name or an IPv4 address',
    path: ['hostname'],
  })
  .refine(({ address, max_message_bytes: most }) => !address.startsWith('udp:') || most <= DATAGRAM_BYTES, {
    error: `expected at most ${DATAGRAM_BYTES} bytes: more does not fit a datagram`,
    path: ['max_message_bytes'],
  })

/** Only RELP acknowledges messages. */
export const assuranceOf = ({ address }: { readonly address: string }): Assurance =>
  address.startsWith('relp') ? 'received' : 'sent'

export type SyslogOptions = z.output<typeof options>

/** The options that change the bytes of a message. */
export type ShapeOptions = Pick<
  SyslogOptions,
  'rfc' | 'facility' | 'app_name' | 'hostname' | 'enterprise_id' | 'max_message_bytes' | 'oversize'
>
