// The switches of the HEC fake. Each is one habit of Splunk, of Splunk Cloud or of a front before them, with what is known of it.

export interface HecToken {
  readonly disabled?: boolean
  /** Indexes that the token may write to; absent: any. */
  readonly indexes?: readonly string[]
  /** Where an event without `index` goes. */
  readonly defaultIndex?: string
  /** Indexer acknowledgement is on: a channel is required, and each answer carries an `ackId`. Off: asking for one is code 14. */
  readonly acks?: boolean
}

export const defaults = {
  tokens: { 'test-token': {} } as Readonly<Record<string, HecToken>>,
  /** Code 16 unless it is on. */
  queryAuth: false,
  gzip: true,
  /** `max_content_length`: 838,860,800 at Splunk Enterprise today, 1,000,000 in the days of 6.4. Beyond: 413. */
  maxContentBytes: 838_860_800,
  /** Splunk Cloud refuses a body over some 5 MiB uncompressed with code 6, event 0, and not with 413. */
  disguiseBytes: Infinity,
  /** `maxEventSize`. */
  maxEventBytes: 5 * 2 ** 20,
  /** An unknown envelope key gives 200, and only the objects before it are indexed. `ignored`: a more lenient receiver. */
  unknownKey: 'stops' as 'stops' | 'ignored',
  /** An object with `fields` and without `event` is skipped with 200. `refused`: code 12, as without `fields`. */
  eventless: 'skipped' as 'skipped' | 'refused',
  /** Code 7 names the object after the bad one. Off: the bad one, as all other codes do. */
  wrongIndexNamesNext: true,

  /** What a malformed channel is called: 11, or 28 at Splunk Cloud. */
  badChannelCode: 11 as 11 | 28,
  /** After so long a batch is indexed and its id turns true; typically 1 to 2 s. Infinity: never. */
  ackDelayMs: 1000,
  /** A 400 that indexed its prefix may still carry an `ackId`. */
  ackOnPrefix: true,
  /** A receiver that speaks HEC without acknowledgements, whatever the token has: code 0 has no `ackId`, `/ack` is 404. */
  ackless: false,
  /** Splunk forgets nothing by default: clean-up of idle channels is off. On: after `idleCleanupMs` without a request. */
  idleCleanup: false,
  /** 600 s if it is on. */
  idleCleanupMs: 600_000,

  /** Unreported ids of a channel: from so many on code 27, nothing is taken. */
  maxPendingAcks: 1_000_000,
  /** From so many on success is code 25. */
  warnPendingAcks: Infinity,
  /** The same over all channels of an indexer, and how many channels it has: code 27 too, since the facts name no other. */
  maxPendingAcksInAll: 10_000_000,
  maxChannels: 1_000_000,
  /** Events that wait to be indexed: from so many on code 26, nothing is taken. They leave after `ackDelayMs`. */
  maxQueuedEvents: Infinity,
  /** From so many on success is code 24. */
  warnQueuedEvents: Infinity,
  /** Success is answered with this code, whatever the limits say. */
  warning: undefined as 24 | 25 | undefined,

  health: 17 as 17 | 18 | 19 | 20 | 23,
  /** `/health` needs no token on Cloud. */
  healthNeedsToken: false,

  /** A load balancer with so many indexers behind it; each counts `ackId` on its own, so that ids collide. */
  indexers: 1,
  /** A client with the balancer's cookie gets the same indexer again. Off: no cookie, each request to the next in turn. */
  sticky: true,
  /** AWS sends AWSALBCORS too, behind AWSALB, and of a repeated header only the last is seen. */
  cookieName: 'AWSALB' as 'AWSALB' | 'AWSALBCORS',
  /** So long after it was given a cookie is worth nothing: another indexer, another cookie. */
  cookieLifeMs: Infinity,
  /** A fresh value with each answer for the same indexer, as AWS does with AWSALB: a new cookie is not yet a new indexer. */
  cookieRolls: false,
}

export type HecSettings = typeof defaults
export type HecOptions = { readonly [Key in keyof HecSettings]?: HecSettings[Key] }
