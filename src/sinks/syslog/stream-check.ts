// Whether a receiver behind TCP or TLS is there: a connection that lasts a moment. Sends nothing.
import { ConnectorError } from '../../model/errors.ts'
import type { CheckResult } from '../../model/sink.ts'
import type { Connection } from '../../model/socket.ts'
import { CONNECT_MS, PROOF_MS, type SessionOptions } from './session.ts'

/** Undefined: it stays, and nothing is what a receiver that is well says. */
async function endOf(connection: Connection, where: string, until: AbortSignal): Promise<Error | undefined> {
  try {
    while (await connection.read(until));
    return new ConnectorError('unreachable', `${where} took the connection and closed it at once`)
  } catch (error) {
    if (!(error instanceof ConnectorError)) throw error
    return error.code === 'aborted' ? undefined : error
  }
}

/** Throws ConnectorError where it does not take a connection, or ends it at once. */
export async function probeStream<T>(
  { where, to, tls, deps }: SessionOptions,
  signal: AbortSignal,
  use: (connection: Connection) => T,
): Promise<T> {
  const enough = new AbortController()
  let connection: Connection | undefined
  try {
    connection = await deps.connect(to, tls, CONNECT_MS, signal)
    void deps.clock.sleep(PROOF_MS, enough.signal).then(() => enough.abort())
    const fault = await endOf(connection, where, AbortSignal.any([signal, enough.signal]))
    if (fault) throw fault
    return use(connection)
  } finally {
    enough.abort()
    connection?.destroy()
  }
}

/** Never throws. */
export async function checkStream(
  options: SessionOptions,
  signal: AbortSignal,
): Promise<readonly CheckResult[]> {
  const { where, tls, expiry } = options
  const what = `${where} ${tls ? 'TLS' : 'TCP'}`
  try {
    const ends = await probeStream(options, signal, (connection) => expiry.results(connection))
    const word = 'takes the connection; what is sent over it nobody confirms (assurance: sent)'
    return [{ what, ok: true, message: word }, ...ends]
  } catch (error) {
    const message = error instanceof ConnectorError ? error.message : 'could not be asked'
    return [{ what, ok: false, message }]
  }
}
