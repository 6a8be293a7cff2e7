// The log of the real environment masks every secret of the configuration.
import { expect, test } from 'vitest'
import { realEnvironment } from '../../../../src/cli/shared/environment.ts'
import { type Config, configSchema } from '../../../../src/config/schema.ts'
import { ConnectorError } from '../../../../src/core/errors.ts'
import { Secret, SecretLook } from '../../../../src/core/secret.ts'
import { errorFields } from '../../../../src/observability/log.ts'

const planted = {
  key: 'planted-api-key-01',
  top: 'planted-token-02',
  nested: 'planted-nested-03',
  listed: 'planted-listed-04',
}

function captured(config: Config) {
  const signal = new AbortController().signal
  const silent = { stdout: () => undefined, stderr: () => undefined, print: async () => undefined }
  const written: string[] = []
  const to = { write: (line: string) => void written.push(line) }
  const { log } = realEnvironment(config, { env: {}, version: '0.0.0', signal, ...silent }, to)
  return { log, written }
}

test('a secret never appears in a line or an error of the log, however deep it is in the configuration', () => {
  const parsed = configSchema.parse({
    workspaces: [{ name: 'acme', base_url: 'https://a.example.com', api_key: planted.key, audit: {} }],
    sinks: [{ name: 'siem', type: 'splunk_hec', url: 'https://s.example.com', token: planted.top }],
  })
  const deep = {
    login: { password: new Secret(planted.nested) },
    keys: [null, [{ key: new Secret(planted.listed) }]],
  }
  const config = { ...parsed, sinks: parsed.sinks.map((sink) => Object.assign(sink, deep)) }
  const { log, written } = captured(config)
  for (const value of Object.values(planted)) {
    log.info(`Said ${value}`, { text: `with ${value}` })
    log.error('Failed', errorFields(new ConnectorError('misconfigured', `the other side said ${value}`)))
    log.with({ bound: value }).warn('Bound')
  }
  expect(written).toHaveLength(12)
  expect(written.join('')).toContain('***')
  for (const value of Object.values(planted)) expect(written.join('')).not.toContain(value)
})

test('a secret that was read again is masked with its new value', () => {
  const config = configSchema.parse({
    workspaces: [{ name: 'acme', base_url: 'https://a.example.com', api_key: planted.key, audit: {} }],
    sinks: [{ name: 'console', type: 'stdout' }],
  })
  const { log, written } = captured(config)
  const secret = config.workspaces[0]?.api_key ?? expect.fail('no key')
  secret.follow(() => 'another-key-02')
  expect(new SecretLook([secret], { elapsed: () => 0 }).look()).toBe(true)
  log.info('Said another-key-02')
  expect(written.join('')).not.toContain('another-key-02')
})
