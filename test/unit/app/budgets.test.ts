// Whose requests count together: the limit is the key's, whatever the workspaces are called (law 5).
import { afterEach, expect, test } from 'vitest'
import { Budgets } from '../../../src/budgets.ts'
import type { NoteChange } from '../../../src/model/journal.ts'
import { Secret, SecretLook } from '../../../src/model/secret.ts'
import { VirtualClock } from '../../simulation/virtual-clock.ts'
import { openHouse, until } from './house.ts'

const limits = { audit: 60, history: 60, vault: 10, assistant: 20 }

const workspace = (name: string, key: string, more: Partial<{ url: string; audit: number }> = {}) => ({
  name,
  base_url: more.url ?? 'https://api.example.com',
  api_key: new Secret(key),
  rate_limits: { ...limits, audit: more.audit ?? limits.audit },
})

function budgetsOf(...workspaces: ReturnType<typeof workspace>[]) {
  const notes: string[] = []
  const journal = {
    note: async () => undefined,
    changeNotes: async ({ put }: NoteChange) => void notes.push(...put.map(({ name }) => name)),
  }
  const clock = new VirtualClock(0)
  return { notes, budgets: new Budgets(workspaces, { journal, clock, random: () => 0.5 }) }
}

test('workspaces with one key on one host share a budget in each area, with the least of their limits', () => {
  const one = workspace('one', 'k', { audit: 50 })
  const two = workspace('two', 'k', { audit: 40, url: 'https://api.example.com/' })
  const { budgets } = budgetsOf(one, two)
  expect(budgets.of(two, 'audit')).toBe(budgets.of(one, 'audit'))
  expect(budgets.of(one, 'audit').used.allowed).toBe(40)
  expect(budgets.of(one, 'history')).not.toBe(budgets.of(one, 'audit'))
})

test('another key or another host has budgets of its own', () => {
  const all = [
    workspace('one', 'k'),
    workspace('two', 'other'),
    workspace('three', 'k', { url: 'https://api.example.org' }),
  ]
  const { budgets } = budgetsOf(...all)
  expect(new Set(all.map((each) => budgets.of(each, 'audit'))).size).toBe(3)
})

test('a shared budget is kept under each name, and a key that is rotated later parts nobody', async () => {
  const keys = ['k', 'fresh']
  const one = workspace('one', 'k')
  const two = workspace('two', 'k')
  const { budgets, notes } = budgetsOf(one, two)
  two.api_key.follow(() => keys[1] ?? '')
  new SecretLook([two.api_key], { elapsed: () => 0 }).look()
  const leave = await budgets.of(two, 'audit').enter('live', new AbortController().signal)
  leave()
  expect(new Set(notes)).toEqual(new Set(['budget:one:audit', 'budget:two:audit']))
  expect(budgets.of(one, 'audit')).toBe(budgets.of(two, 'audit'))
})

test.each([
  ['never was there', undefined],
  [
    'was away for a while',
    JSON.stringify({ savedAt: -60_000, answered: [], ahead: 1, blockedMs: 0, allowed: 60 }),
  ],
])('one that %s takes over what those have used that it shares a budget with', async (_, own) => {
  const state = JSON.stringify({ savedAt: 0, answered: [], ahead: 7, blockedMs: 0, allowed: 60 })
  const journal = {
    note: async (name: string) => (name === 'budget:two:audit' ? state : own),
    changeNotes: async () => undefined,
  }
  const one = workspace('one', 'k')
  const options = { journal, clock: new VirtualClock(0), random: () => 0.5 }
  const budget = new Budgets([one, workspace('two', 'k')], options).of(one, 'audit')
  const leave = await budget.enter('live', new AbortController().signal)
  leave()
  expect(budget.used.places).toBe(8)
})

let house: ReturnType<typeof openHouse> | undefined
afterEach(() => house?.remove())

test('a daemon whose workspaces have one key asks no more than its limit of the API', async () => {
  const rate = { rate_limits: { audit: 10 } }
  const same = { ...rate, api_key: 'acme-key' }
  house = openHouse({ workspace: rate, others: ['beta'], otherWorkspaces: same })
  const { clock, mock } = house
  const app = await house.open(false)
  try {
    void app.run().catch(() => undefined)
    const startAt = clock.now()
    await until(() => clock.now() - startAt > 30_000, 'half a minute')
    expect(mock.requests.length).toBeGreaterThan(5)
    expect(mock.requests.length).toBeLessThanOrEqual(10)
    const [acme, beta] = app.board.status().workspaces.map(({ budget }) => budget?.[0]?.shared_with)
    expect([acme, beta]).toEqual([['beta'], ['acme']])
  } finally {
    await app.stop()
  }
})

test('what was asked before a restart or a reload is told from the first look on, and not from the first read', async () => {
  house = openHouse()
  const before = await house.open(false)
  void before.run().catch(() => undefined)
  const { mock } = house
  await until(() => mock.requests.length > 3, 'some requests')
  await before.stop()
  const after = await house.open(false)
  try {
    const [budget] = after.board.status().workspaces[0]?.budget ?? []
    expect(budget).toMatchObject({ area: 'audit', used: mock.requests.length })
  } finally {
    await after.stop()
  }
})
