// The generated traffic: a function of seed and clock, in order, with all documented types.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { documentedTypes } from '../../../src/mock/catalogue.ts'
import { START, context } from './stage.ts'

const HOUR = 3_600_000
const DAY = 24 * HOUR
const ids = (entries: readonly { id: string; raw: Uint8Array }[]) =>
  entries.map(({ id, raw }) => `${id} ${Buffer.from(raw).toString()}`)

describe('traffic', () => {
  it('is the same for a seed, however it is polled', () => {
    const traffic = { entriesPerHour: 60, since: START }
    const whole = context({ seed: 7, traffic })
    whole.clock.pass(DAY)
    const expected = ids(whole.mock.entries())
    expect(expected.length).toBeGreaterThan(500)
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 4 * HOUR }), { maxLength: 40 }), (steps) => {
        const { clock, mock } = context({ seed: 7, traffic })
        for (const step of steps) {
          clock.set(Math.min(START + DAY, clock.now() + step))
          mock.entries()
        }
        clock.set(START + DAY)
        expect(ids(mock.entries())).toEqual(expected)
      }),
      { numRuns: 20 },
    )
  })

  it('starts a week ago, or later if that would be too many entries for a first answer', () => {
    const pastOf = (entriesPerHour: number) => {
      const { mock } = context({ traffic: { entriesPerHour, rhythm: 'steady' } })
      const entries = mock.entries()
      return { count: entries.length, from: (entries[0]?.atUs ?? 0) / 1000 }
    }
    expect(pastOf(60).from).toBeLessThan(START - 6.9 * DAY)
    const busy = pastOf(250_000)
    expect(busy.from).toBeGreaterThan(START - 1.1 * HOUR)
    expect(busy.count).toBeGreaterThan(150_000)
    expect(busy.count).toBeLessThan(350_000)
  })

  it('differs between seeds and between workspaces', () => {
    const traffic = { entriesPerHour: 60 }
    const one = ids(context({ seed: 1, traffic }).mock.entries())
    const two = new Set(ids(context({ seed: 2, traffic }).mock.entries()))
    expect(one.some((entry) => two.has(entry))).toBe(false)
    const { mock } = context({ seed: 1, traffic, workspaces: [{ name: 'acme' }, { name: 'beta' }] })
    expect(ids(mock.entries('acme'))).toEqual(one)
    expect(ids(mock.entries('beta'))[0]).not.toBe(one[0])
  })

  it('is in order, with unique ids, and each entry is JSON that agrees with the ground truth', () => {
    const { mock } = context({ traffic: { entriesPerHour: 100 } })
    const entries = mock.entries()
    expect(new Set(entries.map(({ id }) => id)).size).toBe(entries.length)
    let before = 0
    for (const entry of entries) {
      expect(entry.atUs).toBeGreaterThanOrEqual(before)
      before = entry.atUs
      const parsed = JSON.parse(Buffer.from(entry.raw).toString()) as Record<string, string>
      const stamp = new Date(Math.floor(entry.atUs / 1000)).toISOString().slice(0, 23)
      expect(parsed).toMatchObject({ id: entry.id, type: entry.type })
      expect(parsed['timestamp']).toBe(stamp + String(entry.atUs % 1000).padStart(3, '0'))
      expect(Object.keys(parsed).sort()).toEqual(
        ['data', 'id', 'ip', 'timestamp', 'type', 'user', 'user_agent'].sort(),
      )
    }
    expect(before).toBeLessThan(START * 1000)
  })

  it('keeps its rate over a week, busy in office hours and quiet at weekends', () => {
    const { mock } = context({ traffic: { entriesPerHour: 200, since: START - 28 * DAY } })
    const entries = mock.entries()
    expect(entries.length / (28 * 24)).toBeGreaterThan(170)
    expect(entries.length / (28 * 24)).toBeLessThan(230)
    const at = (test: (date: Date) => boolean) =>
      entries.filter(({ atUs }) => test(new Date(atUs / 1000))).length
    const weekend = at((date) => date.getUTCDay() === 0 || date.getUTCDay() === 6)
    const office = at((date) => date.getUTCHours() >= 8 && date.getUTCHours() < 18)
    expect(weekend / entries.length).toBeLessThan(0.08)
    expect(office / entries.length).toBeGreaterThan(0.8)
  })

  it('has every documented type and a few unknown ones', () => {
    expect(documentedTypes.length).toBe(206)
    const { mock } = context({ traffic: { entriesPerHour: 400, exotic: 0 } })
    const met = new Set(mock.entries().map(({ type }) => type))
    const missing = documentedTypes.filter((type) => !met.has(type))
    expect(missing).toEqual(['api:audit_log_fetch'])
    expect([...met].some((type) => !documentedTypes.includes(type))).toBe(true)
  })

  it('holds odd but legal spellings: line breaks, escaped keys, duplicate keys, numbers above 2^53', () => {
    const { mock } = context({ traffic: { entriesPerHour: 100, exotic: 0.3 } })
    const all = mock.entries().map(({ raw }) => Buffer.from(raw).toString())
    for (const piece of ['{\n', '\r\n', '"\\u0069d"', '"user:decoy"', '9007199254740993', '__proto__', '🦀'])
      expect(all.some((text) => text.includes(piece))).toBe(true)
  })

  it('is the same at night and at weekends if the rhythm is steady', () => {
    const sunday = Date.UTC(2026, 10, 15)
    const { mock } = context({ traffic: { entriesPerHour: 600, since: sunday - DAY, rhythm: 'steady' } })
    const until = (hours: number) =>
      mock.entries().filter(({ atUs }) => atUs < (sunday + hours * HOUR) * 1000)
    expect(until(6).length / 30).toBeGreaterThan(500)
    expect(until(6).length / 30).toBeLessThan(700)
  })

  it('is empty at a rate of 0', () => {
    expect(context({ traffic: { entriesPerHour: 0 } }).mock.entries()).toEqual([])
  })

  it('runs through three weeks of polls in well under a second', async () => {
    const { clock, page, mock } = context({ traffic: { entriesPerHour: 100, since: START - DAY } })
    const started = process.cpuUsage()
    let from = mock.entries()[0]?.id ?? ''
    for (let poll = 0; poll < 21 * 96; poll++) {
      from = (await page(from)).at(-1) ?? from
      clock.pass(15 * 60_000)
    }
    // Generous, since machines differ; CPU time and not wall time, since machines are shared.
    const { user, system } = process.cpuUsage(started)
    expect((user + system) / 1e6).toBeLessThan(4)
  })
})
