// The URL of a PostgreSQL database, taken apart. Its faults are found when the configuration is read.

/** Names go into statements, which cannot take them as values. */
export const plainName = /^[a-z_][a-z0-9_]{0,50}$/

export interface DatabaseAddress {
  /** a host, or the folder of a socket of this machine */
  readonly host: string
  readonly port: number
  readonly database: string
}

interface Credentials {
  readonly user: string
  readonly password: string
}

/** Why this program cannot use the URL; undefined: it can. Never quotes it, since it is a secret. */
export function urlFault(text: string): string | undefined {
  if (!/^postgres(?:ql)?:\/\//.test(text) || !URL.canParse(text))
    return 'is not a URL of PostgreSQL: expected postgres://user:password@host:5432/database, with %40 for an @ in the password'
  const { username, pathname, hostname, searchParams, hash } = new URL(text)
  if ([...searchParams.keys()].some((key) => key !== 'host') || hash !== '')
    return 'has parameters: only ?host=/folder of a socket is read here, and TLS is set by the key tls beside it'
  try {
    const { host, port, database } = addressOf(text)
    const { password } = credentialsOf(text)
    if ([host, database, password].some((part) => part.includes('\0')))
      return 'has a NUL character (%00) in it'
    if (username === '') return 'names no user: expected postgres://user:password@host:5432/database'
    if (database === '' || pathname.indexOf('/', 1) > 0)
      return 'names no database: expected postgres://user:password@host:5432/database'
    if (hostname === '' || host === '')
      return 'names no host: expected postgres://user:password@host:5432/database'
    return port > 0 ? undefined : 'names port 0: nothing can listen there'
  } catch {
    return 'has a % that begins no character: write %25 for a % in the password'
  }
}

export function addressOf(text: string): DatabaseAddress {
  const { hostname, port, pathname, searchParams } = new URL(text)
  return {
    host: searchParams.get('host') ?? decodeURIComponent(hostname).replace(/^\[(.*)\]$/, '$1'),
    port: port === '' ? 5432 : Number(port),
    database: decodeURIComponent(pathname.slice(1)),
  }
}

export function credentialsOf(text: string): Credentials {
  const { username, password } = new URL(text)
  return { user: decodeURIComponent(username), password: decodeURIComponent(password) }
}

/** For messages and the log: never the password. */
export const databaseText = ({ host, port, database }: DatabaseAddress): string =>
  `PostgreSQL at ${host.includes(':') ? `[${host}]` : host}:${port}/${database}`
