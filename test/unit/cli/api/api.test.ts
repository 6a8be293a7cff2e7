// `auditferry api` over real sockets: its requests, what
// it refuses to send, and how it reports bad answers.
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { IncomingMessage, RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest'
import { api, type ApiOptions } from '../../../../src/cli/api/api.ts'
import { runProgram } from '../../../../src/cli/program.ts'
import { ConnectorError } from '../../../../src/core/errors.ts'
import { controlPath } from '../../../../src/journal/sqlite/files.ts'
import { listenMock } from '../../../../src/mock/listen.ts'
import { openMock } from '../../../../src/mock/mock.ts'
import { systemClock } from '../../../../src/platform/clock.ts'
import { openContext } from '../context.ts'

const KEY = 'planted-key'

let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'api-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

interface Served {
  readonly url: string
  readonly asked: IncomingMessage[]
}

async function serve(answer: RequestListener): Promise<Served> {
  const asked: IncomingMessage[] = []
  const server = createServer((request, response) => {
    asked.push(request)
    request.resume().on('end', () => answer(request, response))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked }
}

const answering =
  (status: number, body: string | Uint8Array, headers: Record<string, string> = {}): RequestListener =>
  (_, response) =>
    void response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(body)

function configured(url: string, names = ['acme'], key = KEY): string {
  const config = join(folder, 'a.yaml')
  const workspaces = names.map((name) => ({ name, base_url: url, api_key: key, audit: {} }))
  const sinks = [{ name: 'siem', type: 'splunk_hec', url: 'https://s.example.com', token: 'planted-token' }]
  writeFileSync(config, JSON.stringify({ journal: { path: join(folder, 'a.db') }, workspaces, sinks }), {
    mode: 0o600,
  })
  return config
}

/** The exit code, or the error message as the program prints it. */
async function ask(config: string, name: string | undefined, options: Partial<ApiOptions> = {}) {
  const { context, heard } = openContext()
  const all = { param: [], write: false, verbose: false, ...options, config }
  const code = await api(context, all, name).catch((error: unknown) => {
    if (error instanceof ConnectorError) return error.message
    throw error
  })
  return { code, ...heard() }
}

test('without an operation it lists all, and an area lists its parameters, without a configuration', async () => {
  const { stdout, code } = await ask('/no/such', undefined)
  expect(code).toBe(0)
  expect(stdout).toMatch(
    /^vault\.delete_project +DELETE +\/api\/v1\/vault\/projects\/\{project_id\} .*needs --write; path assumed$/m,
  )
  expect(stdout.trimEnd().split('\n')).toHaveLength(18)
  const vault = (await ask('/no/such', 'vault')).stdout
  expect(vault).toMatch(/^ {2}per_page +optional +a whole number from 1 to 100$/m)
  expect(vault).toMatch(/^ {2}file +required +the path of a file; may be repeated$/m)
})

test('the answer is printed as it came, and nothing else', async () => {
  const bytes = Uint8Array.from({ length: 300_000 }, (_, i) => (i * 7) % 256)
  const { url, asked } = await serve(answering(202, bytes, { 'content-type': 'application/pdf' }))
  const { code, stdout, stderr } = await ask(configured(url), 'vault.metadata', { param: ['project_id=p'] })
  expect([code, stderr]).toEqual([0, ''])
  expect(Buffer.from(stdout, 'latin1').equals(bytes)).toBe(true)
  expect(asked).toHaveLength(1)
  expect(asked[0]?.headers).toMatchObject({
    authorization: `Bearer ${KEY}`,
    'user-agent': 'auditferry/0.0.0 (api)',
  })
})

test('--output writes a new file that only its owner may read, and touches no other file', async () => {
  const { url, asked } = await serve(answering(200, '{"log":null}'))
  const config = configured(url)
  const output = join(folder, 'answer.json')
  expect(await ask(config, 'audit.latest', { output })).toEqual({ code: 0, stdout: '', stderr: '' })
  expect([readFileSync(output, 'utf8'), statSync(output).mode & 0o777]).toEqual(['{"log":null}', 0o600])
  const again = await ask(config, 'audit.latest', { output })
  expect([again.code, asked.length]).toEqual([2, 1])
  expect(again.stderr).toMatch(/^error: --output: .* exists and is not overwritten\n$/)
})

test('an empty answer is no failure, and says that no file was written', async () => {
  const { url } = await serve((_, response) => void response.writeHead(204).end())
  const config = configured(url)
  expect(await ask(config, 'audit.latest')).toEqual({ code: 0, stdout: '', stderr: '' })
  const output = join(folder, 'none')
  expect((await ask(config, 'audit.latest', { output })).stderr).toMatch(
    /the answer is empty, so .*none was not/,
  )
})

test('--verbose prints status and useful headers to standard error, without the key', async () => {
  const headers = { 'x-ratelimit-remaining': '7', 'x-request-id': `r-${KEY}-\u009b2J`, 'x-other': 'o' }
  const { url } = await serve(answering(200, '[]', headers))
  const { stdout, stderr } = await ask(configured(url), 'audit.latest', { verbose: true })
  expect(stdout).toBe('[]')
  expect(stderr).toMatch(/^GET \/api\/v1\/logs\/audit\/latest answered 200\n/)
  expect(stderr).toContain('  content-type: application/json\n')
  expect(stderr).toContain('  x-ratelimit-remaining: 7\n')
  expect(stderr).toContain('  x-request-id: r-***-\\u{9b}2J\n')
  expect(stderr).not.toMatch(/x-other|planted/)
})

test('a call that changes something is not sent without --write, and prints what it would send', async () => {
  const { url, asked } = await serve(answering(200, '{}'))
  const config = configured(url)
  const file = join(folder, 'a.txt')
  writeFileSync(file, 'content')
  for (const [name, param, line] of [
    ['vault.delete_project', ['project_id=p1'], 'DELETE /api/v1/vault/projects/p1 to '],
    ['vault.delete_file', ['file_id=f1'], 'DELETE /api/v1/vault/files/f1 to '],
    [
      'vault.upload',
      ['project_id=p', 'file_paths=', `file=${file}`],
      'upload_files with project_id, file_paths, file to ',
    ],
    ['assistant.completion', ['prompt=privileged'], 'POST /api/v2/completion with prompt to '],
  ] as const) {
    const { code, stdout, stderr } = await ask(config, name, { param })
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toContain(`${name} changes something, so nothing was sent. With --write it sends `)
    expect(stderr).toContain(`${line}${url}, with the key of workspace acme`)
    expect(stderr).not.toMatch(/privileged|planted/)
  }
  expect(asked).toEqual([])
  expect(await ask(config, 'vault.delete_file', { param: ['file_id=f1'], write: true })).toMatchObject({
    code: 0,
  })
  expect(asked.map(({ method, url: path }) => `${method} ${path}`)).toEqual(['DELETE /api/v1/vault/files/f1'])
})

test('all mistakes in the arguments are reported at once, and nothing is sent', async () => {
  const { url, asked } = await serve(answering(200, '{}'))
  const { code, stderr } = await ask(configured(url, ['acme', 'beta']), 'audit.page', {
    param: ['take=0', 'x=1'],
  })
  expect(code).toBe(2)
  expect(stderr.trimEnd().split('\n')).toEqual([
    'error: --workspace is missing: one of acme, beta',
    expect.stringContaining('error: --param take: '),
    expect.stringContaining('error: --param x: '),
    expect.stringContaining('error: --param from is missing: '),
  ])
  expect((await ask(configured(url), 'audit.latest', { workspace: 'other' })).stderr).toContain(
    'no workspace other',
  )
  expect((await ask(configured(url), 'audit.nothing')).stderr).toContain(
    'there is no operation audit.nothing',
  )
  expect(asked).toEqual([])
})

test.each<[status: number, body: string, headers: Record<string, string>, says: RegExp]>([
  [
    400,
    '{"error":"Missing required filters"}',
    {},
    /answered 400, "Missing required filters": the request is invalid: check the parameters of audit.latest$/,
  ],
  [401, '{"error":"Unauthorized"}', {}, /answered 401, "Unauthorized": the API key was refused/],
  [
    403,
    '{"error":"Forbidden"}',
    {},
    /answered 403, "Forbidden": the key of acme may not use audit.latest; the audit log needs the permission Territory admin/,
  ],
  [
    404,
    '{"error":"Not found"}',
    {},
    /answered 404, "Not found": there is no such path, or nothing with this id/,
  ],
  [
    404,
    '<html>planted</html>',
    { 'content-type': 'text/html' },
    /answered 404: the API does not answer like this: check base_url$/,
  ],
  [
    429,
    '{"error":"Rate limit exceeded"}',
    { 'retry-after': '17' },
    /answered 429, "Rate limit exceeded": the key's rate limit is used up, .* try again in 17 s$/,
  ],
  [429, '{}', {}, /answered 429: .* try again in a minute$/],
  [302, '', { location: 'https://evil.example' }, /answered 302: it redirects, which is never followed/],
  [500, '{"error":"Unexpected server error"}', {}, /answered 500, "Unexpected server error": /],
  [403, '{"text":"Forbidden"}', { server: 'Splunkd' }, /a Splunk server answers there/],
  // A hostile or broken API: it repeats the secrets, sends
  // control characters, never ends, or has another shape.
  [403, `{"error":"no ${KEY} planted-token \\u001b[31m"}`, {}, /, "no \*\*\* \*\*\* \\u\{1b\}\[31m": /],
  [500, `{"error":"${'long '.repeat(1000)}"}`, {}, /^GET \S+ answered 500, "[long ]{300}": /],
  [500, `{"error":"${'long '.repeat(100_000)}"}`, {}, /answered 500: /],
  [500, '{"error":{"planted":1}}', {}, /answered 500: /],
  [500, 'null', {}, /answered 500: /],
  [500, 'planted', {}, /answered 500: /],
])('an answer of %d is a failure with its likely cause (%#)', async (status, body, headers, says) => {
  const { url } = await serve(answering(status, body, headers))
  const { code, stdout, stderr } = await ask(configured(url), 'audit.latest')
  expect(code).toMatch(says)
  expect(code).not.toMatch(/planted/)
  expect([stdout, stderr]).toEqual(['', ''])
})

test('a 404 on a path that the specification leaves open says so', async () => {
  const { url } = await serve(answering(404, '{"error":"File not found"}'))
  const { code } = await ask(configured(url), 'vault.metadata', { param: ['project_id=p'] })
  expect(code).toMatch(/leaves its path and parameters open: --path names another$/)
})

test('a login page instead of an answer is printed, with a warning', async () => {
  const { url } = await serve(answering(200, '<html>', { 'content-type': 'text/html' }))
  const { stdout, stderr, code } = await ask(configured(url), 'audit.latest')
  expect([code, stdout]).toEqual([0, '<html>'])
  expect(stderr).toMatch(/a proxy or a login page may have answered; check base_url\n$/)
})

test('the key is never printed, however an answer that repeats it is split', async () => {
  const text = `a${KEY}b${KEY.slice(0, 5)}${KEY}${KEY}c${KEY.slice(0, 8)}`
  const { url } = await serve((_, response) => {
    response.writeHead(200, { 'content-type': 'text/plain' })
    response.flushHeaders()
    const next = (at: number) => {
      if (at >= text.length) response.end()
      else response.write(text.slice(at, at + 3), () => setImmediate(next, at + 3))
    }
    next(0)
  })
  expect((await ask(configured(url), 'audit.latest')).stdout).toBe('a***bplant******cplanted-')
})

test('an interrupted answer is a failure, after what had arrived is printed', async () => {
  const { url } = await serve((_, response) => {
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': '100' })
    response.write('[1', () => setImmediate(() => response.destroy()))
  })
  const { code, stdout } = await ask(configured(url), 'audit.latest')
  expect(stdout).toBe('[1')
  expect(code).toMatch(/connection/)
})

test('a closed standard output ends it without an error', async () => {
  const { url } = await serve(answering(200, 'x'.repeat(1_000_000)))
  const { context } = openContext()
  const print = () => Promise.reject(Object.assign(new Error('gone'), { code: 'EPIPE' }))
  const options = { param: [], write: false, verbose: false, config: configured(url) }
  expect(await api({ ...context, print }, options, 'audit.latest')).toBe(0)
})

test('beside a running daemon it uses the daemon’s user agent, so that the daemon recognises the request in the audit log', async () => {
  const { url, asked } = await serve(answering(200, '{}'))
  const config = configured(url)
  const control = createServer(answering(200, '{"instance":"abc123"}'))
  await new Promise<void>((resolve) => control.listen(controlPath(join(folder, 'a.db')), resolve))
  onTestFinished(() => {
    control.closeAllConnections()
    control.close()
  })
  expect((await ask(config, 'audit.latest')).code).toBe(0)
  expect(asked[0]?.headers['user-agent']).toBe('auditferry/0.0.0 (instance abc123)')
})

test('list, ask, upload and a refusal work against the mock', async () => {
  const mock = openMock({ clock: systemClock, traffic: { entriesPerHour: 0 }, projects: 2 })
  const listening = await listenMock(mock, { port: 0, host: '127.0.0.1' })
  onTestFinished(() => listening.close())
  const config = configured(listening.url, ['acme'], 'acme-key')
  const { context, heard } = openContext()
  const run = async (...args: string[]) => {
    const code = await runProgram(['api', ...args, '--config', config], context)
    return { code, ...heard() }
  }
  const listed = await run('vault.projects', '--param', 'per_page=1')
  expect(listed).toMatchObject({ code: 0, stderr: '' })
  const { response } = JSON.parse(listed.stdout) as { response: { content: { projects: { id: string }[] } } }
  const id = response.content.projects[0]?.id ?? expect.fail('no project')
  const file = join(folder, 'lease.txt')
  writeFileSync(file, 'a lease')
  const given = [`project_id=${id}`, 'file_paths=Contracts', `file=${file}`].flatMap((one) => [
    '--param',
    one,
  ])
  const uploaded = await run('vault.upload', ...given, '--write')
  expect(uploaded).toMatchObject({ code: 0, stderr: '' })
  const { file_ids: [fileId = ''] = [] } = JSON.parse(uploaded.stdout) as { file_ids?: string[] }
  expect((await run('vault.files', '--param', `file_ids=${fileId}`)).stdout).toContain('"uploaded"')
  const prompted = await run(
    'assistant.completion',
    '--param',
    'prompt=Is it void?',
    '--param',
    `file=${file}`,
    '--write',
  )
  expect(prompted.stdout).toContain('(see lease.txt)')
  expect(await run('vault.files', '--param', 'file_ids=', '--verbose')).toMatchObject({ code: 1, stdout: '' })
  expect(await run('vault.metadata', '--param', 'project_id=none')).toEqual({
    ...{ code: 1, stdout: '' },
    stderr: expect.stringMatching(/^auditferry: GET \S+ answered 404, "File not found": /) as string,
  })
})

test('only the list of commands imports code that can change a vault', () => {
  const root = join(import.meta.dirname, '../../../../src')
  const files = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.endsWith('.ts'),
  )
  const importing = files.filter(
    (name) =>
      !name.startsWith('cli/api/') && /from '[^']*\/api\/[^']*'/.test(readFileSync(join(root, name), 'utf8')),
  )
  expect(files.length).toBeGreaterThan(100)
  expect(importing.toSorted()).toEqual(['cli/command-list.ts', 'cli/command-options.ts'])
})
