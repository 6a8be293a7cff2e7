// A primary and its synchronous standby, which can replace it and then gets a standby of its own.
import { startPostgres } from './server.ts'
import type { PostgresServer } from './server.ts'

export interface Pair {
  /** the present one */
  readonly primary: PostgresServer
  /** The primary dies and recovers. */
  crash(): Promise<void>
  /** The primary dies for good, and the standby is promoted. */
  failOver(): Promise<void>
  close(): Promise<void>
}

export async function startPair(): Promise<Pair> {
  let primary = await startPostgres({ loopback: true })
  let standby = followed(primary)
  return {
    get primary() {
      return primary
    },
    async crash() {
      await standby
      await primary.crash()
    },
    async failOver() {
      const [before, next] = [primary, await standby]
      await before.untilInSync()
      await before.kill()
      await next.query('SELECT pg_promote()')
      primary = next
      // Made while the test goes on.
      standby = followed(next)
      await before.stop()
    },
    async close() {
      await (await standby).stop()
      await primary.stop()
    },
  }
}

function followed(primary: PostgresServer): Promise<PostgresServer> {
  const standby = primary.standby()
  // The call that awaits it gets the error.
  standby.catch(() => undefined)
  return standby
}
