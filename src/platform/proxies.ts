// The proxies that the environment names: whether they are usable, and which one applies to a host.
import { BlockList, isIP } from 'node:net'
import { ConnectorError } from '../core/errors.ts'
import { type Address, addressOf, hostPort } from '../contracts/platform.ts'

/** From the environment's HTTPS_PROXY, HTTP_PROXY and NO_PROXY; absent or empty: none. */
export interface ProxySettings {
  readonly https?: string | undefined
  readonly http?: string | undefined
  /** hosts that are contacted without a proxy */
  readonly none?: string | undefined
}

export interface Proxy {
  /** the variable that names it, for messages */
  readonly variable: string
  /** host:port, without its login */
  readonly at: string
  readonly to: Address
  /** The connection to the proxy itself uses TLS. */
  readonly encrypted: boolean
  /** value of the header `proxy-authorization` */
  readonly login: string | undefined
}

const misconfigured = (variable: string, fault: string) =>
  new ConnectorError('misconfigured', `the environment's ${variable} ${fault}, and restart`)

function urlOf(text: string): URL | undefined {
  try {
    const url = new URL(text)
    // The login is sent decoded: a lone % in it is kept.
    decodeURIComponent(url.username + url.password)
    return url.hostname === '' ? undefined : url
  } catch {
    return undefined
  }
}

/** The text may contain a password, so no error shows it. */
function proxyOf(variable: string, text: string): Proxy {
  const url = urlOf(text)
  if (url?.protocol.startsWith('socks') === true)
    throw misconfigured(variable, 'names a SOCKS proxy, which is not supported: use an HTTP proxy')
  if (!url || !['http:', 'https:'].includes(url.protocol))
    throw misconfigured(
      variable,
      'is not the address of a proxy: expected one such as http://proxy.example.com:3128 (percent-encode special characters in a login)',
    )
  const to = addressOf(text)
  const encrypted = url.protocol === 'https:'
  if (encrypted && isIP(to.host) !== 0)
    throw misconfigured(
      variable,
      'names an https proxy by its IP address, so its certificate cannot be checked: use its name, as in the certificate',
    )
  const [user, password] = [url.username, url.password].map(decodeURIComponent)
  const bytes = Buffer.from(`${user ?? ''}:${password ?? ''}`)
  const login = url.username === '' ? undefined : `Basic ${bytes.toString('base64')}`
  return { variable, at: hostPort(to), to, encrypted, login }
}

type Exempt = (host: string, port: number) => boolean

/**
 * A name covers itself and its subdomains, `*.name` only the subdomains; ranges such as 10.0.0.0/8
 * cover addresses; a port may follow.
 */
function exemptOf(entry: string): Exempt {
  if (entry.includes('/')) return rangeOf(entry)
  const [, bracketed, bare = entry, digits] = /^(?:\[(.+)\]|([^:]*))(?::(\d+))?$/.exec(entry) ?? []
  const name = (bracketed ?? bare).toLowerCase().replace(/(?<=.)\.$/, '')
  const domain = name.replace(/^\*?\./, '')
  const below = name.startsWith('*.')
  const covers = (host: string) =>
    domain === '*' || (host === domain && !below) || host.endsWith(`.${domain}`)
  return (host, port) => (digits === undefined || Number(digits) === port) && covers(host)
}

function rangeOf(entry: string): Exempt {
  const [address = '', digits = ''] = entry.replace(/[[\]]/g, '').split('/')
  const family = isIP(address)
  const bits = /^\d{1,3}$/.test(digits) ? Number(digits) : Infinity
  if (family === 0 || bits > (family === 4 ? 32 : 128))
    throw misconfigured(
      'NO_PROXY',
      `contains ${entry}, which is not an address range: expected one such as 10.0.0.0/8`,
    )
  const range = new BlockList()
  range.addSubnet(address, bits, family === 4 ? 'ipv4' : 'ipv6')
  return (host) => isIP(host) !== 0 && range.check(host, isIP(host) === 4 ? 'ipv4' : 'ipv6')
}

export class Proxies {
  readonly #settings: ProxySettings
  #known: { readonly https?: Proxy; readonly http?: Proxy; readonly exempt: readonly Exempt[] } | undefined

  constructor(settings: ProxySettings = {}) {
    this.#settings = settings
  }

  /** The proxy for `url`; undefined: none. Throws ConnectorError `misconfigured`. */
  proxyFor(url: string): Proxy | undefined {
    const { https, http, exempt } = this.#read()
    const proxy = new URL(url).protocol === 'https:' ? (https ?? http) : http
    const { host, port } = addressOf(url)
    const name = host.toLowerCase().replace(/(?<=.)\.$/, '')
    return exempt.some((covers) => covers(name, port)) ? undefined : proxy
  }

  #read() {
    if (this.#known) return this.#known
    const { https, http, none } = this.#settings
    this.#known = {
      ...(https && { https: proxyOf('HTTPS_PROXY', https) }),
      ...(http && { http: proxyOf('HTTP_PROXY', http) }),
      exempt: !https && !http ? [] : (none ?? '').split(/[,\s]+/).filter(Boolean).map(exemptOf), // prettier-ignore
    }
    return this.#known
  }
}
