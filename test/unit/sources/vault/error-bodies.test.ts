// Answers of the vault with status 200 that have an error, or elements that are no projects: an outage is waited out, and only what repeats beside projects is malformed.
import { expect, it } from 'vitest'
import { driven, HOUR, SECOND } from '../../app/desk.ts'
import { listed, openVaultDesk, withProjects, type VaultDesk } from './desk.ts'

const bodies = [
  '{"error":"no"}',
  '[{"error":"no"}]',
  '[null]',
  '<html><body>Sign in</body></html>',
  listed('null').text,
  listed('{"error":"no"}').text,
  listed('"no"', '{}').text,
]

const later = (desk: VaultDesk, ms: number) => driven(desk.clock, desk.clock.sleep(ms))

it.each(bodies.flatMap((body) => [1, 2].map((page) => [body, page] as const)))(
  '200 with %s in place of page %i is an outage: nothing is quarantined or reported as deleted, and all is read when it is over',
  async (text, broken) => {
    const desk = await withProjects(6)
    desk.vault.manner.cap = 3
    await desk.pass()
    await later(desk, 6 * HOUR)
    desk.vault.add('project 0002a')
    desk.vault.instead = (page) => (page >= broken ? { text } : undefined)
    for (let tries = 0; tries < 40; tries++) {
      await desk.step()
      expect(desk.source.plan(desk.cursor).caughtUp).toBe(false)
      await later(desk, 5 * SECOND)
    }
    expect(desk.reporter.sum('quarantined')).toBe(0)
    desk.vault.instead = () => undefined
    await desk.pass('forgiven')
    await desk.later(2)
    expect((await desk.types()).slice(6)).toEqual(['project_created'])
    expect([desk.reporter.sum('quarantined'), desk.reporter.gaps]).toEqual([0, 0])
  },
)

it.each(['null', '{"error":"not found"}'])(
  'an element %s that repeats beside projects is quarantined once, and is no gap',
  async (text) => {
    const desk = await withProjects(3)
    desk.vault.strays = [text]
    expect(await desk.step()).toMatchObject({ code: 'bad_reply' })
    expect(await desk.step()).toMatchObject({ code: 'bad_reply' })
    expect(desk.reporter.sum('quarantined')).toBe(0)
    await desk.pass()
    await desk.later(2)
    expect(await desk.types()).toHaveLength(3)
    expect([desk.reporter.sum('quarantined'), desk.reporter.gaps]).toEqual([1, 0])
  },
)

it('an element that differs at each answer is quarantined at the ninth, as a possible gap, and delays nothing', async () => {
  const desk = await withProjects(3)
  let times = 0
  desk.vault.instead = () => {
    desk.vault.strays = [`{"foo":${String(++times)}}`]
    return undefined
  }
  for (let answers = 1; answers < 9; answers++) {
    expect(await desk.step()).toMatchObject({ code: 'bad_reply' })
    expect([desk.reporter.sum('quarantined'), desk.reporter.gaps]).toEqual([0, 0])
  }
  await desk.pass()
  expect(desk.source.plan(desk.cursor).caughtUp).toBe(true)
  expect([desk.reporter.sum('quarantined'), desk.reporter.gaps]).toEqual([1, 1])
  await desk.later(2)
  expect(await desk.types()).toHaveLength(3)
  expect(desk.reporter.gaps).toBe(1)
})

it('a single run makes a pass of its own, also if another process was in the middle of one', async () => {
  const desk = await openVaultDesk({ source: { once: true } })
  desk.vault.manner.cap = 2
  const projects = ['a', 'b', 'c', 'd'].map((name) => desk.vault.add(name))
  await desk.pass()
  await desk.restart()
  await desk.step()
  await desk.restart()
  expect(desk.source.plan(desk.cursor).caughtUp).toBe(false)
  // On the page that the other process had read.
  for (const project of projects) desk.vault.touch(project)
  desk.clock.advance(desk.clock.now() + SECOND)
  await desk.pass()
  expect(desk.source.plan(desk.cursor).caughtUp).toBe(true)
  expect((await desk.types()).slice(4)).toEqual(Array(4).fill('project_updated'))
})
