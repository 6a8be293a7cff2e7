// The last errors: a recovered one stays listed, a repeated one is listed once, secrets never.
import { describe, expect, it } from 'vitest'
import { ConnectorError } from '../../../src/core/errors.ts'
import { Secret } from '../../../src/core/secret.ts'
import { openStatusRegistry } from '../../../src/observability/status-registry.ts'
import { openMetrics } from '../../../src/observability/metrics.ts'
import { fakeStats, openRegistrySetup, testClock } from './registry-setup.ts'

const refused = new ConnectorError('unreachable', 'receiver refused the connection')

describe('the last errors', () => {
  it('stay readable after the part has recovered', () => {
    const { registry, sink } = openRegistrySetup()
    sink.state('failing', refused)
    sink.success()
    const { sinks, errors } = registry.status()
    expect(sinks[0]?.error).toBeNull()
    expect(errors).toEqual([
      {
        ...{ part: 'archive', code: 'unreachable', message: 'receiver refused the connection', times: 1 },
        ...{ first_at: '2026-11-21T10:00:00.000Z', last_at: '2026-11-21T10:00:00.000Z' },
      },
    ])
  })

  it('the same message of the same part is counted, and the newest comes first', () => {
    const { registry, clock, sink, source } = openRegistrySetup()
    sink.state('failing', refused)
    clock.pass(1000)
    source.state('failing', refused)
    clock.pass(1000)
    sink.state('failing', refused)
    expect(registry.status().errors).toMatchObject([
      {
        part: 'archive',
        times: 2,
        first_at: '2026-11-21T10:00:00.000Z',
        last_at: '2026-11-21T10:00:02.000Z',
      },
      { part: 'acme audit', times: 1 },
    ])
  })

  it('are twenty at most, of bounded length', () => {
    const { registry, sink } = openRegistrySetup()
    for (let i = 0; i < 50; i++)
      sink.state('failing', new ConnectorError('server_error', `${'i'.repeat(i)} ${'x'.repeat(5000)}`))
    const { errors } = registry.status()
    expect(errors).toHaveLength(20)
    expect(errors[0]?.message).toMatch(/^i{49} /)
    expect(errors.every(({ message }) => message.length <= 500)).toBe(true)
  })

  it('a message that is too long is cut at a word, visibly', () => {
    const { registry, sink } = openRegistrySetup()
    sink.state('failing', new ConnectorError('server_error', 'no way. '.repeat(100)))
    expect(registry.status().errors[0]?.message).toMatch(/^(no way\. )+no( way\.)?…$/)
    sink.state('failing', new ConnectorError('server_error', 'x'.repeat(501)))
    expect(registry.status().errors[0]?.message).toBe(`${'x'.repeat(499)}…`)
  })

  it('the same error with other sizes is one row, in its newest words', () => {
    const { registry, sink } = openRegistrySetup()
    for (const mib of [3, 12, 0.5])
      sink.state('failing', new ConnectorError('disk_full', `make room: ${mib} MiB are free`))
    expect(registry.status().errors).toMatchObject([{ times: 3, message: 'make room: 0.5 MiB are free' }])
  })

  it('a receiver that repeats its token does not publish it', () => {
    const secret = new Secret('s3cr3t-token')
    const metrics = openMetrics({ version: '1', processMetrics: false })
    const secrets = () => [secret]
    const registry = openStatusRegistry({
      clock: testClock(),
      metrics,
      journalStats: () => fakeStats,
      version: '1',
      secrets,
    })
    registry
      .sink('siem', 'splunk_hec', () => 'stored')
      .state('blocked', new ConnectorError('forbidden', 'no s3cr3t-token here'))
    const reported = JSON.stringify(registry.status())
    expect(reported).not.toContain('s3cr3t-token')
    expect(reported).toContain('no *** here')
  })
})
