// Maps network errors to our own closed list of codes.
import { ConnectorError, type ErrorCode, OUT_OF_FILES } from '../core/errors.ts'
import type { Proxy } from './proxies.ts'

/** The failing peer: a sink has `tls` keys, a workspace has none. */
export type Peer = 'api' | 'sink'

export interface Seen {
  readonly to?: Peer | undefined
  readonly proxy?: Proxy | undefined
  /** The error is between here and the proxy. */
  readonly atProxy?: boolean
  readonly encrypted?: boolean
  /** We have a client certificate. */
  readonly showsCertificate?: boolean
  /** The answer had begun. */
  readonly answered?: boolean
}

type Hint = (seen: Seen) => string

const isSink = ({ to = 'sink', atProxy }: Seen) => to === 'sink' && atProxy !== true

const hints = {
  authority: (seen) =>
    isSink(seen)
      ? "; see 'tls.ca_file'"
      : '; trust it by naming its PEM file in NODE_EXTRA_CA_CERTS (chart: privateCA)',
  name: (seen) =>
    isSink(seen)
      ? "; see 'tls.server_name'"
      : seen.atProxy
        ? `; set ${seen.proxy?.variable ?? 'its variable'} to a name that is in the certificate`
        : '; set base_url to a name in the certificate, or use a certificate for the name in base_url',
  // After a TLS 1.3 handshake a refused client certificate can look exactly like a closed
  // connection.
  own: (seen) => {
    if (!isSink(seen) || !seen.encrypted || seen.answered) return ''
    return seen.showsCertificate
      ? '; it may not accept the certificate in tls.cert_file'
      : '; if it requires a client certificate, set tls.cert_file'
  },
  demanded: (seen) =>
    isSink(seen)
      ? '; set tls.cert_file and tls.key_file'
      : ', which only a sink can present: put a proxy that presents one in between',
  refused: (seen) => (isSink(seen) && seen.showsCertificate ? ': see tls.cert_file' : ''),
} as const satisfies Record<string, Hint>

type Known = readonly [code: ErrorCode, what: string, hint?: keyof typeof hints]

/** By code of the system, Node or OpenSSL, and by our own codes for failures without one. */
const codes: ReadonlyMap<string, Known> = new Map<string, Known>([
  ['ECONNREFUSED', ['unreachable', 'refused the connection; is it running, and is this the right port?']],
  ['ECONNRESET', ['unreachable', 'reset the connection before it answered', 'own']],
  ['EPIPE', ['unreachable', 'closed the connection before it had read the request', 'own']],
  ['CLOSED', ['unreachable', 'closed the connection before it answered', 'own']],
  ['CLOSED_HERE', ['unreachable', 'was not contacted: its connections are closed']],
  ['CUT_SHORT', ['unreachable', 'closed the connection in the middle of its answer']],
  ['CLOSED_IN_HANDSHAKE', ['unreachable', 'closed the connection during the TLS handshake']],
  ['CLOSED_AFTER_HANDSHAKE', ['unreachable', 'closed the connection after the TLS handshake', 'own']],
  ['ENOTFOUND', ['unreachable', 'has no address: the name is not known to DNS; check its spelling']],
  ['EAI_AGAIN', ['unreachable', 'cannot be resolved at the moment: DNS did not answer']],
  ['EHOSTUNREACH', ['unreachable', 'cannot be reached: no route to it']],
  ['ENETUNREACH', ['unreachable', 'cannot be reached: no route to its network']],
  ['EMFILE', ['unreachable', `cannot be contacted: ${OUT_OF_FILES}`]],
  ['ENFILE', ['unreachable', `cannot be contacted: ${OUT_OF_FILES}`]],
  ['ETIMEDOUT', ['timeout', 'did not answer in time']],
  ['NO_CONNECTION', ['timeout', 'did not accept the connection in time; is a firewall in the way?']],
  ['NO_HANDSHAKE', ['timeout', 'accepted the connection but did not answer the TLS handshake; does it speak TLS on this port?']], // prettier-ignore
  ['NO_TUNNEL', ['timeout', 'accepted the connection but did not answer; is it a proxy?']],
  ['UNASKED_UPGRADE', ['bad_reply', 'switched to another protocol without a request for that']],
  ['OTHER_LENGTH', ['bad_reply', 'was sent a body whose length differs from its content-length']],
  ['HPE_HEADER_OVERFLOW', ['bad_reply', 'sent headers that are too large']],
  [
    'ERR_INVALID_CHAR',
    ['misconfigured', 'was not contacted: a header contains a character that HTTP forbids'],
  ],
  ['ERR_UNESCAPED_CHARACTERS', ['misconfigured', 'was not contacted: the URL contains a character that HTTP forbids']], // prettier-ignore
  ['EPROTO', ['tls_invalid', 'does not speak TLS here']],
  ['ERR_TLS_CERT_ALTNAME_INVALID', ['tls_invalid', 'showed a certificate for another name', 'name']],
  ['CERT_HAS_EXPIRED', ['tls_invalid', 'showed a certificate that has expired']],
  ['CERT_NOT_YET_VALID', ['tls_invalid', 'showed a certificate that is not valid yet; check the clock here']],
  ['ERR_SSL_WRONG_VERSION_NUMBER', ['tls_invalid', 'does not speak TLS here; is it an http:// port?']],
  ['TLS_ANSWER', ['bad_reply', 'speaks TLS here; is it an https:// port?']],
])

