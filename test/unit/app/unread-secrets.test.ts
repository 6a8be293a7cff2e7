// What a restart would miss is reported while the process still has it.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { configSchema } from '../../../src/config/schema.ts'
import { secretsIn } from '../../../src/core/secret.ts'
import type { StatusRegistry } from '../../../src/observability/status-registry.ts'
import { UnreadSecrets } from '../../../src/app/checks.ts'
import { certificate } from '../../fakes/certificates.ts'
import { LogLines } from '../../fakes/sink-deps.ts'
import { acceptAll, openDaemonRig, until } from './daemon-rig.ts'

test('secrets that cannot be read again are in status and log while the daemon runs on, until they can be read', async () => {
  const daemonRig = openDaemonRig({ receiver: acceptAll })
  onTestFinished(daemonRig.remove)
  const trouble: (string | undefined)[] = [undefined, undefined]
  for (const [i, secret] of secretsIn(daemonRig.config).entries()) {
    const value = secret.reveal()
    secret.follow(() => {
      if (trouble[i] !== undefined) throw new Error(trouble[i])
      return value
    })
  }
  const app = await daemonRig.open(false)
  onTestFinished(() => app.stop())
  app.run().catch(() => undefined)
  const status = () => app.registry.status()
  const reported = () =>
    daemonRig.lines.filter(({ sentence }) => sentence.startsWith('A secret or a file can'))
  await until(() => status().summary.startsWith('All caught up'), 'peace')
  expect(status().warnings).toEqual([])
  trouble[1] = '/run/token: there is no such file'
  const message =
    'siem token cannot be read again, and a restart would fail: /run/token: there is no such file'
  const says = (words: string) => status().summary.includes(words)
  await until(() => says(`${message}; all caught up`), 'the token, which nobody asks for now')
  expect(status()).toMatchObject({
    ok: true,
    warnings: [{ code: 'secret_unread', about: 'siem token', message }],
  })
  trouble[0] = 'no permission'
  await until(() => status().warnings.length === 2, 'the key')
  const asked = daemonRig.mock.requests.length
  await until(() => daemonRig.mock.requests.length > asked + 1, 'reading with the key in memory')
  await until(() => says('(and 1 more like it); all caught up'), 'both told')
  expect(status().summary).toMatch(/^siem token cannot /)
  trouble.fill(undefined)
  await until(() => status().summary.startsWith('All caught up'), 'both back')
  expect(status().warnings).toEqual([])
  expect(
    reported().map(({ sentence, fields }) => [sentence.slice(0, 40), fields['about'], fields['error']]),
  ).toEqual([
    ['A secret or a file can no longer be read', 'siem token', '/run/token: there is no such file'],
    ['A secret or a file can no longer be read', 'acme api_key', 'no permission'],
    ['A secret or a file can be read again', 'acme api_key', undefined],
    ['A secret or a file can be read again', 'siem token', undefined],
  ])
})

describe('files that a sink names', () => {
  const [ours, newer] = [certificate('ours'), certificate('newer')]
  let folder = ''
  const at = (name: string) => join(folder, name)
  const put = (name: string, content: string) => writeFileSync(at(name), content)
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'unread-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    put('ca.pem', ours.cert)
    put('cert.pem', ours.cert)
    put('key.pem', ours.key)
    put('hash', 'h'.repeat(32))
    put('token', 'web-identity')
  })

  /** The warnings of each check. */
  function looking() {
    const tls = { ca_file: at('ca.pem'), cert_file: at('cert.pem'), key_file: at('key.pem') }
    const config = configSchema.parse({
      workspaces: [{ name: 'acme', base_url: 'https://api.example.com', api_key: 'k', audit: {} }],
      sinks: [
        {
          ...{ name: 'siem', type: 'syslog', address: 'tls://siem.example.com:6514', tls },
          redact: [{ fields: ['query'], with: 'hash', key_file: at('hash') }],
        },
        {
          ...{
            name: 'lake',
            type: 's3',
            bucket: 'lake',
            region: 'eu-central-1',
            role_arn: 'arn:aws:iam::1:role/r',
          },
          web_identity_token_file: at('token'),
        },
      ],
    })
    const held = new Map<string, string>()
    const warn: StatusRegistry['warn'] = ({ code, about }, message) => {
      if (message === undefined) held.delete(about)
      else held.set(about, `${code}: ${message}`)
    }
    const log = new LogLines()
    const secrets = new UnreadSecrets(config, log, { warn })
    const look = () => {
      secrets.look()
      return [...held.values()]
    }
    return { look, log }
  }

  test.each([
    ['ca.pem', 'siem tls.ca_file', undefined, 'there is no such file'],
    ['cert.pem', 'siem tls.cert_file', '', 'it contains no certificate in PEM (BEGIN CERTIFICATE)'],
    ['key.pem', 'siem tls.key_file', newer.key, 'it does not belong to the certificate'],
    ['hash', 'siem redact.0.key_file', 'short', 'its key is shorter than 32 bytes'],
    ['token', 'lake web_identity_token_file', undefined, 'there is no such file'],
  ])('%s that was valid and no longer is causes a warning until it is again', (name, field, content, why) => {
    const { look, log } = looking()
    expect(look()).toEqual([])
    const before = readFileSync(at(name), 'utf8')
    if (content === undefined) rmSync(at(name))
    else put(name, content)
    for (let looks = 0; looks < 2; looks++) {
      expect(look()).toEqual([expect.stringContaining(`file_unread: ${field} `)])
      expect(look()[0]).toContain(why)
    }
    put(name, before)
    expect(look()).toEqual([])
    expect(log.lines).toHaveLength(2)
  })

  test('that never were valid block the sink, which reports it', () => {
    rmSync(at('hash'))
    const { look } = looking()
    expect(look()).toEqual([])
    put('hash', 'h'.repeat(32))
    expect(look()).toEqual([])
    rmSync(at('hash'))
    expect(look()).toHaveLength(1)
  })
})
