// Which Host names a listener on loopback answers to: a page of the web may have its own name point at this machine (DNS rebinding), and would read what is here.
import { isIP } from 'node:net'

/** RFC 9110 section 7.2: a host and, mostly, a port; an IPv6 address stands in brackets. */
function hostOf(header: string): string {
  const [, bracketed, bare = ''] = /^(?:\[([^\]]*)\]|([^:]*))(?::\d*)?$/.exec(header.trim()) ?? []
  return (bracketed ?? bare).toLowerCase().replace(/\.$/, '')
}

const isLoopback = (address: string): boolean => /^(::ffff:)?127\.|^::1$/.test(address)

/**
 * `bound`: the address that is listened on; `configured`: the host as the configuration has it. On any other address than
 * loopback every name is answered: a service has names that nobody here knows. An address as Host is nobody's own name,
 * and a request without one comes from no browser.
 */
export function answersTo(header: string | undefined, bound: string, configured: string): boolean {
  if (header === undefined || !isLoopback(bound)) return true
  const host = hostOf(header)
  return isIP(host) !== 0 || host === 'localhost' || host === configured.toLowerCase()
}
