// How often a failure is logged, and how long a row of them is.
import { expect, it } from 'vitest'
import { ConnectorError } from '../../../src/core/errors.ts'
import { FailureBackoff } from '../../../src/core/backoff.ts'

const held = new ConnectorError('misconfigured', 'no')
const MINUTE = 60_000

it('a failure is logged the 1st, 2nd, 4th, 8th time in a row', () => {
  const failures = new FailureBackoff(() => 0)
  const reported: number[] = []
  for (let i = 1; i <= 20; i++) {
    const { count, logDue } = failures.next(held)
    expect(count).toBe(i)
    if (logDue) reported.push(i)
  }
  expect(reported).toEqual([1, 2, 4, 8, 16])
})

it('after a logged success the next failure is logged', () => {
  let now = 0
  const failures = new FailureBackoff(() => now)
  failures.next(held)
  failures.next(held)
  expect(failures.succeeded()).toBe(true)
  now += 2_000
  expect(failures.next(held)).toEqual({ count: 1, logDue: true })
})

/** Each is a line of the log, `periodMs` apart. */
function flapping(periodMs: number, times: number): { lines: string[]; failures: FailureBackoff } {
  let now = 0
  const failures = new FailureBackoff(() => now)
  const lines: string[] = []
  for (let i = 0; i < times; i++) {
    if (failures.next(held).logDue) lines.push('failed')
    now += periodMs
    if (failures.succeeded()) lines.push('well')
  }
  return { lines, failures }
}

it('a flapping part logs few lines, by turns', () => {
  const { lines } = flapping(250, 2_000)
  expect(lines.length).toBeLessThan(40)
  for (const [i, line] of lines.entries()) if (line === 'well') expect(lines[i - 1]).toBe('failed')
  expect(flapping(5 * MINUTE, 20).lines).toHaveLength(40)
})

it('a success held back while it flapped is logged once it has lasted a minute', () => {
  let now = 0
  const failures = new FailureBackoff(() => now)
  let last: string | undefined
  for (let i = 0; i < 13; i++) {
    if (failures.next(held).logDue) last = 'failed'
    now += 1_000
    if (failures.succeeded()) last = 'well'
  }
  expect(last).toBe('failed')
  now += 30_000
  expect(failures.succeeded()).toBe(false)
  now += 30_000
  expect([failures.succeeded(), failures.succeeded()]).toEqual([true, false])
})

it('a success is logged if a failure before it was', () => {
  const failures = new FailureBackoff(() => 0)
  expect(failures.succeeded()).toBe(false)
  failures.next(held)
  failures.next(held)
  expect([failures.succeeded(), failures.succeeded()]).toEqual([true, false])
})

it('another cause under the same code is logged; another size is not', () => {
  const failures = new FailureBackoff(() => 0)
  const tells = (message: string) => failures.next(new ConnectorError('disk_full', message)).logDue
  expect(tells('the disk is full (3 MiB are free)')).toBe(true)
  expect(tells('the disk is full (12 MiB are free)')).toBe(true)
  expect(tells('the disk is full (5 MiB are free)')).toBe(false)
  expect(tells('the disk is full (4 MiB are free)')).toBe(true)
  expect(tells('the quota is used up')).toBe(true)
})

it('another status is another cause, at any address; another port is not', () => {
  const failures = new FailureBackoff(() => 0)
  const tells = (message: string) => failures.next(new ConnectorError('server_error', message)).logDue
  expect(tells('Splunk at https://127.0.0.1:8088 answered 502: its proxy has nobody behind it')).toBe(true)
  expect(tells('Splunk at https://127.0.0.1:8088 answered 503: its proxy has nobody behind it')).toBe(true)
  expect(tells('Splunk at https://127.0.0.1:8089 answered 502: its proxy has nobody behind it')).toBe(true)
  expect(tells('Splunk at https://127.0.0.1:8088 answered 502: its proxy has nobody behind it')).toBe(false)
})

it('alternating causes log a line a minute at most, and so do messages that never repeat', () => {
  let now = 0
  const failures = new FailureBackoff(() => now)
  let reported = 0
  const word = (i: number) => String.fromCharCode(97 + (i % 26), 97 + (Math.floor(i / 26) % 26))
  for (let i = 0; i < 600; i++) {
    if (failures.next(new ConnectorError('timeout', i % 2 ? 'late' : word(i))).logDue) reported++
    now += 1_000
  }
  expect(reported).toBeLessThan(40)
  now += 10 * MINUTE
  // Where they change slowly, each change is logged.
  for (const message of ['late', 'early', 'late', 'early']) {
    now += MINUTE
    expect(failures.next(new ConnectorError('timeout', message)).logDue).toBe(true)
  }
})

it('another code is logged, and so is one that did not occur for ten minutes', () => {
  let now = 0
  const failures = new FailureBackoff(() => now)
  for (let i = 0; i < 3; i++) failures.next(held)
  expect(failures.next(new ConnectorError('timeout', 'late'))).toEqual({ count: 1, logDue: true })
  expect(failures.next(held)).toEqual({ count: 1, logDue: true })
  expect(failures.next(held).logDue).toBe(false)
  now += 10 * MINUTE
  expect(failures.next(held).logDue).toBe(true)
})
