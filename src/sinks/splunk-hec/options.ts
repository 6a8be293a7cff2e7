// The configuration of a `splunk_hec` sink.
import { z } from 'zod'
import { DAY_MS } from '../../core/time.ts'
import { duration, eachOnce, secret, twiceFault } from '../../core/units.ts'
import { always, isBareUrl, isEncrypted, tlsOptions } from '../kit/options.ts'

const url = () =>
  z.string().refine(isBareUrl, {
    error: 'expected http(s)://host:port alone, such as https://splunk.example.com:8088',
  })

const word = (description: string) => z.string().min(1).optional().describe(description)

export const options = z
  .strictObject({
    url: url().optional().describe('The collector as `https://host:port`; the paths are ours.'),
    urls: z
      .array(url())
      .min(1)
      .max(64)
      .refine(eachOnce, twiceFault)
      .optional()
      .describe('Several collectors, used in turn; one that fails pauses for a while. Replaces `url`.'),
    token: secret().describe(
      "The collector's token, best as `${file:/run/secrets/auditferry/hec-token}`; read again when the file changes.",
    ),
    index: word("Index of the events; the token's default index when absent."),
    source: word('`source` of the events; `auditferry:<workspace>` when absent.'),
    sourcetype: word('`sourcetype` of the events; `auditferry:<source>` when absent.'),
    host: word("`host` of the events; the host of the workspace's `base_url` when absent."),
    acks: z
      .literal([true, false, 'auto'], { error: 'expected true or false without quotes, or auto' })
      .default('auto')
      .describe(
        'Whether a batch counts only once the indexers have acknowledged it: `true` blocks the sink if that is off for the token, `auto` follows the token, `false` never asks.',
      ),
    ack_timeout: duration()
      .refine((ms) => ms >= 1000, 'expected at least 1s')
      .refine((ms) => ms <= DAY_MS, 'expected at most 1d: a lost answer would block the sink that long')
      .prefault('5m')
      .describe(
        'How long to wait for an acknowledgement before the batch goes out again under a new channel, at most `1d`.',
      ),
    compression: z
      .enum(['gzip', 'none'])
      .default('gzip')
      .describe('How requests are compressed: `gzip` (at its quickest) or `none`.'),
    max_in_flight: z
      .int()
      .min(1)
      .max(16)
      .default(1)
      .describe(
        'The most batches that may be sent and not yet acknowledged at a time: a crash may repeat that many. Requests are sent one after the other.',
      ),
    tls: tlsOptions().describe(
      'Whom to trust and what to show: `ca_file`, `cert_file`, `key_file`, `server_name`.',
    ),
  })
  .refine((given) => (given.url === undefined) !== (given.urls === undefined), {
    error: 'expected either url or urls',
    path: ['url'],
    when: always,
  })
  .refine((given) => !given.tls || urlsOf(given).some(isEncrypted), {
    error: 'has an effect with https:// only: change the address, or leave it out',
    path: ['tls'],
  })

export type HecOptions = z.output<typeof options>

interface Addresses {
  readonly url?: string | undefined
  readonly urls?: readonly string[] | undefined
}

export function urlsOf({ url: one, urls }: Addresses): readonly string[] {
  return urls ?? (one === undefined ? [] : [one])
}
