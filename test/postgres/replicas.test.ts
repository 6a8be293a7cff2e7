// Three replicas as processes, and whatever can happen to them: each entry arrives, at S3 once, at HEC
// at most one batch more for each takeover, and no key is asked more often than it may.
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { buildProgram } from '../e2e/built.ts'
import type { Built } from '../e2e/built.ts'
import { roundsOf } from '../rounds.ts'
import { dice } from '../simulation/random.ts'
import { BATCH, SHARDS, openReplicaStage } from './replica-stage.ts'
import type { Replica, ReplicaStage } from './replica-stage.ts'
import { noPostgres, startPostgres } from './server.ts'
import type { PostgresServer } from './server.ts'

/** AUDITFERRY_REPLICA_ROUNDS and AUDITFERRY_REPLICA_LEASE: more rounds, and another lease (ms). */
const ALL_ROUNDS = Number(process.env['AUDITFERRY_REPLICA_ROUNDS'] ?? 6)
const rounds = roundsOf([...Array(ALL_ROUNDS).keys()], 1)
const LEASE_MS = Number(process.env['AUDITFERRY_REPLICA_LEASE'] ?? 3_000)
/** What a takeover may take: the rest of the lease, a turn for each shard, and the journal's opening. */
const TAKEOVER_MS = LEASE_MS + 5_000 + 60_000

const why = noPostgres()
if (why !== undefined) it.skip(`skipped: ${why}`, () => undefined)

let built: Built
let server: PostgresServer
let stage: ReplicaStage

beforeAll(async () => {
  if (why !== undefined) return
  built = await buildProgram()
  server = await startPostgres()
  stage = await openReplicaStage(server, built.main, LEASE_MS)
}, 120_000)

afterAll(async () => {
  if (why !== undefined) return
  await stage.close()
  await server.stop()
  built.remove()
}, 60_000)

const kinds = ['kill', 'freeze', 'cut', 'database', 'restart'] as const
type Kind = (typeof kinds)[number]

/** Until the others hold every shard. Resolves with the ms that it took. */
function takenOverFrom(holder: string | undefined): Promise<number> {
  return stage.until(
    async () => {
      const holders = await stage.holders()
      return holders.length === SHARDS && !holders.includes(holder ?? '')
    },
    'the others to hold every shard',
    TAKEOVER_MS,
  )
}

function balanced(): Promise<number> {
  return stage.until(async () => {
    const holders = await stage.holders()
    const counts = stage.replicas.map(
      (replica) => holders.filter((holder) => holder === stage.holderOf(replica)).length,
    )
    return counts.every((count) => count === SHARDS / stage.replicas.length)
  }, 'equally many shards for each replica')
}

/** Resolves with the ms of the takeover, if there was one. */
async function suffer(kind: Kind, replica: Replica): Promise<number | undefined> {
  const holder = stage.holderOf(replica)
  let took: number | undefined
  if (kind === 'kill') {
    replica.child.kill('SIGKILL')
    took = await takenOverFrom(holder)
    stage.start(replica)
  } else if (kind === 'freeze') {
    replica.child.kill('SIGSTOP')
    took = await takenOverFrom(holder)
    replica.child.kill('SIGCONT')
  } else if (kind === 'cut') {
    replica.network.refuse()
    took = await takenOverFrom(holder)
    replica.network.heal()
  } else if (kind === 'database') await server.crash()
  else
    for (const each of stage.replicas) {
      each.child.kill('SIGTERM')
      expect(await each.child.ended, each.child.stderr().slice(-2_000)).toEqual({ code: 0, signal: null })
      stage.start(each)
      await stage.until(() => stage.holderOf(each) !== undefined, 'the new process')
    }
  await balanced()
  return took
}

describe.skipIf(why !== undefined)('three replicas', () => {
  it(
    'lose nothing when they are killed, frozen, cut off or restarted, or their database dies',
    async () => {
      const roll = dice(20_261_127)
      const took: number[] = []
      let crashes = 0
      await balanced()
      for (const round of rounds) {
        const kind = kinds[round % kinds.length] ?? 'kill'
        const ms = await suffer(kind, roll.pick(stage.replicas))
        if (ms !== undefined) took.push(ms)
        if (kind === 'database') crashes++
        await sleep(roll.below(1_000))
      }
      stage.stopTraffic()
      await stage.until(() => stage.delivered(), 'every entry at both receivers', 120_000)
      const { twiceAtHec, ...verdict } = stage.judge()
      expect(verdict).toEqual({ lost: 0, twiceAtS3: 0, overLimit: 0 })
      const acquired = await stage.acquired()
      expect(twiceAtHec).toBeLessThanOrEqual(BATCH * (acquired + SHARDS * crashes))
      took.sort((one, other) => one - other)
      process.stdout.write(
        `${rounds.length} rounds: takeover in ${took[took.length >> 1]} ms (median), ${took.at(-1)} ms (worst) with a lease of ${LEASE_MS} ms; ` +
          `${acquired} acquisitions, ${twiceAtHec} entries twice at HEC\n`,
      )
    },
    (rounds.length + 2) * (TAKEOVER_MS + 60_000),
  )
})
