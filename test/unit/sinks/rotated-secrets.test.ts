// Secrets that rotate in the files that a configuration names: which of them the next request uses.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { readTextFile } from '../../../src/config/files.ts'
import { loadConfig } from '../../../src/config/load.ts'
import { sinkKinds } from '../../../src/sinks/index.ts'
import { FakeHec, hecTransport } from '../../fakes/hec.ts'
import { linesOf, runOf, someEntries } from '../../fakes/lines.ts'
import { FakeS3, s3Transport } from '../../fakes/s3.ts'
import { sinkDeps } from '../../fakes/sink-deps.ts'
import { settled } from '../../simulation/virtual-clock.ts'

const never = new AbortController().signal
let folder: string
let deps: ReturnType<typeof sinkDeps>

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'rotated-'))
  deps = sinkDeps()
})
afterEach(() => rmSync(folder, { recursive: true }))

const write = (name: string, value: string) => writeFileSync(join(folder, name), value)
const remove = (name: string) => rmSync(join(folder, name))

/** The first sink of a configuration on disk. */
function configured(sink: string) {
  const workspace = '{ name: acme, base_url: "https://api.example.com", api_key: k, audit: {} }'
  write('a.yaml', `workspaces: [${workspace}]\nsinks: [{ name: there, ${sink} }]\n`)
  const { sinks } = loadConfig(join(folder, 'a.yaml'), { env: {}, readFile: readTextFile })
  return sinks[0] ?? expect.fail('no sink')
}

function openHec(fake: FakeHec, more = 'acks: false', gate = Promise.resolve()) {
  const options = configured(
    `type: splunk_hec, url: "https://splunk:8088", token: "\${file:${folder}/token}", ${more}`,
  )
  if (options.type !== 'splunk_hec') return expect.fail(options.type)
  const { clock } = deps
  const sink = sinkKinds.splunk_hec.open('there', options, {
    ...deps,
    transport: () => async (request, signal) => {
      await gate
      return hecTransport(fake, clock)(request, signal)
    },
  })
  const lines = linesOf(runOf(someEntries(2)), sink.frame)
  const deliver = () => sink.deliver({ lines, detail: '', possibleDuplicate: false }, never)
  const tokens = () =>
    fake.exchanges.map(({ headers, status }) => `${headers['authorization'] ?? ''} ${status}`)
  return { deliver, tokens }
}

test('a rotated token of a collector is used at the next request, before the old one is refused', async () => {
  write('token', 'old\n')
  const { deliver, tokens } = openHec(new FakeHec({ tokens: { old: {}, new: {} } }))
  await deliver()
  write('token', 'new\n')
  deps.clock.pass(1_000)
  await deliver()
  expect(tokens()).toEqual(['Splunk old 200', 'Splunk new 200'])
})

test('a rotated token is also used to ask for acknowledgements', async () => {
  write('token', 'old')
  const acked = { tokens: { old: { acks: true }, new: { acks: true } }, ackDelayMs: 5_000 }
  const { deliver, tokens } = openHec(new FakeHec(acked), 'acks: true')
  const { confirmation } = await deliver()
  write('token', 'new')
  void confirmation?.confirmed(never)
  for (let i = 0; i < 10; i++) {
    await settled()
    deps.clock.advance()
  }
  expect(tokens().at(-1)).toBe('Splunk new 200')
})

test('of two batches in flight with a token that is given up, neither is refused', async () => {
  write('token', 'old')
  let answer: () => void = () => undefined
  const gate = new Promise<void>((resolve) => {
    answer = resolve
  })
  const { deliver, tokens } = openHec(new FakeHec({ tokens: { new: {} } }), 'acks: false', gate)
  const both = Promise.all([deliver(), deliver()])
  await settled()
  write('token', 'new')
  answer()
  expect(await both).toMatchObject([{ acknowledged: 2 }, { acknowledged: 2 }])
  expect(tokens()).toEqual(['Splunk old 403', 'Splunk old 403', 'Splunk new 200', 'Splunk new 200'])
})

