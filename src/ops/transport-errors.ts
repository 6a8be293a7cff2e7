// What went wrong on the wire, in the words of our own closed list of codes.
import { ConnectorError, type ErrorCode, OUT_OF_FILES } from '../model/errors.ts'
import type { Proxy } from './proxies.ts'

/** Who did not answer as it should: a sink has `tls` keys, a workspace has none. */
export type Peer = 'api' | 'sink'

const hints = {
  authority: {
    sink: "; see 'tls.ca_file'",
    api: '; trust it by naming its PEM file in NODE_EXTRA_CA_CERTS (chart: privateCA)',
  },
  name: {
    sink: "; see 'tls.server_name'",
    api: "; want in base_url a name that the certificate bears, or one that bears base_url's",
  },
  // After a TLS 1.3 handshake a refused client certificate looks like a connection that was closed, and like nothing else.
  own: { sink: '; if it wants a client certificate, see tls.cert_file', api: '' },
} as const

type Known = readonly [code: ErrorCode, what: string, hint?: keyof typeof hints]

const codes: Readonly<Record<string, Known>> = {
  ECONNREFUSED: ['unreachable', 'refused the connection; is it running, and is this the right port?'],
  ECONNRESET: ['unreachable', 'reset the connection before it answered'],
  EPIPE: ['unreachable', 'closed the connection before it had read the request'],
  UND_ERR_SOCKET: ['unreachable', 'closed the connection before it answered', 'own'],
  UND_ERR_CLOSED: ['unreachable', 'cannot be asked: its connections are closed'],
  UND_ERR_DESTROYED: ['unreachable', 'cannot be asked: its connections are closed'],
  UND_ERR_ABORTED: ['unreachable', 'was not reached: the proxy refused to connect to it'],
  ENOTFOUND: ['unreachable', 'has no address: the name is not known to DNS; check its spelling'],
  EAI_AGAIN: ['unreachable', 'has no address just now: DNS did not answer'],
  EHOSTUNREACH: ['unreachable', 'cannot be reached: no route to it'],
  ENETUNREACH: ['unreachable', 'cannot be reached: no route to its network'],
  EMFILE: ['unreachable', `cannot be asked: ${OUT_OF_FILES}`],
  ENFILE: ['unreachable', `cannot be asked: ${OUT_OF_FILES}`],
  ETIMEDOUT: ['timeout', 'did not answer in time'],
  UND_ERR_CONNECT_TIMEOUT: ['timeout', 'did not take the connection in time; is a firewall in the way?'],
  UND_ERR_HEADERS_TIMEOUT: ['timeout', 'did not begin to answer in time'],
  UND_ERR_BODY_TIMEOUT: ['timeout', 'stopped in the middle of its answer'],
  UND_ERR_HEADERS_OVERFLOW: ['bad_reply', 'sent headers without end'],
  UND_ERR_INVALID_ARG: [
    'misconfigured',
    'was not asked: a header or URL holds a character that HTTP forbids',
  ],
  EPROTO: ['tls_invalid', 'does not speak TLS here'],
  ERR_TLS_CERT_ALTNAME_INVALID: ['tls_invalid', 'showed a certificate for another name', 'name'],
  CERT_HAS_EXPIRED: ['tls_invalid', 'showed a certificate that has expired'],
  CERT_NOT_YET_VALID: ['tls_invalid', 'showed a certificate that is not valid yet; check the clock here'],
  ERR_SSL_WRONG_VERSION_NUMBER: ['tls_invalid', 'does not speak TLS here; is it an http:// port?'],
}

/** Codes of one failure and of those behind it: undici and happy eyeballs wrap what the system said. */
function codesOf(error: unknown, depth = 0): string[] {
  if (!(error instanceof Error) || depth > 4) return []
  const code = 'code' in error && typeof error.code === 'string' ? error.code : error.name
  const own = code === 'Error' ? [] : [code]
  const inner = error instanceof AggregateError ? (error.errors as unknown[]) : []
  return [...[error.cause, ...inner].flatMap((each) => codesOf(each, depth + 1)), ...own]
}

function knownOf(code: string): Known | undefined {
  const known = codes[code]
  if (known) return known
  if (code === 'HTTPParserError' || code.startsWith('HPE_'))
    return ['bad_reply', 'answered with something that is not HTTP']
  if (/CERT|SIGNATURE|ISSUER|CRL_/.test(code) && !code.startsWith('ERR_SSL'))
    return ['tls_invalid', 'showed a certificate that no trusted authority signed', 'authority']
  if (/^ERR_(SSL|TLS|OSSL)_/.test(code)) return ['tls_invalid', 'ended the TLS handshake']
  return undefined
}

/** What comes up before there is a way to anybody: with a proxy on it, about that one. */
const ofTheFirst: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_PRX_CONN',
  'UND_ERR_PRX_TLS',
])

/** Over plain http a proxy that wants a login shows as an error of arguments. */
const wantsLogin = (error: unknown): boolean =>
  error instanceof Error && error.message.startsWith('Proxy Authentication Required')

/** `where` is host:port. The other side's own words are not quoted: they may hold what was sent. */
export function transportError(
  where: string,
  error: unknown,
  signal: AbortSignal,
  to: Peer = 'sink',
  proxy?: Proxy,
): ConnectorError {
  if (error instanceof ConnectorError) return error
  if (signal.aborted)
    return new ConnectorError('aborted', `the request to ${where} was called off`, { cause: error })
  const found = proxy && wantsLogin(error) ? ['UND_ERR_ABORTED'] : codesOf(error)
  const isProxys = proxy && found.some((code) => ofTheFirst.has(code))
  const whom = isProxys ? `the proxy ${proxy.at} (${proxy.variable}), on the way to ${where},` : where
  const onTheWay = proxy && !isProxys ? `; on the way is the proxy of ${proxy.variable}` : ''
  for (const code of found) {
    const known = knownOf(code)
    if (!known) continue
    const [decision, what, hint] = known
    const help = hint === undefined || isProxys ? '' : hints[hint][to]
    return new ConnectorError(decision, `${whom} ${what}${help}${onTheWay} (${code})`, { cause: error })
  }
  const detail = found[0] ?? 'for an unknown reason'
  return new ConnectorError('unreachable', `${whom} could not be asked${onTheWay} (${detail})`, {
    cause: error,
  })
}
