// Several shards that a command sees as one: lists and counts put together, steps that name one.
import { describe, expect, it } from 'vitest'
import type { Compared } from '../../../src/contracts/jobs.ts'
import type { ReplayQuery } from '../../../src/contracts/journal.ts'
import { shardsAsOne } from '../../../src/control/shards.ts'
import type { ShardClient } from '../../../src/control/shards.ts'
import { ConnectorError } from '../../../src/core/errors.ts'

const stream = (workspace: string) => ({ workspace, source: 'audit' }) as const

/** One that answers only what the test gives. */
const client = (answers: Record<string, unknown>) => answers as unknown as ShardClient

const asOne = (clients: Record<number, Record<string, unknown>>, places: Record<string, number> = {}) =>
  shardsAsOne({
    all: () => new Map(Object.entries(clients).map(([shard, answers]) => [Number(shard), client(answers)])),
    shardOf: (workspace) => places[workspace],
  })

describe('lists and counts of all shards', () => {
  it('are put together: lists by id up to the limit, counts as sums, bytes from the shard that has them', async () => {
    const shard = (ids: number[], dropped: number) => ({
      deadLetters: async () => ids.map((id) => ({ id })),
      deadLetterRaw: async (id: number) => (ids.includes(id) ? Buffer.from(`raw ${id}`) : undefined),
      dropDeadLetters: async () => dropped,
      retry: async () => ({ count: dropped, left: [{ sink: 'siem', why: 'types', count: dropped }] }),
    })
    const { journal, retry } = asOne({ 1: shard([2, 7], 1), 3: shard([1, 5], 4) })
    expect((await journal.deadLetters({ limit: 3 })).map(({ id }) => id)).toEqual([1, 2, 5])
    expect(String(await journal.deadLetterRaw(5))).toBe('raw 5')
    expect(await journal.deadLetterRaw(9)).toBeUndefined()
    expect(await journal.dropDeadLetters({})).toBe(5)
    expect(await retry({})).toEqual({ count: 5, left: [{ sink: 'siem', why: 'types', count: 5 }] })
  })

  it('are refused as a whole if one shard does not answer, or none is known yet', async () => {
    const silent = new ConnectorError('unreachable', 'Replica b holds shard 3 and did not answer')
    const { journal } = asOne({
      1: { counts: async () => ({}) },
      3: { counts: () => Promise.reject(silent) },
    })
    await expect(journal.counts({ fromDay: 0, toDay: 1 })).rejects.toBe(silent)
    await expect(asOne({}).journal.deadLetters({})).rejects.toMatchObject({ code: 'store_unavailable' })
  })
})

describe('steps over all shards', () => {
  it('go through one shard after the other, each from its own start', async () => {
    const asked: string[] = []
    const shard = (name: string, ...ends: number[]) => ({
      pending: async (_: string, after: number | undefined) => {
        asked.push(`${name} from ${after ?? 'its position'}`)
        const through = ends.find((end) => end > (after ?? 0)) ?? 0
        return { rows: [], through, more: through !== ends.at(-1) }
      },
    })
    const { journal } = asOne({ 2: shard('two', 10, 20), 64: shard('last', 2 ** 45) })
    let [after, more] = [undefined as number | undefined, true]
    while (more) {
      const step = await journal.pending('siem', after)
      expect(Number.isSafeInteger(step.through)).toBe(true)
      ;[after, more] = [step.through, step.more]
    }
    expect(asked).toEqual(['two from its position', 'two from 10', 'last from its position'])
  })

  it('of a replay keep the end that each shard gave its first step', async () => {
    const asked: unknown[] = []
    const shard = (name: string, end: number) => ({
      replay: async ({ after, until }: ReplayQuery) => {
        asked.push([name, after, until])
        return { entries: 1, through: after + 1, until: until ?? end, more: after + 1 < end }
      },
    })
    const { journal } = asOne({ 1: shard('one', 2), 2: shard('two', 1) }, { acme: 2 })
    const query = {
      ...{ sink: 'siem', fromUs: 0, toUs: 1, sources: [], runAt: 0, dryRun: true },
    }
    let at: Pick<ReplayQuery, 'after' | 'until'> = { after: 0, until: undefined }
    for (let more = true; more;) {
      const step = await journal.replay({ ...query, ...at })
      at = { after: step.through, until: step.until }
      more = step.more
    }
    expect(asked).toEqual([
      ['one', 0, undefined],
      ['one', 1, 2],
      ['two', 0, undefined],
    ])
    asked.length = 0
    await journal.replay({ ...query, workspace: 'acme', after: 0, until: undefined })
    expect(asked).toEqual([['two', 0, undefined]])
  })
})

describe('jobs', () => {
  const shard = (workspace: string, begun: unknown[]) => ({
    jobs: {
      origins: async () => [stream(workspace)],
      backfill: async () => (begun.push(workspace), [{ stream: stream(workspace) }]),
      replay: async ({ reads }: { reads: { stream: { workspace: string } }[] }) => {
        begun.push(`${workspace}: ${reads.map((read) => read.stream.workspace).join(' ')}`)
        return []
      },
      cancel: async () => 1,
      all: async () => [{ stream: stream(workspace) }],
    },
  })

  it('start in the shards that have a matching stream, and are listed and cancelled in all', async () => {
    const begun: unknown[] = []
    const { jobs } = asOne({ 1: shard('acme', begun), 2: shard('globex', begun) }, { acme: 1, globex: 2 })
    await jobs.backfill({ workspace: 'globex' }, { fromUs: 0, toUs: 1 })
    expect(begun.splice(0)).toEqual(['globex'])
    await jobs.backfill({}, { fromUs: 0, toUs: 1 })
    expect(begun.splice(0)).toEqual(['acme', 'globex'])
    const reads = ['globex', 'acme'].map((workspace) => ({ stream: stream(workspace), spans: [] }))
    await jobs.replay({ sink: 'siem', startedAt: 0, reads })
    expect(begun.splice(0)).toEqual(['globex: globex', 'acme: acme'])
    expect(await jobs.all('backfill')).toHaveLength(2)
    expect(await jobs.cancel('backfill', {})).toBe(2)
  })
})

it('a comparison is done when that of each shard is, and shows an error of any', async () => {
  const compared = (workspace: string, more: Partial<Compared>) => ({
    compare: async () => ({ streams: [{ stream: stream(workspace) }], isDone: true, ...more }),
  })
  const request = { job: 'one', fromUs: 0, toUs: 1 }
  const working = asOne({ 1: compared('acme', {}), 2: compared('globex', { isDone: false, atUs: 5 }) })
  expect(await working.comparing.compare(request)).toMatchObject({
    ...{ isDone: false, atUs: 5 },
    streams: [{ stream: stream('acme') }, { stream: stream('globex') }],
  })
  const error = { code: 'forbidden', message: 'no' } as const
  const failed = asOne({ 1: compared('acme', { error }), 2: compared('globex', {}) })
  expect(await failed.comparing.compare(request)).toMatchObject({ isDone: true, error })
})
