// One connection to PostgreSQL: opened when needed, used by one task at a time, closed on any error.
// Nothing on it outlives a transaction, so that it may go through a pooler.
import type { ConnectionOptions } from 'node:tls'
import { Client, DatabaseError, TypeOverrides, types as pgTypes } from 'pg'
import type { QueryResult } from 'pg'
import { ConnectorError, errnoOf } from '../../core/errors.ts'
import { addressOf, credentialsOf, databaseText } from './address.ts'
import type { DatabaseAddress } from './address.ts'

export interface PostgresSettings {
  /**
   * postgres://user:password@host:port/database; `?host=/folder` for a socket of this machine. User
   * and password are taken from it for each new connection, since they rotate.
   */
  readonly url: string
  /** asked for each new connection; absent: no TLS */
  readonly tls?: (() => Promise<ConnectionOptions>) | undefined
}

/** Rows of a query. A bigint is a number, and refused if a number cannot hold it. */
export interface Queries {
  readonly query: <Row>(text: string, values?: readonly unknown[]) => Promise<Row[]>
}

const CONNECT_MS = 10_000
const GOODBYE_MS = 1_000
/** For the server; the client waits a little longer before it gives the connection up. */
const STATEMENT_MS = 30_000
const QUERY_MS = STATEMENT_MS + 5_000
/** A connection whose other end is gone without a word is found dead within twice this time. */
const KEEP_ALIVE_MS = 10_000

/** An open connection. Any failure other than a refused statement closes it. */
export class Session implements Queries {
  readonly #client: Client
  readonly #where: string
  #closed = false

