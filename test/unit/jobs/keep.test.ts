// Saving a state entry: tried again until it works, until a stop, or until the process must end.
import { expect, test } from 'vitest'
import { ConnectorError } from '../../../src/core/errors.ts'
import type { ErrorCode } from '../../../src/core/errors.ts'
import { notBegun } from '../../../src/jobs/range.ts'
import { keepUnlessStopped } from '../../../src/jobs/table.ts'

const failingWith = (code: ErrorCode, times: number) => {
  let tries = 0
  return async () => {
    if (++tries <= times) throw new ConnectorError(code, 'as told')
  }
}

function setup() {
  const waits: number[] = []
  const stop = new AbortController()
  const clock = { sleep: async (ms: number) => void waits.push(ms) }
  return { waits, stop, clock, job: { ...notBegun } }
}

test('on a full disk a job tries again every few seconds and shows the error until the entry is saved', async () => {
  const { waits, stop, clock, job } = setup()
  const reported: unknown[] = []
  const sleep = async (ms: number) => {
    reported.push(job.error?.code)
    await clock.sleep(ms)
  }
  expect(await keepUnlessStopped(failingWith('disk_full', 2), job, { sleep }, stop.signal)).toBe(true)
  expect([waits, reported, job.error]).toEqual([[5_000, 5_000], ['disk_full', 'disk_full'], undefined])
})

test('a job that is stopped while it waits has saved nothing', async () => {
  const { stop, clock, job } = setup()
  const sleep = async (ms: number) => {
    stop.abort()
    await clock.sleep(ms)
  }
  expect(await keepUnlessStopped(failingWith('disk_full', 9), job, { sleep }, stop.signal)).toBe(false)
})

test('on a failing disk, or without its lease, a job ends at once', async () => {
  const { waits, stop, clock, job } = setup()
  for (const code of ['disk_failed', 'lease_lost'] as const) {
    const kept = keepUnlessStopped(failingWith(code, 1), job, clock, stop.signal)
    await expect(kept).rejects.toMatchObject({ code })
  }
  const bug = keepUnlessStopped(() => Promise.reject(new TypeError('ours')), job, clock, stop.signal)
  await expect(bug).rejects.toThrow('ours')
  expect(waits).toEqual([])
})
