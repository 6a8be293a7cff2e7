// `verify` as typed: for a folder without any network,
// for a bucket, and by hand with openssl as documented.
import { execFileSync, spawnSync } from 'node:child_process'
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { runProgram } from '../../../src/cli/program.ts'
import { listenMock } from '../../../src/mock/listen.ts'
import { openMock } from '../../../src/mock/mock.ts'
import { systemClock } from '../../../src/platform/clock.ts'
import { sha256, type Manifest } from '../../../src/sinks/s3/evidence/manifest.ts'
import { FakeS3 } from '../../fakes/s3.ts'
import { openS3Server, type S3Listener } from '../../fakes/s3-server.ts'
import { keyPair, Setup } from '../sinks/s3/evidence-setup.ts'
import { openContext } from './context.ts'

let folder: string
let objects: ReadonlyMap<string, Buffer>
let copy: string
let publicKey: string
let lastHash: string

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'verify-'))
  publicKey = join(folder, 'public.pem')
  const setup = await Setup.open()
  await setup.append(30)
  await setup.step()
  for (const packed of ['.gz', '.zst', ''] as const) {
    await setup.runDispatcher(10, { packed, filtered: 2, parked: 1 })
    await setup.hour()
  }
  writeFileSync(publicKey, setup.keys.publicPem)
  writeFileSync(join(folder, 'private.pem'), setup.keys.privatePem)
  objects = new Map(setup.bucket.objects)
  const body = objects.get(setup.bucket.keys('manifest/').at(-1) ?? '') ?? Buffer.alloc(0)
  lastHash = sha256(body.subarray(0, body.indexOf(10) + 1))
  await setup.close()
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))
beforeEach(() => {
  copy = mkdtempSync(join(folder, 'copy-'))
  for (const [key, body] of objects) {
    mkdirSync(dirname(join(copy, key)), { recursive: true })
    writeFileSync(join(copy, key), body)
  }
})

async function program(...argv: string[]) {
  const { context, heard } = openContext()
  const code = await runProgram(['verify', ...argv], context)
  const { stdout: out, stderr: err } = heard()
  return { code, out, err }
}
const check = (...more: string[]) => program(copy, '--public-key', publicKey, ...more)
const keys = (beginning: string) => [...objects.keys()].filter((key) => key.startsWith(beginning)).sort()

