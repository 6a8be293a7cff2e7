// What an operator may say about a Splunk HTTP Event Collector.
import { z } from 'zod'
import { duration, secret } from '../../model/units.ts'
import { tlsOptions } from '../tls-options.ts'

function isBareUrl(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, pathname, search, hash, username, password, host } = new URL(text)
  const bare = pathname === '/' && search + hash + username + password === '' && host !== ''
  return bare && (protocol === 'https:' || protocol === 'http:')
}

const url = () =>
  z
    .string()
    .refine(isBareUrl, { error: 'want scheme://host:port alone, such as https://splunk.example.com:8088' })

const word = (description: string) => z.string().min(1).optional().describe(description)

export const options = z
  .strictObject({
    url: url().optional().describe('The collector as `https://host:port`; the paths are ours.'),
    urls: z
      .array(url())
      .min(1)
      .max(64)
      .optional()
      .describe('Several collectors, used in turn; one that fails rests a while. In the place of `url`.'),
    token: secret().describe(
      "The collector's token, best as `${file:/run/secrets/auditferry/hec-token}`; read again when the file changes.",
    ),
    index: word("Index of the events; the token's default index when absent."),
    source: word('`source` of the events; `auditferry:<workspace>` when absent.'),
    sourcetype: word('`sourcetype` of the events; `auditferry:<source>` when absent.'),
    host: word("`host` of the events; the host of the workspace's `base_url` when absent."),
    acks: z
      .literal([false, 'auto'], {
        error: ({ input }) =>
          input === true
            ? 'indexer acknowledgements are not in this version yet: want auto or false'
            : 'want auto or false',
      })
      .default('auto')
      .describe(
        "Whether to wait for the indexers' acknowledgement; this version sends without it and refuses `true`.",
      ),
    ack_timeout: duration()
      .prefault('5m')
      .describe('How long to wait for an acknowledgement; without effect in this version.'),
    compression: z
      .enum(['gzip', 'none'])
      .default('gzip')
      .describe('How requests are compressed: `gzip` (level 1) or `none`.'),
    max_in_flight: z
      .int()
      .min(1)
      .max(16)
      .default(1)
      .describe('The most batches that may be in the air at once; this version sends one after the other.'),
    tls: tlsOptions().describe(
      'Whom to trust and what to show: `ca_file`, `cert_file`, `key_file`, `server_name`.',
    ),
  })
  .refine((given) => (given.url === undefined) !== (given.urls === undefined), {
    error: 'want either url or urls',
    path: ['url'],
  })

export type HecOptions = z.output<typeof options>

export const urlsOf = ({ url: one, urls }: HecOptions): readonly string[] => urls ?? (one ? [one] : [])