test('a token whose file is briefly empty or missing stays unchanged', async () => {
  write('token', 'old')
  const { deliver, tokens } = openHec(new FakeHec({ tokens: { old: {}, new: {} } }))
  for (const turn of [() => write('token', ''), () => remove('token'), () => write('token', 'new')]) {
    turn()
    deps.clock.pass(1_000)
    await deliver()
  }
  expect(tokens()).toEqual(['Splunk old 200', 'Splunk old 200', 'Splunk new 200'])
})

function openS3(fake: FakeS3, more = '', gate = () => Promise.resolve()) {
  const key = `access_key_id: "\${file:${folder}/id}", secret_access_key: "\${file:${folder}/secret}"`
  const place = 'bucket: logs, endpoint: "https://s3.test", force_path_style: true'
  const options = configured(`type: s3, ${place}, ${key}${more}`)
  if (options.type !== 's3') return expect.fail(options.type)
  const { clock } = deps
  const sink = sinkKinds.s3.open('there', options, {
    ...deps,
    transport: () => async (request, signal) => {
      await gate()
      return s3Transport(fake, clock)(request, signal)
    },
  })
  let seq = 0
  const put = async () => {
    const group = {
      stream: { workspace: 'acme', source: 'audit' },
      day: '2026-01-31',
      replay: undefined,
    } as const
    const own = ++seq
    const object = await sink.open(own)
    await object.write(Buffer.from(`{"id":${own}}\n`))
    const ready = await object.end({ group, count: 1, first: own, last: own, firstAtUs: 1, lastAtUs: 1 })
    await ready.put(never)
    await object.discard()
    const { headers, status } = fake.exchanges.at(-1) ?? expect.fail('nothing was asked')
    return `${/Credential=([^/]+)\//.exec(headers['authorization'] ?? '')?.[1] ?? ''} ${status}`
  }
  return { put }
}

function rotate(...[id, secret]: readonly [string, string]): void {
  write('id', id)
  write('secret', secret)
}

test('a rotated key of a bucket is used at the next request, before the old one is refused, both halves together', async () => {
  rotate('OLD', 'secret-1')
  const { put } = openS3(new FakeS3({ keys: ['OLD', 'NEW'] }))
  expect(await put()).toBe('OLD 200')
  write('id', 'NEW')
  deps.clock.pass(1_000)
  expect(await put()).toBe('OLD 200')
  write('secret', 'secret-2')
  deps.clock.pass(1_000)
  expect(await put()).toBe('NEW 200')
})

test('of two objects in flight with a bucket key that is given up, neither is refused', async () => {
  rotate('OLD', 'secret-1')
  const waiting: (() => void)[] = []
  let isHeld = false
  const gate = () => (isHeld ? new Promise<void>((resolve) => waiting.push(resolve)) : Promise.resolve())
  const fake = new FakeS3({ keys: ['OLD', 'NEW'] })
  const { put } = openS3(fake, '', gate)
  await put()
  isHeld = true
  const both = Promise.all([put(), put()])
  while (waiting.length < 2) await settled()
  isHeld = false
  rotate('NEW', 'secret-2')
  Object.assign(fake.switches, { keys: ['NEW'] })
  for (const go of waiting) go()
  expect(await both).toEqual(['NEW 200', 'NEW 200'])
})

test('a key of which one file is briefly empty or missing stays unchanged', async () => {
  rotate('OLD', 'secret-1')
  const { put } = openS3(new FakeS3({ keys: ['OLD', 'NEW'] }))
  write('id', 'NEW')
  for (const turn of [() => write('secret', ''), () => remove('secret'), () => remove('id')]) {
    turn()
    deps.clock.pass(1_000)
    expect(await put()).toBe('OLD 200')
  }
  rotate('NEW', 'secret-2')
  deps.clock.pass(1_000)
  expect(await put()).toBe('NEW 200')
})

test('a role is assumed again with a rotated key', async () => {
  rotate('OLD', 'secret-1')
  const fake = new FakeS3()
  const { put } = openS3(
    fake,
    ', role_arn: "arn:aws:iam::123456789012:role/w", sts_endpoint: "https://sts.test"',
  )
  await put()
  rotate('NEW', 'secret-2')
  deps.clock.pass(1_000)
  await put()
  expect(fake.roles.map(({ by }) => by)).toEqual(['OLD', 'NEW'])
})
