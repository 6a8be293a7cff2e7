// Reading writes (invariant 7): each audit fetch is itself an entry. Separates our fetches from those of others; others'
// fetches under our user become findings.
import type { Entries } from '../../contracts/entries.ts'
import { textsUnder } from '../../core/json.ts'

const FETCH_TYPE = 'api:audit_log_fetch'
/** Requests whose time is remembered, for servers that do not record the User-Agent. */
const SENT_LENGTH = 128
/** How far an entry's own time may be from the request that made it: whole seconds of `Date`, and a slow server. */
const MATCH_MS = 5_000
/** So many fetches at the very times of our requests, and none with our User-Agent: it is not recorded as sent. */
const MATCHES_TO_BELIEVE = 3

/** When a log was asked for a page. */
export interface SentTimes {
  /** epoch ms by the server's clock, newest last */
  readonly sent: number[]
}

/** Part of the audit cursor. */
export interface Fetches extends SentTimes {
  /** findings are reported from here on, µs: before it, fetches of other tools were expected */
  sinceUs: number
  /** who our key is to the audit log, once an own fetch was met */
  user: string | null
  /** the address of our fetches, learned by time because the User-Agent is not recorded */
  byTimeIp: string | null
  /** fetches at the times of our requests that lack our User-Agent */
  matches: number
}

export function freshFetches(now: number): Fetches {
  return { sinceUs: now * 1000, user: null, byTimeIp: null, matches: 0, sent: [] }
}

interface Recogniser {
  readonly instance: string
  /** User-Agents of tools that are known */
  readonly expectedUserAgent: (userAgent: string) => boolean
  /** by all that read this log, a backfill beside the live reader too; in memory alone */
  readonly sentTimes: SentTimes
}

/** `other`: not an audit fetch, or a fetch of another user. */
export type Kind = 'own' | 'foreign' | 'other'

/** Clients may write anything into entries: what is not text is no user. */
const textsOf = textsUnder(['user', 'ip', 'user_agent'])

export function recordSent({ sent }: SentTimes, at: number): void {
  sent.push(at)
  if (sent.length > SENT_LENGTH) sent.splice(0, sent.length - SENT_LENGTH)
}

const isAtOne = ({ sent }: SentTimes, at: number): boolean =>
  sent.some((one) => Math.abs(one - at / 1000) <= MATCH_MS)

/** From before the oldest request that is remembered: it may have been our own. */
function isForgotten({ sent }: SentTimes, at: number): boolean {
  return sent.length >= SENT_LENGTH && at / 1000 < Math.min(...sent) + MATCH_MS
}

/** What an entry is to us. Learns who we are from the first own fetch it meets. */
export function classify(fetches: Fetches, entries: Entries, index: number, by: Recogniser): Kind {
  if (entries.type(index) !== FETCH_TYPE) return 'other'
  const { user = '', ip = '', user_agent: agent = '' } = textsOf(entries.raw(index))
  const at = entries.at(index)
  if (agent.includes(by.instance)) {
    // The User-Agent is recorded from now on: earlier fetches of ours can no longer be separated from others'.
    if (fetches.byTimeIp !== null) fetches.sinceUs = Math.max(fetches.sinceUs, at)
    fetches.user = user
    fetches.byTimeIp = null
    fetches.matches = 0
    return 'own'
  }
  const known = [fetches, by.sentTimes]
  const atOurTime = known.some((one) => isAtOne(one, at))
  if (fetches.user === null && atOurTime) {
    // Not believed at once: another tool may poll at the same second.
    if (++fetches.matches < MATCHES_TO_BELIEVE) return 'own'
    fetches.user = user
    fetches.byTimeIp = ip
  }
  const isAlike = fetches.byTimeIp !== null && user === fetches.user && ip === fetches.byTimeIp
  if (isAlike && atOurTime) return 'own'
  const mayBeOurs = isAlike && known.some((one) => isForgotten(one, at))
  if (user !== fetches.user || at < fetches.sinceUs || mayBeOurs) return 'other'
  return by.expectedUserAgent(agent) ? 'other' : 'foreign'
}
