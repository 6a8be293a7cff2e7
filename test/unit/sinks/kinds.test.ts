// What a kind says of a sink before it is opened: the same as the sink itself, and to which host it delivers.
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

const tls = { ca_file: '/ca.pem' }
const overTls: readonly (readonly [SinkType, object, string])[] = [
  ['splunk_hec', { ...hec, url: 'HTTPS://siem.test:8088', tls }, 'siem.test:8088'],
  ['splunk_hec', { ...hec, urls: ['Https://siem.test'], tls }, 'siem.test:443'],
  ['syslog', { address: 'TLS://siem.test:6514', tls }, 'siem.test:6514'],
  ['syslog', { address: 'RELP+TLS://siem.test:2514', tls }, 'siem.test:2514'],
  [
    's3',
    { bucket: 'logs', endpoint: 'HTTPS://minio.test:9000', access_key_id: 'a', secret_access_key: 'b', tls },
    'bucket logs at minio.test:9000',
  ],
]

test.each(overTls)('a scheme in capitals is the same: %s with %j', (type, given, to) => {
  const kind = kindOf(type)
  const options = kind.options.parse(given)
  expect(kind.to(options).join(', ')).toBe(to)
  // And what is not encrypted is seen as such.
  const plain = JSON.stringify(given)
    .replace(/https:/gi, 'HTTP:')
    .replace(/tls:\/\//gi, 'TCP://')
  const refused = kind.options.safeParse(JSON.parse(plain.replace('RELP+TCP', 'RELP')))
  expect(refused.error?.issues.map(({ path }) => path)).toEqual([['tls']])
})

test('the description of a syslog receiver does not depend on the case of its scheme', () => {
  const kind = kindOf('syslog')
  const written = ['UDP://siem.test:514', 'Tcp://siem.test:601', 'RELP://siem.test:2514']
  const said = (address: string) => {
    const options = kind.options.parse({ address })
    return [kind.assurance(options), kind.idle?.(options), kind.to(options)]
  }
  expect(written.map(said)).toEqual(written.map((address) => said(address.toLowerCase())))
})

test('every kind of sink has its case here', () => {
  expect([...new Set(cases.map(([type]) => type))].sort()).toEqual(Object.keys(sinkKinds).sort())
})
