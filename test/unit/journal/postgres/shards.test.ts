// Which shard a workspace gets, and which replica holds a shard: decided without a database.
import { describe, expect, it, test } from 'vitest'
import { newAssignments } from '../../../../src/journal/postgres/assignment.ts'
import { turnOf } from '../../../../src/journal/postgres/balance.ts'

describe('the shard of a workspace', () => {
  const assign = (groups: string[][], assigned: Record<string, number> = {}, shards = 3) =>
    Object.fromEntries(newAssignments(groups, new Map(Object.entries(assigned)), shards))

  it('is the one with the fewest workspaces, the first of several', () => {
    expect(assign([['a'], ['b'], ['c'], ['d']])).toEqual({ a: 1, b: 2, c: 3, d: 1 })
  })

  it('is that of a workspace with the same key, since they share a rate limit', () => {
    expect(assign([['a', 'b'], ['c']])).toEqual({ a: 1, b: 1, c: 2 })
    expect(assign([['a', 'b', 'c']], { b: 3 })).toEqual({ a: 3, c: 3 })
  })

  it('stays what it is, also if there are fewer shards now', () => {
    expect(assign([['a'], ['b']], { a: 7, b: 7 }, 2)).toEqual({})
    expect(assign([['a'], ['b'], ['c']], { a: 7, b: 1 }, 2)).toEqual({ c: 2 })
  })

  it('cannot be two shards for one key: both workspaces are named', () => {
    expect(() => assign([['a', 'b']], { a: 1, b: 2 })).toThrow(/a and b have the same api_key.*\(1 and 2\)/)
  })
})

describe('a turn of a replica', () => {
  const held = (text: string) =>
    new Map(text.split(' ').flatMap((name, i) => (name === '-' ? [] : [[i + 1, name]])))
  // Holders of the shards 1, 2, …, "-" for a free one, and which replicas live.
  test.each([
    ['a lone replica takes a free shard', 'a - -', 'a', { action: 'acquire', shards: [2, 3] }],
    ['it keeps what it has', 'a a a', 'a', { action: 'nothing' }],
    ['two that are equal both try for a free shard', 'a b -', 'a b', { action: 'acquire', shards: [3] }],
    ['one that has more leaves a free shard to the other', 'a a b -', 'a b', { action: 'nothing' }],
    ['one that has fewer takes it', 'a b b -', 'a b', { action: 'acquire', shards: [4] }],
    [
      'a new replica gets a shard from the one that has all',
      'a a a a',
      'a b',
      { action: 'release', shards: [1, 2, 3, 4] },
    ],
    ['it frees no second one before the first is taken', 'a a a -', 'a b', { action: 'nothing' }],
    ['counts that differ by one stay', 'a a b', 'a b', { action: 'nothing' }],
    [
      'of two that have most, only the first frees one',
      'a a b b',
      'a b c',
      { action: 'release', shards: [1, 2] },
    ],
    ['the second keeps what it has', 'b b a a', 'a b c', { action: 'release', shards: [3, 4] }],
    ['a replica that holds fewer frees nothing', 'b b b a', 'a b c', { action: 'nothing' }],
    [
      'a shard of a replica that is gone is left to it while its lease lasts',
      'a x -',
      'a',
      { action: 'acquire', shards: [3] },
    ],
    [
      'a replica that does not see itself among the living still works',
      'a - -',
      '',
      { action: 'acquire', shards: [2, 3] },
    ],
  ] as const)('%s', (_, holders, live, turn) => {
    const all = held(holders)
    const mine = new Set([...all].filter(([, name]) => name === 'a').map(([shard]) => shard))
    const used = holders.split(' ').map((__, i) => i + 1)
    const holdings = { me: 'a', mine, used, live: live.split(' ').filter(Boolean), holders: all }
    expect(turnOf({ ...holdings, overdue: new Set() })).toEqual(turn)
  })

  it('takes a shard that stays free, also if others have fewer: they may be unable to', () => {
    const holders = new Map([
      [1, 'a'],
      [2, 'a'],
      [4, 'b'],
    ])
    const holdings = { me: 'a', mine: new Set([1, 2]), used: [1, 2, 3, 4, 5], live: ['a', 'b'], holders }
    expect(turnOf({ ...holdings, overdue: new Set([5]) })).toEqual({ action: 'acquire', shards: [5] })
  })

  it('leads to shares that differ by at most one, from any start, with each shard moving at most once more than needed', () => {
    const used = [1, 2, 3, 4, 5, 6, 7]
    const live = ['a', 'b', 'c']
    const holders = new Map<number, string>(used.map((shard) => [shard, 'a']))
    let moves = 0
    for (let step = 0; step < 40; step++) {
      const me = live[step % 3] ?? ''
      const mine = new Set(used.filter((shard) => holders.get(shard) === me))
      const turn = turnOf({ me, mine, used, live, holders, overdue: new Set() })
      if (turn.action === 'nothing') continue
      moves++
      const [shard = 0] = turn.shards
      if (turn.action === 'acquire') holders.set(shard, me)
      else holders.delete(shard)
    }
    const sizes = live.map((name) => used.filter((shard) => holders.get(shard) === name).length)
    expect(sizes.toSorted()).toEqual([2, 2, 3])
    expect(moves).toBe(8)
  })
})
