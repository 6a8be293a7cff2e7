// The network between each replica and the database: toxiproxy where it is installed, else our own proxy.
import { join } from 'node:path'
import { openToxiproxy, toxiproxyMissing } from '../integration/toxiproxy.ts'
import { startProxy } from './proxy.ts'
import type { PostgresServer } from './server.ts'

/**
 * How a network is cut:
 *
 *   refused      connections end, and new ones are refused
 *   timeout      nothing arrives, and nothing ends
 *   reset_peer   each connection is reset
 *   slow         each answer takes half of a lease, so that none is renewed in time
 */
type Cut = 'refused' | 'timeout' | 'reset_peer' | 'slow'

export interface Network {
  readonly url: string
  cut(how: Cut): Promise<void>
  heal(): Promise<void>
  /** New connections go to another server, and open ones are cut. */
  turn(server: PostgresServer): Promise<void>
  close(): Promise<void>
}

export interface Networks {
  /** what it is made of */
  readonly name: string
  readonly cuts: readonly Cut[]
  lay(server: PostgresServer, role: string): Promise<Network>
  close(): Promise<void>
}

export async function openNetworks(leaseMs: number): Promise<Networks> {
  if (toxiproxyMissing) return ownNetworks
  const toxiproxy = await openToxiproxy()
  return {
    name: 'toxiproxy',
    cuts: ['refused', 'timeout', 'reset_peer', 'slow'],
    async lay(server, role) {
      const line = await toxiproxy.lay(server.port)
      const inBoth = async (type: 'timeout' | 'reset_peer') => {
        for (const stream of ['upstream', 'downstream'] as const)
          await line.add({ type, stream, attributes: { timeout: 0 } })
      }
      return {
        url: `postgres://${role}@127.0.0.1:${line.port}/postgres`,
        async cut(how) {
          if (how === 'refused') await line.refuse()
          else if (how === 'slow')
            await line.add({ type: 'latency', stream: 'downstream', attributes: { latency: leaseMs / 2 } })
          else await inBoth(how)
        },
        heal: () => line.mend(),
        turn: ({ port }) => line.turn(port),
        close: async () => undefined,
      }
    },
    close: () => toxiproxy.close(),
  }
}

const socketOf = ({ folder, port }: PostgresServer) => join(folder, `.s.PGSQL.${port}`)

const ownNetworks: Networks = {
  name: 'our own proxy',
  cuts: ['refused'],
  async lay(server, role) {
    const proxy = await startProxy(socketOf(server), role)
    return {
      url: proxy.url,
      cut: async () => proxy.refuse(),
      heal: async () => proxy.heal(),
      turn: async (next) => proxy.turn(socketOf(next)),
      close: () => proxy.close(),
    }
  },
  close: async () => undefined,
}
