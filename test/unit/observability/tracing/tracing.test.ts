// Spans of a whole daemon, as a collector receives them: from request to acknowledgement, linked across the journal, with nothing in them but names, counts and codes.
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openApp } from '../../../../src/app/app.ts'
import { openJournal } from '../../../../src/journal/sqlite/open.ts'
import type { Tracing } from '../../../../src/contracts/reporter.ts'
import type { StatusReport } from '../../../../src/observability/status.ts'
import { systemClock } from '../../../../src/platform/clock.ts'
import { openLog } from '../../../../src/observability/log.ts'
import { openPages } from '../../../../src/observability/tracing/spans.ts'
import { openTracing } from '../../../../src/observability/tracing/open.ts'
import { logOf } from '../../../contract/journal-parts.ts'
import { acceptAll, healthy, openDaemonRig, reply, until } from '../../app/daemon-rig.ts'
import { openCollector } from './collector.ts'
import type { Received } from './collector.ts'

let collector: Awaited<ReturnType<typeof openCollector>>
beforeEach(async () => {
  collector = await openCollector()
})
afterEach(async () => {
  await collector.close()
  expect(collector.faults).toEqual([])
})

const variables = () => ({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.endpoint })
const open = async (env: Record<string, string> = variables()): Promise<Tracing> =>
  (await openTracing({ env, version: '1.2.3', log: logOf(), clock: systemClock })) ?? expect.fail()

/** A whole life with tracing on: read, delivered, stopped once `done`. */
async function live(
  daemonRig: ReturnType<typeof openDaemonRig>,
  tracing: Tracing,
  done: (status: StatusReport) => boolean,
): Promise<void> {
  const app = await openApp(
    daemonRig.config,
    { ...daemonRig.environment, tracing },
    { once: false },
    (wanted) => openJournal({ ...wanted, ballastBytes: 0 }),
  )
  const running = app.run()
  await until(() => done(app.registry.status()), 'delivery')
  await app.stop()
  await running
  await tracing.close()
  daemonRig.remove()
}

const delivered = (entries: number) => (status: StatusReport) =>
  status.sinks.every(({ accepted_entries }) => accepted_entries === entries)

const named = (name: string): Received[] => collector.spans.filter((span) => span.name === name)