describe('a folder', () => {
  it('that is complete is proved, with what was left out and what it does not prove', async () => {
    const { code, out, err } = await check()
    expect([code, err]).toEqual([0, ''])
    expect(out).toContain('proved: 6 objects with 21 entries: none is missing, changed, moved or added')
    expect(out).toContain('chain of sink archive, journal a1b2c3d4e5f6a1b2c3d4e5f6: 3 manifests')
    expect(out).toContain(`SHA-256 of its last manifest: ${lastHash}`)
    expect(out).toContain("6 entries that the sink's settings left out and 3 that became dead letters")
    expect(out).toContain('that the chain is complete at its end')
    expect(out).toContain('that what the API showed was true')
    expect(out).toContain('says that it was stored in s3://acme-audit/logs/acme')
  })

  it('with a fault exits 1 and says where and what, in one line', async () => {
    const key = keys('workspace=')[0] ?? ''
    rmSync(join(copy, key))
    const { code, out } = await check()
    expect(code).toBe(1)
    expect(out.split('\n').filter((line) => line.startsWith('fault: '))).toEqual([`fault: ${key} is missing`])
    expect(out).toContain(
      'NOT proved: 1 fault; the manifests list 6 objects with 21 entries\n  affected: 4 entries, sequence numbers 4 to 10, of 2026-01-31T00:00:04.000000Z to 2026-01-31T00:00:10.000000Z\n',
    )
  })

  it('with several faults says what they affect together: damaged, added, and doubtful', async () => {
    const [one = '', two = ''] = keys('workspace=').filter((key) => /0000[45]-/.test(key))
    rmSync(join(copy, one))
    writeFileSync(join(copy, two), 'damaged')
    const forged = one.replace(
      /\d{16}-\d{16}-[0-9a-f]{16}/,
      `${'7'.padStart(16, '0')}-${'8'.padStart(16, '0')}-0123456789abcdef`,
    )
    writeFileSync(join(copy, forged), 'forged')
    rmSync(join(copy, keys('manifest/')[1] ?? ''))
    const { code, out } = await check()
    expect([code, out]).toEqual([
      1,
      expect.stringContaining('NOT proved: 4 faults; the manifests list 4 objects with 14 entries'),
    ])
    expect(out).toMatch(
      / {2}affected: 7 entries, sequence numbers 4 to 10, of 2026-01-31T00:00:04\.000000Z to 2026/,
    )
    expect(out).toContain('  added by others: 1 object, by name of the sequence numbers 7 to 8\n')
    expect(out).toContain(
      '  in doubt: sequence numbers 11 to 20 of sink archive, journal a1b2c3d4e5f6a1b2c3d4e5f6',
    )
    expect(out).toMatch(/0000[45]-.* was changed or damaged: it cannot be decompressed \(/)
    rmSync(join(copy, keys('manifest/')[2] ?? ''))
    rmSync(join(copy, keys('manifest/')[0] ?? ''))
    writeFileSync(join(copy, keys('manifest/')[2] ?? ''), 'bad')
    expect((await check()).out).toContain('  in doubt: sequence numbers 1 and up of sink archive')
  })

  it('whose end was cut is only detected with a time or a hash from outside', async () => {
    const last = keys('manifest/').at(-1) ?? ''
    expect((await check('--last-manifest', lastHash.toUpperCase())).code).toBe(0)
    expect((await check('--until', '2026-01-31T13:00:00Z')).code).toBe(0)
    rmSync(join(copy, last))
    expect((await check()).code).toBe(0)
    for (const bound of [
      ['--last-manifest', lastHash],
      ['--until', '2026-01-31T13:00:00Z'],
      ['--until', '2026-02-01'],
    ]) {
      const { code, out } = await check(...bound)
      expect([code, out]).toEqual([1, expect.stringContaining('the end of')])
    }
  })

  it('with a link for an object is judged by its target, and an added link is reported', async () => {
    const key = keys('workspace=')[0] ?? ''
    const elsewhere = join(folder, 'elsewhere')
    copyFileSync(join(copy, key), elsewhere)
    rmSync(join(copy, key))
    symlinkSync(elsewhere, join(copy, key))
    expect((await check()).code).toBe(0)
    const forged = key.replace(/-[0-9a-f]{16}\.ndjson/, '-0123456789abcdef.ndjson')
    symlinkSync(elsewhere, join(copy, forged))
    expect((await check()).out).toContain(`fault: ${forged} is not listed by the manifest`)
  })

  it('of a whole bucket is refused, and the likely prefix is suggested', async () => {
    const whole = mkdtempSync(join(folder, 'whole-'))
    const logs = join(whole, 'bucket', 'logs')
    mkdirSync(dirname(logs))
    renameSync(copy, logs)
    for (const place of [whole, dirname(logs), join(logs, 'manifest'), join(logs, 'manifest/sink=archive')]) {
      const { code, err } = await program(place, '--public-key', publicKey)
      const meant = `error: ${place}: it has no manifest folder; did you mean ${logs}?\n`
      expect([code, err]).toEqual([2, meant])
    }
  })

  it('with a link for a folder, or a broken link, is not proved, since links are not followed', async () => {
    const elsewhere = mkdtempSync(join(folder, 'linked-'))
    writeFileSync(join(elsewhere, 'part-0.ndjson'), '{}\n')
    for (const [name, to, why] of [
      ['workspace=evil', elsewhere, 'is a link to a folder'],
      ['other', elsewhere, 'is a link to a folder'],
      ['gone', join(elsewhere, 'none'), 'is a link that leads nowhere'],
    ] as const) {
      symlinkSync(to, join(copy, name))
      const { code, out } = await check()
      expect([code, out]).toEqual([1, expect.stringContaining(`fault: ${name} ${why}`)])
      rmSync(join(copy, name))
    }
    expect((await check()).code).toBe(0)
  })

  it('that is missing or empty is not proved', async () => {
    const { code, err } = await program(join(folder, 'none'), '--public-key', publicKey)
    expect([code, err]).toEqual([1, expect.stringContaining('ENOENT')])
    const empty = mkdtempSync(join(folder, 'empty-'))
    const { code: emptyCode, out } = await program(empty, '--public-key', publicKey)
    expect([emptyCode, out]).toEqual([1, expect.stringContaining('contains no manifest')])
  })
})

it.each<[string, string[], string]>([
  ['no key', ['x'], 'expected --public-key'],
  ['an invalid key', ['x', '--public-key', 'package.json'], 'holds no public key'],
  ['the private key', ['x', '--public-key', 'PRIVATE'], 'it holds a private key: give its public half'],
  [
    'a missing key file',
    ['x', '--public-key', 'nowhere.pem'],
    'nowhere.pem cannot be used: there is no such file',
  ],
  ['no path', ['--public-key', 'PUBLIC'], 'expected what to verify'],
  ['another scheme', ['gs://a/b', '--public-key', 'PUBLIC'], 'expected s3://bucket/prefix'],
  ['an invalid time', ['x', '--public-key', 'PUBLIC', '--until', 'soon'], '--until soon'],
  ['an invalid hash', ['x', '--public-key', 'PUBLIC', '--last-manifest', 'abc'], 'expected a SHA-256'],
  ['an invalid gap', ['x', '--public-key', 'PUBLIC', '--accept-gap', '7'], 'expected two sequence numbers'],
  [
    'plain http to another machine',
    ['s3://bucket/x', '--public-key', 'PUBLIC', '--endpoint', 'http://s3.example.com'],
    'plain http',
  ],
  [
    'an invalid endpoint',
    ['s3://bucket/x', '--public-key', 'PUBLIC', '--endpoint', 'nonsense'],
    'endpoint: expected http(s)://host:port',
  ],
  ['an unknown option', ['x', '--key', 'PUBLIC'], 'unknown option'],
])('%s is wrong usage', async (_, argv, reported) => {
  const files: Record<string, string> = { PUBLIC: publicKey, PRIVATE: join(folder, 'private.pem') }
  const { code, err } = await program(...argv.map((word) => files[word] ?? word))
  expect([code, err]).toEqual([2, expect.stringContaining(reported)])
})

describe('a bucket', () => {
  let server: S3Listener
  let fake: FakeS3
  let config: string
  beforeAll(async () => {
    fake = new FakeS3({ bucket: 'acme-audit' })
    server = await openS3Server(fake)
    config = join(folder, 'config.yaml')
    writeFileSync(
      config,
      `journal: { path: ${folder}/a.db }
workspaces: [{ name: acme, base_url: "https://a.example.com", api_key: "\${env:NOT_HERE}", audit: {} }]
sinks:
  - { name: archive, type: s3, bucket: acme-audit, prefix: logs/acme, region: us-east-1, endpoint: "${server.url}",
      force_path_style: true, access_key_id: id, secret_access_key: secret }
  - { name: local, type: file, path: ${folder}/out.ndjson }
`,
    )
  })
  afterAll(() => server.close())
  beforeEach(() => {
    fake.objects.clear()
    for (const [key, body] of objects)
      fake.objects.set(`logs/acme/${key}`, { key: `logs/acme/${key}`, body, headers: {} } as never)
  })

  const verify = (...argv: string[]) => program(...argv, '--config', config, '--public-key', publicKey)

  it('that is complete is proved, by a sink of the configuration or by its address', async () => {
    for (const argv of [
      ['--sink', 'archive'],
      ['s3://acme-audit/logs/acme/', '--sink', 'archive'],
      ['S3://acme-audit/logs/acme/', '--sink', 'archive'],
    ]) {
      const { code, out, err } = await verify(...argv)
      expect([code, err, out]).toEqual([0, '', expect.stringContaining('proved: 6 objects with 21 entries')])
    }
  })

  it('without any credentials gets an error that names the environment variables', async () => {
    for (const name of Object.keys(process.env).filter((each) => each.startsWith('AWS_')))
      vi.stubEnv(name, undefined)
    vi.stubEnv('HOME', folder)
    vi.stubEnv('AWS_EC2_METADATA_DISABLED', 'true')
    const address = ['s3://acme-audit/logs', '--endpoint', server.url, '--region', 'us-east-1']
    const { code, err } = await program(...address, '--public-key', publicKey)
    vi.unstubAllEnvs()
    expect([code, err]).toEqual([
      1,
      expect.stringContaining('set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY'),
    ])
  })

  it('with a missing object is not proved', async () => {
    const key = keys('workspace=')[0] ?? ''
    fake.objects.delete(`logs/acme/${key}`)
    const { code, out } = await verify('--sink', 'archive')
    expect([code, out]).toEqual([1, expect.stringContaining(`fault: ${key} is missing`)])
  })

  it('that does not answer is neither proved nor disproved', async () => {
    fake.faultOfAll = () => ({ kind: 'code', status: 403, code: 'AccessDenied' })
    const { code, out, err } = await verify('--sink', 'archive')
    fake.faultOfAll = undefined
    expect([code, out]).toEqual([1, ''])
    expect(err).toContain('acme-audit')
  })

  it('with a chain copied from elsewhere is not proved', async () => {
    for (const [key, object] of [...fake.objects])
      fake.objects.set(key.replace('logs/acme/', 'other/'), {
        ...object,
        key: key.replace('logs/acme/', 'other/'),
      })
    const { code, out } = await verify('s3://acme-audit/other', '--sink', 'archive')
    expect([code, out]).toEqual([1, expect.stringContaining('was made for s3://acme-audit/logs/acme')])
    expect(out).toContain('NOT proved: 1 fault; the manifests list')
  })

  it('of a sink of another type is wrong usage', async () => {
    const local = await program('--sink', 'local', '--config', config, '--public-key', 'nowhere.pem')
    expect(local).toMatchObject({ code: 2, out: '' })
    expect(local.err).toContain('sink local is of type file: only what an s3 sink stored can be verified')
  })
})

describe('a single run', () => {
  const blocked = `, { name: beta, base_url: "$API", api_key: another, audit: {} }`
  it.each([
    [' try', '', 1, 0],
    [' or third try, beside a blocked source', blocked, 2, 1],
  ])(
    'ends once its objects are listed and proved, also if that takes a second%s',
    async (_, more, failing, code) => {
      const fake = new FakeS3({ bucket: 'acme-audit' })
      const server = await openS3Server(fake)
      const options = {
        seed: 1,
        workspaces: [{ name: 'acme', keys: [{ key: 'k' }] }],
        traffic: { backlog: 300 },
      }
      const api = await listenMock(openMock({ clock: systemClock, ...options }), {
        port: 0,
        host: '127.0.0.1',
      })
      try {
        let puts = 0
        fake.faultOfAll = ({ method, url }) =>
          method === 'PUT' && url.includes('/manifest/') && ++puts <= failing
            ? { kind: 'code', status: 500, code: 'InternalError' }
            : undefined
        const keyFile = join(folder, 'run-key.pem')
        const pair = keyPair()
        writeFileSync(keyFile, pair.privatePem)
        writeFileSync(join(folder, 'run-public.pem'), pair.publicPem)
        const config = join(folder, 'run.yaml')
        writeFileSync(
          config,
          `journal: { path: ${folder}/run-${code}/a.db }
log: { level: error }
workspaces: [{ name: acme, base_url: "${api.url}", api_key: k, audit: {} }${more.replace('$API', api.url)}]
sinks:
  - { name: archive, type: s3, bucket: acme-audit, region: us-east-1, endpoint: "${server.url}", force_path_style: true,
      access_key_id: id, secret_access_key: secret, evidence: { signing_key_file: ${keyFile} } }
`,
        )
        const { context, heard } = openContext()
        const onTerminal = { ...context, terminal: true }
        expect(await runProgram(['run', '--once', '--config', config], onTerminal)).toBe(code)
        const ran = heard()
        expect(ran.stdout).toBe('')
        expect(ran.stderr).toContain(code === 0 ? 'was read and delivered' : 'only blocked parts remain')
        const count = fake.lines.length
        expect(count).toBeGreaterThanOrEqual(300)
        const proof = [
          'verify',
          '--config',
          config,
          '--sink',
          'archive',
          '--public-key',
          join(folder, 'run-public.pem'),
        ]
        expect(await runProgram(proof, context)).toBe(0)
        const proved = heard().stdout
        expect(proved).toContain(`with ${count} entries`)
        expect(proved).not.toContain('newer than')
      } finally {
        await api.close()
        await server.close()
      }
    },
  )
})

const openssl = String(spawnSync('bash', ['-c', 'openssl version']).stdout).startsWith('OpenSSL 3')

describe.runIf(openssl)('openssl, as documented', () => {
  const text = readFileSync('docs/evidence.md', 'utf8')
  const block = (after: string) => /```text\n(.*?)```/s.exec(text.slice(text.indexOf(after)))?.[1] ?? ''
  const run = (script: string, cwd: string) =>
    execFileSync('bash', ['-euo', 'pipefail', '-c', script], { cwd }).toString()

  it('makes keys that the sink can use', async () => {
    const place = mkdtempSync(join(folder, 'keys-'))
    run(block('## Switch it on'), place)
    const setup = await Setup.open()
    try {
      setup.pem = readFileSync(join(place, 'signing-key.pem'), 'utf8')
      await setup.step()
      await setup.hour()
      const { readPublicKeys } = await import('../../../src/sinks/s3/evidence/manifest.ts')
      const given = readPublicKeys(readFileSync(join(place, 'public.pem'), 'utf8'))
      expect((await setup.verify({ keys: given })).faultLines).toEqual([])
    } finally {
      await setup.close()
    }
  })

  it('checks a manifest, its position in the chain and an object, and refuses a changed one', () => {
    const place = mkdtempSync(join(folder, 'hand-'))
    const [first = '', second = ''] = keys('manifest/')
    const own = (key: string) => {
      const body = objects.get(key) ?? Buffer.alloc(0)
      return JSON.parse(body.subarray(0, body.indexOf(10)).toString()) as Manifest
    }
    const object = own(first).objects[0]
    copyFileSync(join(copy, first), join(place, 'manifest.ndjson'))
    copyFileSync(publicKey, join(place, 'public.pem'))
    copyFileSync(join(copy, object?.key ?? ''), join(place, 'object.ndjson.gz'))
    const script = block('<!-- by hand -->')
    const reported = run(script, place)
    expect(reported).toContain('Signature Verified Successfully')
    expect(reported).toContain(own(first).key_sha256)
    expect(reported).toContain(own(second).previous?.sha256 ?? 'none')
    expect(reported).toContain(object?.sha256 ?? 'none')
    const changed = readFileSync(join(place, 'manifest.ndjson'), 'utf8').replace(
      '"delivered":7',
      '"delivered":8',
    )
    writeFileSync(join(place, 'manifest.ndjson'), changed)
    expect(() => run(script, place)).toThrow()
  })
})
