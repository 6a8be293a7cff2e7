// What a kind says of a sink before it is opened: the same as the sink itself, and whom it delivers to.
import { expect, test } from 'vitest'
import { kindOf, sinkKinds, type SinkType } from '../../../src/sinks/index.ts'
import { sinkDeps } from '../../fakes/sink-deps.ts'

const hec = { token: 'planted-token' }
const cases: readonly (readonly [SinkType, object, string, string])[] = [
  ['stdout', {}, 'sent', ''],
  ['file', { path: '/out/audit.ndjson' }, 'stored', '/out/audit.ndjson'],
  ['splunk_hec', { ...hec, url: 'https://siem.test' }, 'received', 'siem.test:443'],
  ['splunk_hec', { ...hec, url: 'https://siem.test', acks: false }, 'received', 'siem.test:443'],
  [
    'splunk_hec',
    { ...hec, urls: ['https://a.test:8088', 'http://[::1]:8088'], acks: true },
    'stored',
    'a.test:8088, [::1]:8088',
  ],
  ['syslog', { address: 'udp://siem.test:514' }, 'sent', 'siem.test:514'],
  ['syslog', { address: 'tcp://siem.test:601' }, 'sent', 'siem.test:601'],
  ['syslog', { address: 'tls://[::1]:6514' }, 'sent', '[::1]:6514'],
  ['syslog', { address: 'relp://siem.test:2514' }, 'received', 'siem.test:2514'],
  ['syslog', { address: 'relp+tls://siem.test:2514' }, 'received', 'siem.test:2514'],
  ['s3', { bucket: 'logs' }, 'stored', 'bucket logs at AWS'],
  ['s3', { bucket: 'logs', endpoint: 'https://minio.test:9000' }, 'stored', 'bucket logs at minio.test:9000'],
]

test.each(cases)('%s with %j is %s, and delivers to %s', async (type, given, assurance, to) => {
  const kind = kindOf(type)
  const options = kind.options.parse(given)
  const deps = sinkDeps({ transport: () => () => Promise.reject(new Error('asked')) })
  const opened = kind.open('siem', options, deps)
  expect([kind.assurance(options), kind.to(options).join(', ')]).toEqual([assurance, to])
  expect(opened.assurance).toBe(assurance)
  expect(kind.maxAgeMs?.(options)).toBe('objects' in opened ? opened.objects.maxAgeMs : undefined)
  expect(deps.log.lines).toEqual([])
  await opened.close()
})

test('every kind of sink has its case here', () => {
  expect([...new Set(cases.map(([type]) => type))].sort()).toEqual(Object.keys(sinkKinds).sort())
})
