// Field types that several parts of the schema share: names, patterns, durations, sizes, addresses.
import { isIPv6 } from 'node:net'
import { z } from 'zod'
import { isPlausibleInstant, parseInstantText, plausibleInstants } from '../core/time.ts'
import { duration, durationMs, durationPattern, isSpan, size, spanFault } from '../core/units.ts'
import type { Start } from '../sources/shared.ts'

export const partName = () =>
  z
    .string()
    .regex(/^(?=.*[a-z0-9])[a-z0-9-]{1,63}$/, 'expected small letters, digits and hyphens, 63 at most')

/** Globs over an entry's type; `!` excludes. */
export const typeGlobs = () =>
  z
    .array(z.string().regex(/^!?[^!\s]+$/, 'expected a pattern such as auth:* or !user:client_view_history'))
    .min(1)
    .prefault(['*'])

/** Delay of a loop: long enough that it does not spin. */
export const interval = () => duration().refine((ms) => ms >= 1000, 'expected at least 1s')

/** A size of at least `leastBytes`. */
export const sizeFrom = (leastBytes: number, least: string) =>
  size().refine((bytes) => bytes >= leastBytes, `expected at least ${least}`)

/** A UTC day such as 2026-01-31. */
export const dayPattern = /^\d{4}-\d\d-\d\d$/

/** Epoch µs of a time, or of the start of a UTC day; NaN if the text is neither. */
export const instantUs = (text: string): number =>
  parseInstantText(dayPattern.test(text) ? `${text}T00:00:00Z` : text)

function parseStart(text: string): Start {
  if (text === 'earliest' || text === 'latest') return { kind: text }
  if (durationPattern.test(text)) return { kind: 'span', ms: durationMs(text) }
  return { kind: 'time', atUs: instantUs(text) }
}

const startFault =
  'expected earliest, latest, a duration back from now such as 30d, a UTC day such as 2026-01-31, or a time such as 2026-01-31T00:00:00Z'

/** Where the first read begins. */
export const start = () =>
  z
    .string(startFault)
    .transform(parseStart)
    .refine((given) => given.kind !== 'time' || Number.isFinite(given.atUs), {
      error: startFault,
      abort: true,
    })
    .refine((given) => given.kind !== 'span' || isSpan(given.ms), spanFault)
    .refine(
      (given) => given.kind !== 'time' || isPlausibleInstant(given.atUs),
      `expected a time ${plausibleInstants}`,
    )

interface Listen {
  readonly host: string
  readonly port: number
}

const listenPattern = /^(?:\[([0-9a-fA-F:.]+)\]|([^\s:[\]]+)):(\d{1,5})$/

function parseListen(text: string): Listen {
  const [, bracketed, plain, port] = listenPattern.exec(text) ?? []
  return { host: bracketed ?? plain ?? '', port: Number(port) }
}

/** Characters of a host name or IPv4 address. */
const hostPattern = /^[A-Za-z0-9._-]+$/

/** A name as in the Host header, without a port. */
export const hostName = () =>
  z.string().regex(hostPattern, 'expected a host name without a port, such as auditferry.example.com')

const listenExpected = 'expected host:port, such as 127.0.0.1:9464 or [::1]:9464'

function listenFault(text: string): string | undefined {
  const { host, port } = parseListen(text)
  if (port > 65_535 || (host === '' && /^:\d{5,}$/.test(text) && Number(text.slice(1)) > 65_535))
    return `has a port beyond 65535: ${listenExpected}`
  if (/^:\d+$/.test(text))
    return `has no host: ${listenExpected}, or 0.0.0.0:9464 for every address of this machine`
  if (host === '') return listenExpected
  if (hostPattern.test(host) || isIPv6(host)) return undefined
  return 'has no host to listen on: for every address of this machine use 0.0.0.0:9464 or [::]:9464'
}

export const listen = () =>
  z
    .string(listenExpected)
    .superRefine((text, context) => {
      const message = listenFault(text)
      if (message !== undefined) context.addIssue({ code: 'custom', message })
    })
    .transform(parseListen)

/** The fault of a base URL; undefined if it is valid. */
function addressFault(text: string): string | undefined {
  if (!text.includes('://')) return 'has no scheme: expected an address such as https://api.example.com'
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (!url || (url.protocol !== 'https:' && url.protocol !== 'http:'))
    return 'expected an address of https:// (or http://), such as https://api.example.com'
  if (url.port === '0') return 'names port 0: nothing can listen there'
  if (url.username !== '' || url.password !== '')
    return 'contains a user name or password: put the key in api_key'
  if (url.search !== '' || url.hash !== '')
    return 'has a query or a fragment: expected scheme, host and path only'
  if (/\/api(?:\/v\d+)?(?:\/|$)/.test(url.pathname))
    return `names a path of the API, which is added automatically: expected ${url.origin}${url.pathname.replace(/\/api(?:\/.*)?$/, '')}`
  return undefined
}

/** An http or https address without a trailing slash. */
export const baseUrl = () =>
  z
    .string()
    .superRefine((text, context) => {
      const message = addressFault(text)
      if (message !== undefined) context.addIssue({ code: 'custom', message })
    })
    .transform((text) => text.replace(/\/+$/, ''))

/** True if a secret sent to `url` would cross a network unencrypted. False for invalid URLs. */
export function isExposed(url: string): boolean {
  if (!URL.canParse(url)) return false
  const { protocol, hostname } = new URL(url)
  return (
    protocol === 'http:' &&
    hostname !== 'localhost' &&
    hostname !== '[::1]' &&
    !/^127(\.\d{1,3}){3}$/.test(hostname)
  )
}

export const exposedFault =
  'is plain http to another machine: use https, or set allow_insecure: true beside it'

/** Keys of the schema that name files; a test checks each of them. */
export const namesFile = (key: unknown): boolean =>
  key === 'path' || (typeof key === 'string' && key.endsWith('_file'))

/** A mapping, for rules that inspect a value before it is fully validated. */
export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
