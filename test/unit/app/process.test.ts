// The shards of one replica over a database of the test: the journal of each shard is a file, its
// lease an entry in memory.
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { Shards } from '../../../src/app/process.ts'
import type { SharedByReplicas } from '../../../src/app/process.ts'
import { configSchema } from '../../../src/config/schema.ts'
import type { Journal } from '../../../src/contracts/journal.ts'
import { ConnectorError } from '../../../src/core/errors.ts'
import { newAssignments } from '../../../src/journal/postgres/assignment.ts'
import { openJournal } from '../../../src/journal/sqlite/open.ts'
import { withMethods } from '../../fakes/with-methods.ts'
import { acceptAll, openDaemonRig, until } from './daemon-rig.ts'

let rig: ReturnType<typeof openDaemonRig>
let shards: Shards
let run: Promise<void>
/** by shard: who holds it */
let holders: Map<number, string>
/** of other replicas */
let live: string[]
/** what each call of the database throws; undefined: it answers */
let fault: ConnectorError | undefined
/** what opening a shard throws */
let noRoom: ConnectorError | undefined
/** by shard: what its journal throws at each append and read; undefined: it works */
let broken: Map<number, ConnectorError>
let reports: { shard: number; ageMs: number; holder: string; report: string }[]
let questions: { id: number; shard: number; question: string; body: string }[]
let answers: [id: number, text: string][]

const replicas = (): SharedByReplicas => {
  const answering = async <T>(result: T): Promise<T> => {
    if (fault) throw fault
    return result
  }
  return {
    holder: 'me',
    assign: (groups, most) => answering(newAssignments(groups, new Map(), most)),
    view: () =>
      answering({
        live: ['me', ...live],
        shards: [...holders].map(([shard, holder]) => ({
          ...{ shard, holder, lapsed: false, epoch: 4, since: 0, takeovers: 1 },
        })),
      }),
    report: (shard, report) => answering(void reports.push({ shard, report, holder: 'me', ageMs: 0 })),
    reports: (of) => answering(reports.filter(({ shard }) => of.includes(shard))),
    questions: (of) => answering(questions.splice(0).filter(({ shard }) => of.includes(shard))),
    answer: async (id, { bytes }) => void answers.push([id, Buffer.from(bytes).toString()]),
  }
}

async function acquire(shard: number): Promise<Journal | undefined> {
  const refusal = fault ?? noRoom
  if (refusal) throw refusal
  if (holders.has(shard)) return undefined
  const journal = await openJournal({
    ...{ path: join(rig.folder, `${shard}.db`), maxBytes: 2 ** 20, ballastBytes: 0 },
    ...{
      clock: rig.clock,
      log: rig.environment.log,
      keepKeysMs: 35 * 86_400_000,
      keepDeliveredBytes: 2 ** 20,
    },
    maxEntryBytes: 2 ** 16,
  })
  holders.set(shard, 'me')
  return withMethods(journal, {
    take: async (...of: Parameters<Journal['take']>) => {
      const error = broken.get(shard)
      if (error) throw error
      return journal.take(...of)
    },
    close: async () => {
      holders.delete(shard)
      await journal.close()
    },
  })
}

function start(): void {
  const config = configSchema.parse({
    journal: { postgres: { url: 'postgres://daemon@db.example.com/audit' } },
    workspaces: ['acme', 'globex'].map((name) => ({
      ...{ name, base_url: 'https://api.example.com', api_key: `acme-key` },
      ...(name === 'globex' && { base_url: 'https://other.example.com' }),
      audit: { interval: '1s', lookback: '0s' },
    })),
    sinks: [
      { name: 'siem', type: 'splunk_hec', url: 'https://siem.example.com:8088', token: 'planted-token' },
    ],
  })
  shards = new Shards({
    ...{ config, environment: rig.environment, shards: 2, replicas: replicas(), store: { acquire } },
    answer: async (app, { question }) => ({
      status: 200,
      bytes: Buffer.from(`${question} of ${app.config.workspaces[0]?.name}`),
    }),
  })
  run = shards.run()
  run.catch(() => undefined)
}

const isHolding = (count: number) => () => shards.held.size === count
const said = (words: string) => rig.lines.filter(({ sentence }) => sentence.includes(words))

beforeEach(() => {
  holders = new Map()
  live = []
  fault = undefined
  noRoom = undefined
  broken = new Map()
  reports = []
  questions = []
  answers = []
  rig = openDaemonRig({ receiver: acceptAll })
  start()
})
afterEach(async () => {
  await shards.stop()
  rig.remove()
})