/** The first bytes of a TLS alert, the answer of a TLS port to plain HTTP. */
const isTlsAlert = (packet: unknown) =>
  packet instanceof Uint8Array && packet[0] === 0x15 && packet[1] === 0x03

/** Node reports an early close as ECONNRESET too; only a real reset names the system call. */
function codeOf(error: Error, answered: boolean): string {
  const code = 'code' in error && typeof error.code === 'string' ? error.code : error.name
  if (code === 'ECONNRESET' && !('syscall' in error)) return answered ? 'CUT_SHORT' : 'CLOSED'
  if (code.startsWith('HPE_') && 'rawPacket' in error && isTlsAlert(error.rawPacket)) return 'TLS_ANSWER'
  return code
}

/** Codes of a failure and of its causes: happy eyeballs wraps the system's errors. */
function codesOf(error: unknown, answered: boolean, depth = 0): string[] {
  if (!(error instanceof Error) || depth > 4) return []
  const code = codeOf(error, answered)
  const own = code === 'Error' ? [] : [code]
  const inner = error instanceof AggregateError ? (error.errors as unknown[]) : []
  return [...[error.cause, ...inner].flatMap((each) => codesOf(each, answered, depth + 1)), ...own]
}

function knownOf(code: string): Known | undefined {
  const known = codes.get(code)
  if (known) return known
  if (code.startsWith('HPE_')) return ['bad_reply', 'answered with something that is not HTTP']
  if (/_ALERT_CERTIFICATE_REQUIRED$/.test(code)) return ['tls_invalid', 'requires a client certificate', 'demanded'] // prettier-ignore
  if (/_ALERT_(BAD_CERTIFICATE|UNKNOWN_CA|(UNSUPPORTED_)?CERTIFICATE_?\w*)$/.test(code))
    return ['tls_invalid', 'did not accept the client certificate', 'refused']
  if (/CERT|SIGNATURE|ISSUER|CRL_/.test(code) && !code.startsWith('ERR_SSL'))
    return ['tls_invalid', 'showed a certificate that no trusted authority signed', 'authority']
  if (/^ERR_(SSL|TLS|OSSL)_/.test(code)) return ['tls_invalid', 'ended the TLS handshake']
  return undefined
}

/** `where` is host:port. The peer's own text is not quoted: it may contain what was sent. */
export function transportError(
  where: string,
  error: unknown,
  signal?: AbortSignal,
  seen: Seen = {},
): ConnectorError {
  if (signal?.aborted) {
    const reason: unknown = signal.reason
    if (reason instanceof ConnectorError) return reason
    return new ConnectorError('aborted', `the request to ${where} was cancelled`, { cause: error })
  }
  if (error instanceof ConnectorError) return error
  const { proxy, atProxy, answered = false } = seen
  const isProxys = proxy && atProxy
  const whom = isProxys ? `the proxy ${proxy.at} (${proxy.variable}), on the way to ${where},` : where
  const onTheWay = proxy && !isProxys ? `; on the way is the proxy of ${proxy.variable}` : ''
  const found = codesOf(error, answered)
  for (const code of found) {
    const known = knownOf(code)
    if (!known) continue
    const [decision, what, hint] = known
    const help = hint === undefined ? '' : hints[hint](seen)
    return new ConnectorError(decision, `${whom} ${what}${help}${onTheWay} (${code})`, { cause: error })
  }
  const detail = found[0] ?? 'for an unknown reason'
  return new ConnectorError('unreachable', `${whom} could not be reached${onTheWay} (${detail})`, {
    cause: error,
  })
}
