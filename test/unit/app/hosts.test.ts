// The host that a sink's lines name: that of the workspace's base_url.
import { expect, it } from 'vitest'
import { configSchema } from '../../../src/config/schema.ts'
import type { Environment } from '../../../src/app/environment.ts'
import { openSink } from '../../../src/app/delivery.ts'
import { linesOf, runOf, someEntries } from '../../fakes/lines.ts'
import { sinkDeps } from '../../fakes/sink-deps.ts'

function lineOf(baseUrl: string, rfc: 3164 | 5424): string {
  const config = configSchema.parse({
    workspaces: [{ name: 'acme', base_url: baseUrl, api_key: 'k', audit: {} }],
    sinks: [{ name: 'siem', type: 'syslog', address: 'udp://siem.example.com:514', rfc }],
  })
  const [sink] = config.sinks
  if (!sink) throw new Error('no sink')
  const environment = sinkDeps() as unknown as Environment
  const { sink: opened } = openSink(config, sink, environment, environment.log)
  const { bytes } = linesOf(runOf(someEntries(1)), opened.frame)
  return Buffer.from(bytes).toString()
}

it.each<[string, 3164 | 5424, RegExp]>([
  ['https://[2001:db8::1]:8443', 5424, /^\d+ <\d+>1 \S+ 2001:db8::1 auditferry /],
  ['https://[2001:db8::1]:8443', 3164, /^\d+ <\d+>\w{3} [ \d]\d [\d:]{8} acme auditferry: /],
  ['https://api.example.com', 3164, /^\d+ <\d+>\w{3} [ \d]\d [\d:]{8} api\.example\.com auditferry: /],
])('of %s, in a message of RFC %i', (baseUrl, rfc, wanted) => {
  expect(lineOf(baseUrl, rfc)).toMatch(wanted)
})
