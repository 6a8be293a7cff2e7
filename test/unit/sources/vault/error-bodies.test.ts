// Answers of the vault with status 200 that have an error, or elements that are no projects: an outage is waited out, and only what repeats beside projects is malformed.
import { expect, it } from 'vitest'
import { driven, HOUR, SECOND } from '../../app/audit-harness.ts'
import { listed, openVaultHarness, withProjects, type VaultHarness } from './harness.ts'

const bodies = [
  '{"error":"no"}',
  '[{"error":"no"}]',
  '[null]',
  '<html><body>Sign in</body></html>',
  listed('null').text,
  listed('{"error":"no"}').text,
  listed('"no"', '{}').text,
]

const later = (harness: VaultHarness, ms: number) => driven(harness.clock, harness.clock.sleep(ms))

it.each(bodies.flatMap((body) => [1, 2].map((page) => [body, page] as const)))(
  '200 with %s in place of page %i is an outage: nothing is quarantined or reported as deleted, and all is read when it is over',
  async (text, broken) => {
    const harness = await withProjects(6)
    harness.vault.manner.cap = 3
    await harness.pass()
    await later(harness, 6 * HOUR)
    harness.vault.add('project 0002a')
    harness.vault.instead = (page) => (page >= broken ? { text } : undefined)
    for (let tries = 0; tries < 40; tries++) {
      await harness.step()
      expect(harness.source.plan(harness.cursor).caughtUp).toBe(false)
      await later(harness, 5 * SECOND)
    }
    expect(harness.reporter.sum('quarantined')).toBe(0)
    harness.vault.instead = () => undefined
    await harness.pass('forgiven')
    await harness.later(2)
    expect((await harness.types()).slice(6)).toEqual(['project_created'])
    expect([harness.reporter.sum('quarantined'), harness.reporter.gaps]).toEqual([0, 0])
  },
)

it.each(['null', '{"error":"not found"}'])(
  'an element %s that repeats beside projects is quarantined once, and is no gap',
  async (text) => {
    const harness = await withProjects(3)
    harness.vault.strays = [text]
    expect(await harness.step()).toMatchObject({ code: 'bad_reply' })
    expect(await harness.step()).toMatchObject({ code: 'bad_reply' })
    expect(harness.reporter.sum('quarantined')).toBe(0)
    await harness.pass()
    await harness.later(2)
    expect(await harness.types()).toHaveLength(3)
    expect([harness.reporter.sum('quarantined'), harness.reporter.gaps]).toEqual([1, 0])
  },
)

it('an element that differs at each answer is quarantined at the ninth, as a possible gap, and delays nothing', async () => {
  const harness = await withProjects(3)
  let times = 0
  harness.vault.instead = () => {
    harness.vault.strays = [`{"foo":${String(++times)}}`]
    return undefined
  }
  for (let answers = 1; answers < 9; answers++) {
    expect(await harness.step()).toMatchObject({ code: 'bad_reply' })
    expect([harness.reporter.sum('quarantined'), harness.reporter.gaps]).toEqual([0, 0])
  }
  await harness.pass()
  expect(harness.source.plan(harness.cursor).caughtUp).toBe(true)
  expect([harness.reporter.sum('quarantined'), harness.reporter.gaps]).toEqual([1, 1])
  await harness.later(2)
  expect(await harness.types()).toHaveLength(3)
  expect(harness.reporter.gaps).toBe(1)
})

it('a single run makes a pass of its own, also if another process was in the middle of one', async () => {
  const harness = await openVaultHarness({ source: { once: true } })
  harness.vault.manner.cap = 2
  const projects = ['a', 'b', 'c', 'd'].map((name) => harness.vault.add(name))
  await harness.pass()
  await harness.restart()
  await harness.step()
  await harness.restart()
  expect(harness.source.plan(harness.cursor).caughtUp).toBe(false)
  // On the page that the other process had read.
  for (const project of projects) harness.vault.touch(project)
  harness.clock.advance(harness.clock.now() + SECOND)
  await harness.pass()
  expect(harness.source.plan(harness.cursor).caughtUp).toBe(true)
  expect((await harness.types()).slice(4)).toEqual(Array(4).fill('project_updated'))
})
