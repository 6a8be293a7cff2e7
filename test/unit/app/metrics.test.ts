// Whatever an API and a receiver say: the series of the whole daemon are those of its first scrape, and no word of theirs is in one.
import { afterEach, expect, test } from 'vitest'
import type { App } from '../../../src/app/app.ts'
import { errorCodes } from '../../../src/core/errors.ts'
import { sinkStates, sourceStates } from '../../../src/contracts/reporter.ts'
import { warningCodes } from '../../../src/observability/status.ts'
import { codeLabel, sinkOutcomes, sourceOutcomes } from '../../../src/observability/metrics.ts'
import { FakePeer } from '../../fakes/sockets.ts'
import { systemClock } from '../../../src/platform/clock.ts'
import { openDaemonRig, reply, until } from './daemon-rig.ts'

const DAY_MS = 86_400_000
const SLOW = { timeout: 10_000 }

let daemonRig: ReturnType<typeof openDaemonRig> | undefined
let app: App | undefined
afterEach(async () => {
  await app?.stop()
  daemonRig?.remove()
})

const HOSTILE = 400
/** Of each source: an API may answer any status; beside those expected, ten more can come. */
const OTHER_CODES = 10

const seriesOf = (text: string): string[] =>
  text.split('\n').flatMap((line) => /^auditferry_\w+(?:\{.*\})?(?= )/.exec(line)?.[0] ?? [])

function labelsOf(series: string): [string, string][] {
  return [...series.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, name = '', value = '']) => [name, value])
}

const closed: Readonly<Record<string, readonly string[]>> = {
  workspace: ['acme'],
  source: ['audit'],
  sink: ['archive', 'siem'],
  state: [...sourceStates, ...sinkStates],
  outcome: [...sourceOutcomes, ...sinkOutcomes],
  reason: [...errorCodes, 'other'],
  kind: ['foreign_fetch'],
  version: ['0.0.0'],
  node: [process.version],
}

/** Each with a type, a user, an address and an id of its own; those too long to be ids are quarantined. */
function addHostile({ mock, clock }: ReturnType<typeof openDaemonRig>): void {
  for (let i = 0; i < HOSTILE; i++)
    mock.add({
      at: clock.now() - (HOSTILE - i),
      ...(i % 7 === 0 ? { id: `${i}-${'x'.repeat(10_000)}` } : {}),
      type: `evil:${i}`,
      user: `user-${i}@evil.example`,
      ip: `evil ${i}`,
      userAgent: `agent/${i}`,
      ...(i % 50 === 1 ? { defect: 'bad_time' as const } : {}),
    })
}

test('a hostile API and a hostile receiver create no series', async () => {
  let asked = 0
  const receiver = async () => {
    asked++
    const status = [418, 503, 599, 299, 200][asked % 5] ?? 200
    return reply(status, { text: `evil ${asked}`, code: status === 200 ? 0 : asked })
  }
  daemonRig = openDaemonRig({ entries: 5, receiver, maxBytes: '64MiB' })
  app = await daemonRig.open(false)
  const { metrics, registry } = app
  const first = seriesOf(await metrics.render())
  addHostile(daemonRig)
  app.run().catch(() => undefined)
  await until(() => (registry.status().sinks[0]?.accepted_entries ?? 0) >= HOSTILE * 0.8, 'delivered')
  await until(() => asked > 3, 'the receiver asked again')
  const text = await metrics.render()
  expect(text).toContain('auditferry_source_interval_seconds{workspace="acme",source="audit"} 1\n')
  expect(text).toContain('auditferry_sink_linger_seconds{sink="archive"} 1\n')
  const later = seriesOf(text)
  expect(first.filter((series) => !later.includes(series))).toEqual([])
  const more = later.filter((series) => !first.includes(series))
  expect(more.filter((series) => !series.startsWith('auditferry_source_requests_total'))).toEqual([])
  expect(more.length).toBeLessThanOrEqual(OTHER_CODES)
  for (const series of later)
    for (const [name, value] of labelsOf(series))
      if (series.startsWith('auditferry_warnings')) expect(warningCodes).toContain(value)
      else if (name === 'code') expect(codeLabel(value)).toBe(value)
      else if (name === 'le') expect(value).toMatch(/^(\d+(\.\d+)?|\+Inf)$/)
      else expect(closed[name], `${name} of ${series}`).toContain(value)
})

test('the first expiry of a certificate on the way to a receiver is a metric of its sink; a later certificate replaces it', async () => {
  const peer = new FakePeer()
  const receiver = async () => reply(200, { text: 'Success', code: 0 })
  let aheadMs = 0
  const clock = {
    ...systemClock,
    now: () => systemClock.now() + aheadMs,
    elapsed: () => systemClock.elapsed() + aheadMs,
  }
  daemonRig = openDaemonRig({ entries: 5, receiver, connect: peer.connect, clock })
  peer.certificateEndsAt = daemonRig.clock.now() + 20 * DAY_MS
  peer.ownCertificateEndsAt = daemonRig.clock.now() + 10 * DAY_MS
  app = await daemonRig.open(false)
  const { metrics } = app
  const shown = async () => {
    const found = /^auditferry_sink_certificate_expiry_timestamp_seconds\{sink="siem"\} (\S+)$/m
    return Number(found.exec(await metrics.render())?.[1])
  }
  expect(await shown()).toBe(0)
  app.run().catch(() => undefined)
  await expect.poll(shown, SLOW).toBe(peer.ownCertificateEndsAt / 1000)
  peer.ownCertificateEndsAt = clock.now() + 90 * DAY_MS
  aheadMs = DAY_MS
  daemonRig.mock.add({ at: clock.now() })
  await expect.poll(shown, SLOW).toBe(peer.certificateEndsAt / 1000)
})
