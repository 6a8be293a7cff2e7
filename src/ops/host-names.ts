// Which Host names the listener answers to: a web page can have its own name resolve to this machine (DNS rebinding), and would read the status from the operator's browser.
import { isIP } from 'node:net'

/** RFC 9110 section 7.2: a host and, mostly, a port; an IPv6 address stands in brackets. */
function hostOf(header: string): string {
  const [, bracketed, bare = ''] = /^(?:\[([^\]]*)\]|([^:]*))(?::\d*)?$/.exec(header.trim()) ?? []
  return normal(bracketed ?? bare)
}

const normal = (host: string): string => host.toLowerCase().replace(/\.$/, '')

/** An IP address is not a name that a web page can own, and a request without a Host comes from no browser. */
export function answersTo(header: string | undefined, allowed: readonly string[]): boolean {
  if (header === undefined) return true
  const host = hostOf(header)
  return isIP(host) !== 0 || host === 'localhost' || allowed.some((name) => normal(name) === host)
}
