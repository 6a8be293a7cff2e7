// A note that cannot be written is tried again until it can, until somebody stops it, or until the process has to end.
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

test('where there is no room it waits some seconds between tries, tells why meanwhile, and no more when it is kept', async () => {
  const { waits, stop, clock, job } = setup()
  const reported: unknown[] = []
  const sleep = async (ms: number) => {
    reported.push(job.error?.code)
    await clock.sleep(ms)
  }
  expect(await keepUnlessStopped(failingWith('disk_full', 2), job, { sleep }, stop.signal)).toBe(true)
  expect([waits, reported, job.error]).toEqual([[5_000, 5_000], ['disk_full', 'disk_full'], undefined])
})

test('stopped while it waits, nothing was kept', async () => {
  const { stop, clock, job } = setup()
  const sleep = async (ms: number) => {
    stop.abort()
    await clock.sleep(ms)
  }
  expect(await keepUnlessStopped(failingWith('disk_full', 9), job, { sleep }, stop.signal)).toBe(false)
})

test('a disk that fails is not waited out: the process ends', async () => {
  const { waits, stop, clock, job } = setup()
  const kept = keepUnlessStopped(failingWith('disk_failed', 1), job, clock, stop.signal)
  await expect(kept).rejects.toMatchObject({ code: 'disk_failed' })
  const bug = keepUnlessStopped(() => Promise.reject(new TypeError('ours')), job, clock, stop.signal)
  await expect(bug).rejects.toThrow('ours')
  expect(waits).toEqual([])
})
