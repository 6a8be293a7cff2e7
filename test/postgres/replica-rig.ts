// What the replicas of a test share: one schema, the API of the mock, four workspaces, a receiver.
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Environment } from '../../src/app/environment.ts'
import { configSchema } from '../../src/config/schema.ts'
import type { Config } from '../../src/config/schema.ts'
import type { Transport } from '../../src/contracts/platform.ts'
import type { Clock } from '../../src/core/clock.ts'
import { ConnectorError } from '../../src/core/errors.ts'
import { migrate } from '../../src/journal/postgres/schema.ts'
import { openMock } from '../../src/mock/mock.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { disk } from '../../src/platform/disk.ts'
import { logOf } from '../contract/journal-parts.ts'
import { acceptAll, healthy, never, reply } from '../unit/app/daemon-rig.ts'
import type { PostgresServer } from './server.ts'

export const NAMES = ['acme', 'globex', 'initech', 'umbrella']
/** An entry of this type is refused. */
export const POISON = 'user:poison'

export const ROLE = 'daemon'

let schemas = 0

export type ReplicaRig = Awaited<ReturnType<typeof openReplicaRig>>

export async function openReplicaRig(server: PostgresServer) {
  const schema = `test_${++schemas}`
  // A role that may change no table.
  await server.query(`DO $$ BEGIN CREATE ROLE ${ROLE} LOGIN; EXCEPTION WHEN duplicate_object THEN END $$`)
  await migrate({ settings: { url: server.url() }, schema, runtimeRole: ROLE })
  const mock = openMock({
    ...{ clock: systemClock, traffic: { entriesPerHour: 0 }, limits: { audit: 0 } },
    ...{ switches: { self_audit: 'off' }, workspaces: NAMES.map((name) => ({ name })) },
  })
  /** request bodies that the receiver has accepted */
  const received: string[] = []
  const sentences: string[] = []
  let isPoisonous = true
  let isDown = false
  let isSilent = false
  let underWay = 0

  const receiver: Transport = async (request, signal) => {
    if (isSilent) {
      underWay++
      await once(signal, 'abort')
      underWay--
      throw new ConnectorError('unreachable', 'the request was cut')
    }
    const text = Buffer.from(request.body ?? []).toString()
    if (isDown) return reply(503, { text: 'Server is busy', code: 9 })
    const events = text.split('{"time":').slice(1)
    const poisoned = events.findIndex((event) => event.includes(POISON))
    if (isPoisonous && poisoned >= 0) {
      // Splunk has stored those before it.
      received.push(events.slice(0, poisoned).join('\n'))
      return reply(400, { text: 'Invalid data format', code: 6, 'invalid-event-number': poisoned })
    }
    received.push(text)
    return acceptAll(request, signal)
  }

  /** How often the receiver got each entry. */
  const copies = (): number[] => {
    const all = received.join('\n')
    return NAMES.flatMap((name) => mock.entries(name)).map(
      ({ id }) => all.split(`"entry_id":"${id}"`).length - 1,
    )
  }

  return {
    ...{ schema, mock, received, sentences, copies },
    heal: () => void (isPoisonous = false),
    /** The receiver takes nothing. */
    shut: (shut: boolean) => void (isDown = shut),
    /** The receiver answers no more. */
    silence: () => void (isSilent = true),
    /** requests that it has not answered */
    underWay: () => underWay,
    deliveredOnce: () => copies().every((count) => count === 1),
    addEntries(each = 5) {
      for (const name of NAMES) for (let i = 0; i < each; i++) mock.add({}, name)
    },
    config: (url = server.url(ROLE)): Config =>
      configSchema.parse({
        journal: { postgres: { url, schema, shards: 4, lease: '3s' } },
        server: { listen: '127.0.0.1:0' },
        workspaces: NAMES.map((name) => ({
          ...{ name, base_url: 'https://api.example.com', api_key: `${name}-key` },
          audit: { interval: '1s', lookback: '0s' },
          rate_limits: { audit: 3000 },
        })),
        sinks: [
          {
            ...{
              name: 'siem',
              type: 'splunk_hec',
              url: 'https://siem.example.com:8088',
              token: 'planted-token',
            },
            batch: { linger: '0s' },
          },
        ],
      }),
    environment(clock: Clock): Environment {
      const send: Transport = (request, signal) =>
        request.url.startsWith('https://siem')
          ? healthy(receiver)(request, signal)
          : mock.transport(request, signal)
      return {
        ...{ version: '0.0.0', clock, random: Math.random, log: logOf(sentences), disk },
        network: () => ({ send, close: async () => undefined }),
        ...{ connect: never, datagrams: never },
        print: async () => undefined,
        gzip: async (bytes) => bytes,
      }
    },
    async until(seen: () => boolean | Promise<boolean>, what: string, ms = 20_000): Promise<void> {
      const end = Date.now() + ms
      while (!(await seen())) {
        if (Date.now() > end)
          throw new Error(
            `waited in vain for: ${what} (copies: ${copies().join(' ')}); the log:\n${sentences.slice(-30).join('\n')}`,
          )
        await sleep(50)
      }
    },
  }
}
