// Three replicas as processes, and what can happen to them and to their database: each entry arrives, at S3 once, at HEC
// at most one batch more for each takeover, and no key is asked more often than it may.
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { buildProgram } from '../e2e/built.ts'
import type { Built } from '../e2e/built.ts'
import { roundsOf } from '../rounds.ts'
import { dice } from '../simulation/random.ts'
import { startPair } from './pair.ts'
import type { Pair } from './pair.ts'
import { BATCH, SHARDS, openReplicaStage } from './replica-stage.ts'
import type { Replica, ReplicaStage } from './replica-stage.ts'
import { noPostgres } from './server.ts'

/** AUDITFERRY_REPLICA_ROUNDS and AUDITFERRY_REPLICA_LEASE: more rounds, and another lease (ms). */
const ALL_ROUNDS = Number(process.env['AUDITFERRY_REPLICA_ROUNDS'] ?? 7)
const rounds = roundsOf([...Array(ALL_ROUNDS).keys()], 1)
const LEASE_MS = Number(process.env['AUDITFERRY_REPLICA_LEASE'] ?? 3_000)
/** What a takeover may take: the rest of the lease, a turn for each shard, and the journal's opening. */
const TAKEOVER_MS = LEASE_MS + 5_000 + 60_000
/** For what waits for a free request in the end, and to read the bucket. */
const PATIENCE_MS = 120_000 + rounds.length * 2_000

const why = noPostgres()
if (why !== undefined) it.skip(`skipped: ${why}`, () => undefined)

let built: Built
let database: Pair
let stage: ReplicaStage

beforeAll(async () => {
  if (why !== undefined) return
  built = await buildProgram()
  database = await startPair()
  stage = await openReplicaStage(database, built.main, LEASE_MS)
}, 120_000)

afterAll(async () => {
  if (why !== undefined) return
  await stage.close()
  await database.close()
  built.remove()
}, 60_000)

const kinds = ['kill', 'freeze', 'cut', 'database', 'restart', 'failover'] as const
/** The cuts of a network come one after the other. */
const kindOf = (round: number) => {
  const kind = kinds[round % kinds.length] ?? 'kill'
  const cut = stage.cuts[Math.floor(round / kinds.length) % stage.cuts.length] ?? 'refused'
  return { kind, cut, name: kind === 'cut' ? `cut (${cut})` : kind }
}
type Kind = ReturnType<typeof kindOf>

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
async function suffer({ kind, cut }: Kind, replica: Replica): Promise<number | undefined> {
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
    await replica.network.cut(cut)
    took = await takenOverFrom(holder)
    await replica.network.heal()
  } else if (kind === 'database') {
    await database.crash()
    await stage.untilRenewed()
  } else if (kind === 'failover') {
    await database.failOver()
    await Promise.all(stage.replicas.map(({ network }) => network.turn(database.primary)))
    await stage.untilRenewed()
  } else
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
    'lose nothing when they are killed, frozen, cut off or restarted, or their database dies or fails over',
    async () => {
      const roll = dice(20_261_127)
      const took: number[] = []
      const done: string[] = []
      await balanced()
      for (const round of rounds) {
        const kind = kindOf(round)
        const ms = await suffer(kind, roll.pick(stage.replicas)).catch((error: unknown) => {
          throw new Error(`round ${round}, ${kind.name}`, { cause: error })
        })
        if (ms !== undefined) took.push(ms)
        done.push(kind.name)
        await sleep(roll.below(1_000))
      }
      stage.stopTraffic()
      await stage.until(() => stage.delivered(), 'every entry at both receivers', PATIENCE_MS)
      const { twiceAtHec, ...verdict } = await stage.judge()
      expect(verdict).toEqual({ lost: 0, twiceAtS3: 0, overLimit: 0 })
      const acquired = await stage.acquired()
      const deaths = done.filter((name) => name === 'database' || name === 'failover').length
      expect(twiceAtHec).toBeLessThanOrEqual(BATCH * (acquired + SHARDS * deaths))
      took.sort((one, other) => one - other)
      const counts = [...Map.groupBy(done, (name) => name)].map(([name, all]) => `${all.length} ${name}`)
      process.stdout.write(
        `${rounds.length} rounds (${counts.join(', ')}): ` +
          `takeover in ${took[took.length >> 1]} ms (median), ${took.at(-1)} ms (worst) with a lease of ${LEASE_MS} ms; ` +
          `${acquired} acquisitions, ${twiceAtHec} entries twice at HEC; with PostgreSQL and its standby, ${stage.servers}\n`,
      )
    },
    (rounds.length + 2) * (TAKEOVER_MS + 60_000) + PATIENCE_MS,
  )
})