describe('a replica', () => {
  test('takes every free shard, each with its own workspaces, and frees all of them at a stop', async () => {
    await until(isHolding(2), 'both shards')
    const names = [...shards.held.values()].map(({ config }) => config.workspaces.map(({ name }) => name))
    expect(names.toSorted()).toEqual([['acme'], ['globex']])
    expect(
      said('Started')
        .map(({ fields }) => fields['shard'])
        .toSorted(),
    ).toEqual([1, 2])
    await shards.stop()
    await run
    expect([...holders]).toEqual([])
  })

  test('frees a shard for one that has none, keeps its counters, and shows the last report of the shard', async () => {
    await until(isHolding(2), 'both shards')
    const accepted = async () =>
      Number(
        /sink_entries_total\{sink="siem",outcome="accepted"\} (\d+)/.exec(await shards.metrics.render())?.[1],
      )
    await expect.poll(accepted).toBe(40)
    live = ['other']
    await until(isHolding(1), 'the release')
    expect(await accepted()).toBe(40)
    const [freed] = [1, 2].filter((shard) => !shards.held.has(shard))
    holders.set(freed ?? 0, 'other')
    await until(
      () => shards.registry.status().shards?.some(({ holder }) => holder === 'other') === true,
      'its new holder in the status',
    )
    const { workspaces, shards: all } = shards.registry.status()
    expect(workspaces.map(({ name }) => name)).toEqual(['acme', 'globex'])
    expect(workspaces.filter(({ replica }) => replica === 'other')).toHaveLength(1)
    expect(all?.find(({ here }) => !here)).toMatchObject({ shard: freed, epoch: 4, takeovers: 1 })
  })

  test('loses one shard and works on with the others; it takes it again when it is free', async () => {
    await until(isHolding(2), 'both shards')
    broken.set(1, new ConnectorError('lease_lost', 'This process no longer holds shard 1'))
    rig.mock.add({})
    await until(isHolding(1), 'the loss')
    expect([...shards.held.keys()]).toEqual([2])
    broken.clear()
    await until(isHolding(2), 'the shard again')
  })

  test('ends with an error that waiting cannot fix', async () => {
    await until(isHolding(2), 'both shards')
    const corrupt = new ConnectorError('journal_corrupt', 'damaged')
    broken.set(2, corrupt)
    rig.mock.add({})
    await expect(run).rejects.toBe(corrupt)
  })

  test('that cannot open a shard counts as one that cannot work, and tries again', async () => {
    await shards.stop()
    noRoom = new ConnectorError('store_unavailable', 'too many connections')
    start()
    expect(shards.isWell).toBe(true)
    await until(() => !shards.isWell, 'the failure')
    noRoom = undefined
    await until(isHolding(2), 'both shards')
    await until(() => shards.isWell, 'the end of that minute')
  })

  test('answers the questions about its shards', async () => {
    await until(isHolding(2), 'both shards')
    questions.push({ id: 7, shard: 2, question: 'POST /counts', body: '{}' })
    const [name] = shards.held.get(2)?.config.workspaces.map((each) => each.name) ?? []
    await until(() => answers.length > 0, 'an answer')
    expect(answers).toEqual([[7, `POST /counts of ${name}`]])
  })
})

async function startWithoutDatabase(): Promise<void> {
  await shards.stop()
  fault = new ConnectorError(
    'store_unavailable',
    'PostgreSQL at db:5432/audit is not available: ECONNREFUSED',
  )
  start()
  const warning =
    'The database of the journal does not answer: this replica stops reading and delivering when its leases end. It is asked again; no restart is needed'
  await until(() => said(warning).length === 1, 'a word')
}

test('a database that does not answer at the start is asked again; the status says so, no probe fails', async () => {
  await startWithoutDatabase()
  const { ok, summary, workspaces } = shards.registry.status()
  expect({ ok, workspaces, alive: await shards.alive() }).toEqual({ ok: false, workspaces: [], alive: true })
  expect(summary).toMatch(/^PostgreSQL at db:5432\/audit is not available: ECONNREFUSED/)
  fault = undefined
  await until(isHolding(2), 'both shards')
  expect(said('The database of the journal answers again')).toHaveLength(1)
  await until(() => shards.registry.status().ok, 'a good status')
})

test('a stop is logged if no shard is held, too', async () => {
  await startWithoutDatabase()
  const before = said('Stopping: this replica holds no shard').length
  await shards.stop()
  expect(said('Stopping: this replica holds no shard')).toHaveLength(before + 1)
})