  constructor(client: Client, where: string) {
    this.#client = client
    this.#where = where
    const closed = () => void (this.#closed = true)
    client.on('error', closed)
    client.on('end', closed)
  }

  get isOpen(): boolean {
    return !this.#closed
  }

  async open(): Promise<void> {
    try {
      await this.#client.connect()
    } catch (error) {
      throw unavailable(this.#where, reasonOf(error), error)
    }
  }

  async query<Row>(text: string, values: readonly unknown[] = []): Promise<Row[]> {
    const timer = setTimeout(() => this.close(), QUERY_MS)
    try {
      return (await this.#send(text, values)).rows as Row[]
    } finally {
      clearTimeout(timer)
    }
  }

  /**
   * True: it landed. False: it was rolled back. Anything thrown: unknown. There is no timeout, since
   * a COMMIT that is cancelled while it waits for a standby has landed, but not safely.
   */
  async commit(): Promise<boolean> {
    return (await this.#send('COMMIT', [])).command === 'COMMIT'
  }

  /** Says goodbye, if the other end listens. */
  async end(): Promise<void> {
    this.#closed = true
    const timer = setTimeout(() => this.close(), GOODBYE_MS)
    await this.#client.end()
    clearTimeout(timer)
  }

  /** At once, whatever the other end does. */
  close(): void {
    this.#closed = true
    this.#client.connection.stream.destroy()
  }

  async #send(text: string, values: readonly unknown[]): Promise<QueryResult> {
    try {
      // Without values the text may hold several statements.
      return await this.#client.query(text, values.length === 0 ? undefined : [...values])
    } catch (error) {
      if (!isRefusal(error)) this.close()
      throw translate(error, this.#where)
    }
  }
}

export class Connection {
  readonly where: string
  readonly #settings: PostgresSettings
  readonly #address: DatabaseAddress
  #session: Session | undefined
  #turn: Promise<unknown> = Promise.resolve()

  constructor(settings: PostgresSettings) {
    this.#settings = settings
    this.#address = addressOf(settings.url)
    this.where = databaseText(this.#address)
  }

  /** Runs `work` behind all that was called before it. */
  inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#turn.then(work)
    this.#turn = turn.catch(() => undefined)
    return turn
  }

  /** As `inTurn`, with an open session. */
  use<T>(work: (session: Session) => Promise<T>): Promise<T> {
    return this.inTurn(async () => work(await this.session()))
  }

  /** Call in turn. `first` is done with a new session before anything else. */
  async session(first?: (session: Session) => Promise<void>): Promise<Session> {
    if (this.#session?.isOpen === true) return this.#session
    const session = (this.#session = await this.#made())
    try {
      await session.open()
      await assertWritable(session, this.where)
      await first?.(session)
    } catch (error) {
      session.close()
      throw error
    }
    return session
  }

  /** Gives the session up at once: what is under way on it fails. */
  drop(): void {
    this.#session?.close()
  }

  async end(): Promise<void> {
    await this.inTurn(async () => {
      if (this.#session?.isOpen === true) await this.#session.end()
    })
  }

  async #made(): Promise<Session> {
    const { url, tls } = this.#settings
    const { user, password } = credentialsOf(url)
    const client = new Client({
      ...this.#address,
      user,
      // Without one, an empty text would mean the variable PGPASSWORD.
      password: () => password,
      ssl: tls === undefined ? false : await this.#secured(tls),
      types: numbers,
      application_name: 'auditferry',
      connectionTimeoutMillis: CONNECT_MS,
      keepAlive: true,
      keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
    })
    return new Session(client, this.where)
  }

  async #secured(tls: () => Promise<ConnectionOptions>): Promise<ConnectionOptions> {
    try {
      return { ...(await tls()), rejectUnauthorized: true }
    } catch (error) {
      if (error instanceof ConnectorError) throw unavailable(this.where, error.message, error)
      throw error
    }
  }
}

const numbers = new TypeOverrides()
numbers.setTypeParser(pgTypes.builtins.INT8, safeInteger)

function safeInteger(text: string): number {
  const value = Number(text)
  if (Number.isSafeInteger(value)) return value
  throw new ConnectorError(
    'journal_corrupt',
    'PostgreSQL returned a number beyond 2^53, which no journal holds',
  )
}

async function assertWritable(session: Session, where: string): Promise<void> {
  const [server] = await session.query<{ standby: boolean; readOnly: boolean }>(
    `SELECT pg_is_in_recovery() AS standby, current_setting('transaction_read_only') = 'on' AS "readOnly"`,
  )
  if (server?.standby === true) throw unavailable(where, 'it is a standby server: set the URL to the primary')
  if (server?.readOnly === true)
    throw unavailable(where, 'it accepts no writes (default_transaction_read_only is on)')
}

/**
 * Begins a transaction whose settings end with it. Under another isolation level than READ
 * COMMITTED the fencing statement would fail instead of waiting.
 */
export const beginning = (idleMs: number) =>
  `BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL synchronous_commit = on; SET LOCAL jit = off;
   SET LOCAL statement_timeout = ${STATEMENT_MS}; SET LOCAL lock_timeout = ${idleMs};
   SET LOCAL idle_in_transaction_session_timeout = ${idleMs}`

// Errors. A message of PostgreSQL may quote a value, so only its code and names are passed on.

/** The server refused the statement, and the session can go on. */
const isRefusal = (error: unknown) =>
  error instanceof ConnectorError ||
  (error instanceof DatabaseError && !/^(08|57P|58|XX|25P0[34])/.test(error.code ?? ''))

export function unavailable(where: string, why: string, cause?: unknown): ConnectorError {
  return new ConnectorError('store_unavailable', `${where} is not available: ${why}`, { cause })
}

const reasonOf = (error: unknown): string =>
  error instanceof DatabaseError
    ? `SQLSTATE ${error.code ?? 'unknown'}`
    : errnoOf(error, error instanceof Error ? error.message : 'unknown')

/** Errors that are neither of the server's state nor of the schema are bugs. */
function translate(error: unknown, where: string): unknown {
  if (error instanceof ConnectorError) return error
  if (!(error instanceof DatabaseError)) return unavailable(where, reasonOf(error), error)
  const { code = '', table = '', constraint = '' } = error
  if (code === '53100')
    return new ConnectorError('disk_full', `The disk of ${where} is full: free space there`)
  if (code === '25006') return unavailable(where, 'it accepts no writes now')
  if (/^(XX001|XX002)/.test(code))
    return new ConnectorError(
      'journal_corrupt',
      `${where} reports damaged data (SQLSTATE ${code}): restore it from a backup`,
    )
  if (/^(42501|42P01|3F000)/.test(code))
    return new ConnectorError(
      'config_invalid',
      `${where} refuses a table of the journal (SQLSTATE ${code}): run "auditferry journal migrate" with this role as the runtime role`,
    )
  if (/^(08|28|40|53|55|57|58|25P|XX)/.test(code)) return unavailable(where, reasonOf(error))
  return new Error(`PostgreSQL refused a statement: SQLSTATE ${code} ${table} ${constraint}`)
}