describe('tracing', () => {
  it('goes from request to acknowledgement, linked across the journal', async () => {
    const daemonRig = openDaemonRig({ entries: 20, receiver: acceptAll })
    const tracing = await open()
    await live(daemonRig, tracing, delivered(20))

    const pages = named('append').filter(({ facts }) => Number(facts['auditferry.new']) > 0)
    expect(
      pages.map(({ facts }) => Number(facts['auditferry.new'])).reduce((sum, count) => sum + count),
    ).toBe(20)
    expect(pages[0]?.facts).toMatchObject({
      ...{ 'auditferry.workspace': 'acme', 'auditferry.source': 'audit' },
      ...{ 'auditferry.outcome': 'ok', 'auditferry.known': 0 },
    })
    const read = named('read').find(({ spanId }) => spanId === pages[0]?.parentSpanId)
    expect(read?.facts['auditferry.outcome']).toBe('ok')
    const requests = named('request').filter(({ parentSpanId }) => parentSpanId === read?.spanId)
    expect(requests[0]).toMatchObject({
      kind: 3,
      facts: { 'http.request.method': 'GET', 'http.response.status_code': 200 },
    })
    for (const sink of ['archive', 'siem']) {
      const tries = named('deliver').filter(({ facts }) => facts['auditferry.sink'] === sink)
      expect(new Set(tries.flatMap(({ links }) => links))).toEqual(new Set(pages.map(({ spanId }) => spanId)))
      for (const deliver of tries) {
        expect(deliver.parentSpanId).toBeUndefined()
        expect(deliver.facts['auditferry.acknowledged']).toBe(deliver.facts['auditferry.entries'])
        const ack = named('ack').find(({ parentSpanId }) => parentSpanId === deliver.spanId)
        expect(ack?.facts).toMatchObject({ 'auditferry.sink': sink, 'auditferry.dead_lettered': 0 })
      }
    }
    expect(read?.resource).toMatchObject({ 'service.name': 'auditferry', 'service.version': '1.2.3' })
  })

  it('a failed try has its code, and each try is a span', async () => {
    let tries = 0
    const daemonRig = openDaemonRig({
      entries: 3,
      receiver: healthy(async () =>
        ++tries < 3
          ? reply(503, { text: 'planted-words', code: 9 })
          : reply(200, { text: 'Success', code: 0 }),
      ),
    })
    await live(daemonRig, await open(), delivered(3))
    const deliveries = named('deliver').filter(({ facts }) => facts['auditferry.sink'] === 'siem')
    expect(
      deliveries.map(({ failed, facts }) => [failed, facts['auditferry.outcome'], facts['auditferry.again']]),
    ).toEqual([
      [true, 'rate_limited', false],
      [true, 'rate_limited', true],
      [false, 'ok', true],
    ])
    expect(deliveries.every(({ links }) => links.length > 0)).toBe(true)
  })

  it('has nothing but names, counts, bytes and codes: no content, no secret, no address', async () => {
    const daemonRig = openDaemonRig({
      entries: 5,

      receiver: async () => reply(403, { text: 'planted-words planted-token', code: 4 }),
    })
    await live(
      daemonRig,
      await open(),
      ({ sinks, errors }) => errors.length > 0 && sinks[0]?.accepted_entries === 5,
    )
    const allowed = new Set(
      [
        'workspace',
        'source',
        'sink',
        'type',
        'entries',
        'new',
        'late',
        'known',
        'filtered',
        'quarantined',
        'acknowledged',
        'refused',
        'dead_lettered',
        'again',
        'bytes',
        'outcome',
      ].map((name) => `auditferry.${name}`),
    )
    for (const name of ['http.request.method', 'http.response.status_code', 'error.type']) allowed.add(name)
    expect(collector.spans.length).toBeGreaterThan(3)
    expect(
      collector.spans.flatMap(({ facts }) => Object.keys(facts)).filter((name) => !allowed.has(name)),
    ).toEqual([])
    const sent = collector.bodies.join('\n')
    for (const never of [
      'planted',
      'acme-key',
      'example.com',
      daemonRig.folder,
      '@',
      'statusMessage',
      'exception',
    ])
      expect(sent).not.toContain(never)
  })

  it.each([
    ['nothing is asked for', {}],
    [
      'it is switched off',
      { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:4318', OTEL_SDK_DISABLED: 'true' },
    ],
    [
      'the exporter is none',
      { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:4318', OTEL_TRACES_EXPORTER: 'none' },
    ],
    ['the endpoint is empty', { OTEL_EXPORTER_OTLP_ENDPOINT: ' ' }],
  ])('does not exist where %s', async (_what, env) => {
    expect(await openTracing({ env, version: '1', log: logOf(), clock: systemClock })).toBeUndefined()
  })

  it('takes no sample if the variables say so', async () => {
    const daemonRig = openDaemonRig({ entries: 3 })
    await live(daemonRig, await open({ ...variables(), OTEL_TRACES_SAMPLER: 'always_off' }), delivered(3))
    expect(collector.spans).toEqual([])
  })

  it('a missing collector delays neither delivery nor stop', async () => {
    const daemonRig = openDaemonRig({ entries: 3 })
    const tracing = await open({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9' })
    const startedAt = systemClock.elapsed()
    await live(daemonRig, tracing, delivered(3))
    expect(systemClock.elapsed() - startedAt).toBeLessThan(10_000)
  })
})

describe('which pages a batch came from', () => {
  const context = (id: number) => ({
    traceId: 'a'.repeat(32),
    spanId: String(id).padStart(16, '0'),
    traceFlags: 1,
  })
  const idsOf = (links: ReturnType<ReturnType<typeof openPages>['links']>) =>
    links.map((link) => Number(link.context.spanId))

  it('are those whose entries it carries, the newest first', () => {
    const pages = openPages()
    for (let i = 0; i < 10; i++) pages.keep(i * 10 + 1, i * 10 + 10, context(i))
    expect(idsOf(pages.links(15, 31))).toEqual([3, 2, 1])
    expect(idsOf(pages.links(100, 200))).toEqual([9])
    expect(idsOf(pages.links(101, 200))).toEqual([])
  })

  it('are the newest thousands: older ones are forgotten, and no batch has endless links', () => {
    const pages = openPages()
    for (let i = 0; i < 10_000; i++) pages.keep(i + 1, i + 1, context(i))
    expect(idsOf(pages.links(1, 100))).toEqual([])
    expect(idsOf(pages.links(9_999, 10_000))).toEqual([9999, 9998])
    expect(pages.links(1, 10_000)).toHaveLength(32)
  })
})

it('an endpoint that is no URL turns tracing off, and its text is not logged', async () => {
  const written: string[] = []
  const log = openLog({ level: 'debug', to: { write: (line) => void written.push(line) } })
  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://user:planted@collector:99999' }
  expect(await openTracing({ env, version: '1.2.3', log, clock: systemClock })).toBeUndefined()
  expect(written.join('')).toContain('OTEL_EXPORTER_OTLP_ENDPOINT')
  expect(written.join('')).not.toContain('planted')
})
