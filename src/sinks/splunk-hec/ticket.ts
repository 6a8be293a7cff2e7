// What an acknowledgement needs to be asked for: kept in the batch's intent, so that a restart asks instead of sending again.
import { z } from 'zod'
import { jsonOf } from '../../model/json-of.ts'

/** Whoever answers may send any cookie; what is kept of them is bounded. */
const COOKIES_BYTES = 16 * 1024

const ticketSchema = z.object({
  /** scheme://host:port of the endpoint */
  origin: z.string(),
  channel: z.string(),
  /** as the `cookie` header, for the indexer behind a load balancer; '' for none */
  cookie: z.string(),
  ackId: z.int().min(0),
  /** epoch ms */
  sentAt: z.number(),
})
export type Ticket = z.output<typeof ticketSchema>

/** Undefined for a text that is none: an intent from before the answer. */
export function readTicket(detail: string): Ticket | undefined {
  return jsonOf(ticketSchema, detail)
}

/** The cookies to send from now on: those of before and what the answer's `set-cookie` says, of a name the last one. */
export function cookiesAfter(cookie: string, setCookie: string | undefined): string {
  if (setCookie === undefined) return cookie
  const jar = new Map<string, string>()
  for (const pair of cookie === '' ? [] : cookie.split('; ')) jar.set(pair.slice(0, pair.indexOf('=')), pair)
  for (const line of setCookie.split('\n')) {
    const [pair = '', ...attributes] = line.split(';').map((part) => part.trim())
    const name = pair.slice(0, Math.max(0, pair.indexOf('=')))
    if (name === '') continue
    if (attributes.some((attribute) => /^max-age=(0|-\d+)$/i.test(attribute))) jar.delete(name)
    else jar.set(name, pair)
  }
  const after = [...jar.values()].join('; ')
  return after.length > COOKIES_BYTES ? cookie : after
}
