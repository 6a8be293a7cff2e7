// The proxies that the environment names: whether they can be used at all, and which one stood on the way to somebody.
import { isIP } from 'node:net'
import type { buildConnector } from 'undici'
import { ConnectorError } from '../model/errors.ts'
import { addressOf, hostPort } from '../model/socket.ts'

/** As in the environment's HTTPS_PROXY, HTTP_PROXY and NO_PROXY; absent or empty: none. */
export interface ProxySettings {
  readonly https?: string | undefined
  readonly http?: string | undefined
  /** hosts that are asked without a proxy */
  readonly none?: string | undefined
}

export interface Proxy {
  /** that names it, for messages */
  readonly variable: string
  /** host:port, without what it takes for a login */
  readonly at: string
}

const schemes: ReadonlySet<string> = new Set(['http:', 'https:', 'socks:', 'socks5:'])

/** It may hold a password: not a word of it is told. */
function proxyFault(text: string): string | undefined {
  if (!isAddress(text))
    return 'is no address of a proxy: want one such as http://proxy.example.com:3128 (marks in a login as %25), and a restart'
  // Undici puts the host into the handshake, where Node lets no address stand any more.
  if (new URL(text).protocol === 'https:' && isIP(addressOf(text).host) !== 0)
    return 'names an https proxy by its IP address, by which its certificate cannot be checked: want its name, as the certificate bears it, and a restart'
  return undefined
}

function isAddress(text: string): boolean {
  try {
    const { protocol, hostname, username, password } = new URL(text)
    // The login goes out as it is meant: a lone % in it means nothing.
    decodeURIComponent(username + password)
    return schemes.has(protocol) && hostname !== ''
  } catch {
    return false
  }
}

export class Proxies {
  readonly #settings: ProxySettings
  /** origins that NO_PROXY names: whoever connects by himself was asked without a proxy, and always will be */
  readonly #direct = new Set<string>()

  constructor(settings: ProxySettings = {}) {
    this.#settings = settings
  }

  get areNone(): boolean {
    return !this.#settings.https && !this.#settings.http
  }

  /** Undici's options. Throws ConnectorError `misconfigured`. */
  get options() {
    const { https, http, none } = this.#settings
    for (const [variable, text] of Object.entries({ HTTPS_PROXY: https, HTTP_PROXY: http })) {
      const fault = text && proxyFault(text)
      if (fault) throw new ConnectorError('misconfigured', `the environment's ${variable} ${fault}`)
    }
    return { httpsProxy: https ?? '', httpProxy: http ?? '', noProxy: none ?? '' }
  }

  /** Undici connects by this where there is no proxy on the way, and never else. */
  noting(connect: buildConnector.connector): buildConnector.connector {
    return (options, callback) => {
      this.#direct.add(`${options.protocol}//${options.host ?? ''}`)
      connect(options, callback)
    }
  }

  /** The proxy between here and `url`; undefined: none. */
  onTheWayTo(url: string): Proxy | undefined {
    const { protocol, origin } = new URL(url)
    if (this.#direct.has(origin)) return undefined
    const { https, http } = this.#settings
    const variable = protocol === 'https:' && https ? 'HTTPS_PROXY' : 'HTTP_PROXY'
    const text = variable === 'HTTPS_PROXY' ? https : http
    return text && isAddress(text) ? { variable, at: hostPort(addressOf(text)) } : undefined
  }
}
