// The connection checks of `validate`, against fakes.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { validate, type ConnectChecks } from '../../../src/cli/validate.ts'

let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'validate-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

async function connecting(checks: ConnectChecks, base = 'https://a.example.com', said: string[] = []) {
  const config = join(folder, 'a.yaml')
  writeFileSync(
    config,
    `journal: { path: ${folder}/a.db, max_bytes: 1MiB }
workspaces: [{ name: acme, base_url: "${base}", api_key: k, audit: {} }]
sinks: [{ name: console, type: stdout }]
`,
    { mode: 0o600 },
  )
  let stdout = ''
  let stderr = ''
  const context = {
    env: {},
    version: '0.0.0',
    stdout: (text: string) => void (said.push(text), (stdout += text)),
    stderr: (text: string) => void (stderr += text),
    print: () => Promise.resolve(),
    signal: new AbortController().signal,
  }
  const code = await validate(context, { config, connect: true }, checks)
  return { code, last: stdout.split('\n').at(-2), stderr }
}

test('if all checks pass, --connect exits 0', async () => {
  const checks: ConnectChecks = async ({ workspaces }) =>
    workspaces.map(({ name }) => ({ what: `workspace ${name}`, ok: true, message: 'answers' }))
  expect(await connecting(checks)).toEqual({
    code: 0,
    last: 'ok: 1 workspace, 1 sink, 0 warnings',
    stderr: '',
  })
})

test('the summary names the journal', async () => {
  const said: string[] = []
  await connecting(async () => [], undefined, said)
  expect(said.join('')).toMatch(/\n {2}journal \S+ \(not opened\)\n {2}workspace /)
})

test('before it asks, --connect says that the API counts its requests too', async () => {
  const said: string[] = []
  const checks: ConnectChecks = async (_, { stdout }) => {
    stdout('asked\n')
    return []
  }
  await connecting(checks, undefined, said)
  const text = said.join('')
  expect(text).toMatch(/the few requests to the API count against the key's rate limit\n.*asked\n/s)
})

test('if a check fails, --connect reports it and exits 78', async () => {
  const checks: ConnectChecks = async () => [
    { what: 'workspace acme', ok: false, message: 'the key is refused' },
    { what: 'console', ok: true, message: 'is there' },
  ]
  expect(await connecting(checks)).toEqual({
    code: 78,
    last: '  ok   console: is there',
    stderr: expect.stringMatching(
      /^  FAIL workspace acme: the key is refused\nauditferry: the configuration is valid, but 1 of 2 connection checks failed/,
    ) as string,
  })
})

test('an invalid configuration is not checked further', async () => {
  const checks: ConnectChecks = () => expect.fail('asked')
  expect((await connecting(checks, 'nowhere')).code).toBe(78)
})
