// The requests of `auditferry api`: each operation as
// documented, and all mistakes in the arguments at once.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { operations } from '../../../../src/cli/api/operations.ts'
import { requestOf, type Given } from '../../../../src/cli/api/request.ts'
import { readForm } from '../../../../src/mock/multipart.ts'
import { permissionWords } from '../../../../src/mock/router.ts'

let folder = ''
const file = (name: string) => join(folder, name)
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'api-'))
  writeFileSync(file('lease.txt'), 'a lease\r\n--form-')
  writeFileSync(file('request.json'), '{"prompt":"x"}')
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const operationOf = (name: string) => operations.find((one) => one.name === name) ?? expect.fail(name)

function open(name: string, param: readonly string[] = [], more: Omit<Given, 'param'> = {}) {
  return requestOf(operationOf(name), { param, ...more })
}

async function* input() {
  yield Buffer.from('{"prompt":')
  yield Buffer.from('"y"}')
}

async function sent(name: string, param: readonly string[], more: Omit<Given, 'param'> = {}) {
  const request = open(name, param, more)
  expect(request.faults).toEqual([])
  const { method, path, headers, body, stream } = await request.ask(Math.random, input)
  const pieces: Uint8Array[] = body ? [body] : []
  for await (const piece of stream ?? []) pieces.push(piece)
  const bytes = Buffer.concat(pieces)
  if (stream) expect(headers?.['content-length']).toBe(String(bytes.length))
  return { line: `${method} ${path}`, headers, bytes }
}

const id = '3f6a0000-0000-4000-8000-000000000001'
const cases: readonly [name: string, params: string, line: string][] = [
  [
    'audit.page',
    `from=${id} take=1000 log_type=auth:login`,
    `GET /api/v1/logs/audit?from=${id}&take=1000&log_type=auth%3Alogin`,
  ],
  ['audit.search', 'time=1760000000', 'GET /api/v1/logs/audit/search?time=1760000000'],
  ['audit.earliest', '', 'GET /api/v1/logs/audit/earliest'],
  ['audit.latest', 'log_type=auth:failed', 'GET /api/v1/logs/audit/latest?log_type=auth%3Afailed'],
  ['history.usage_v2', 'start_time=1 end_time=2', 'GET /api/v2/history/usage?start_time=1&end_time=2'],
  ['history.query_v2', 'start_time=1', 'GET /api/v2/history/query?start_time=1'],
  ['history.usage_v1', 'start_time=1 end_time=2', 'GET /api/v1/history/usage?start_time=1&end_time=2'],
  ['history.query_v1', 'start_time=1 end_time=2', 'GET /api/v1/history/query?start_time=1&end_time=2'],
  [
    'vault.projects',
    'page=2 per_page=100 name=a&b is_knowledge_base=false created_after=1 created_before=2 sort_by=name sort_order=asc',
    'GET /api/v1/vault/workspace/projects?page=2&per_page=100&name=a%26b&is_knowledge_base=false&created_after=1&created_before=2&sort_by=name&sort_order=asc',
  ],
  ['vault.metadata', 'project_id=../../x?y', 'GET /api/v1/vault/get_metadata/..%2F..%2Fx%3Fy'],
  ['vault.files', 'file_ids=a file_ids=b', 'GET /api/v1/vault/get_files?file_ids=a&file_ids=b'],
  [
    'vault.project_files',
    'project_id=p cursor=c name=n content_type=t processing_status=uploaded uploaded_after=1 uploaded_before=2 sort_by=size sort_order=desc limit=3',
    'GET /api/v1/vault/projects/p/files?cursor=c&name=n&content_type=t&processing_status=uploaded&uploaded_after=1&uploaded_before=2&sort_by=size&sort_order=desc&limit=3',
  ],
  ['vault.review_table', 'review_table_id=7', 'GET /api/v1/vault/review_tables/7'],
  ['vault.review_row', 'review_table_id=7 file_id=f', 'GET /api/v1/vault/review_tables/7/rows/f'],
  ['vault.upload', 'project_id=p file_paths=Contracts file=LEASE', 'POST /api/v1/vault/upload_files'],
  ['vault.delete_file', 'file_id=f', 'DELETE /api/v1/vault/files/f'],
  ['vault.delete_project', 'project_id=p', 'DELETE /api/v1/vault/projects/p'],
  ['assistant.completion', 'prompt=x', 'POST /api/v2/completion'],
]

test.each(cases)('%s with %s is the documented request', async (name, params, line) => {
  const param = params.split(' ').filter((one) => one !== '')
  expect(
    (
      await sent(
        name,
        param.map((one) => one.replace('LEASE', file('lease.txt'))),
      )
    ).line,
  ).toBe(line)
})

test('the table has every operation, each in an area with a rate limit, and the mock serves all of them', () => {
  expect(operations.map(({ name }) => name)).toEqual(cases.map(([name]) => name))
  const words = operations.map(({ name }) => name.replace(/^(history\.\w+)_v\d$/, '$1'))
  expect([...new Set(words)].toSorted()).toEqual(
    permissionWords.filter((word) => word.includes('.')).toSorted(),
  )
})

test('an operation is marked as changing something exactly if it is no GET', () => {
  const changing = operations.filter(({ changes }) => changes).map(({ name }) => name)
  expect(changing).toEqual(operations.filter(({ method }) => method !== 'GET').map(({ name }) => name))
})

const partsOf = ({ headers, bytes }: Awaited<ReturnType<typeof sent>>) =>
  (readForm(headers?.['content-type'], bytes) ?? expect.fail('no form')).map(
    ({ name, fileName, bytes: value }) => [
      name,
      ...(fileName === undefined ? [] : [fileName]),
      Buffer.from(value).toString(),
    ],
  )

test('an upload is a form that streams its files, byte for byte', async () => {
  writeFileSync(file('a"b.txt'), '')
  const form = await sent('vault.upload', [
    ...['project_id=p', 'file_paths=Contracts/2026', `file=${file('lease.txt')}`],
    ...['file_paths=', `file=${file('a"b.txt')}`],
  ])
  expect(partsOf(form)).toEqual([
    ['project_id', 'p'],
    ['file_paths', 'Contracts/2026'],
    ['file_paths', ''],
    ['file', 'lease.txt', 'a lease\r\n--form-'],
    ['file', 'a%22b.txt', ''],
  ])
})

test('a file’s name cannot add a header', async () => {
  const name = 'a"\r\nX-Evil: 1.txt'
  writeFileSync(file(name), 'x')
  const { bytes } = await sent('assistant.completion', ['prompt=x', `file=${file(name)}`])
  expect(bytes.toString()).not.toMatch(/^X-Evil/m)
  expect(bytes.toString()).toContain('name="file"; filename="a%22%0D%0AX-Evil: 1.txt"')
})

test('a prompt is sent as a form with the given fields, or as a JSON body from a file or standard input', async () => {
  const form = await sent('assistant.completion', [
    'prompt=a=b\r\n§',
    'stream=true',
    'mode=draft',
    'model=alpha-5',
  ])
  expect(partsOf(form)).toEqual([
    ['prompt', 'a=b\r\n§'],
    ['stream', 'true'],
    ['mode', 'draft'],
    ['model', 'alpha-5'],
  ])
  for (const [body, text] of [
    [`@${file('request.json')}`, '{"prompt":"x"}'],
    ['-', '{"prompt":"y"}'],
  ] as const) {
    const { headers, bytes } = await sent('assistant.completion', [], { body })
    expect([headers, bytes.toString()]).toEqual([{ 'content-type': 'application/json' }, text])
  }
})

test('if the specification leaves a path open, --path and any parameters are allowed', async () => {
  const more = { path: '/v9/{project_id}/files?all=1' }
  const { line } = await sent('vault.project_files', ['project_id=a/b', 'ids=1', 'ids=2'], more)
  expect(line).toBe('GET /v9/a%2Fb/files?all=1&ids=1&ids=2')
})

test.each<[name: string, param: string[], more: Omit<Given, 'param'>, faults: RegExp[]]>([
  [
    'audit.page',
    ['take=1001', 'x=1', 'constructor=1', 'loose', 'log_type=a', 'log_type=b'],
    {},
    [
      /^--param take: expected a whole number from 1 to 1000$/,
      /^--param x: audit.page takes from, take, log_type$/,
      /^--param constructor: audit.page takes /,
      /^--param loose: expected name=value$/,
      /^--param log_type is given more than once$/,
      /^--param from is missing: text \(id of an entry\)$/,
    ],
  ],
  ['audit.search', ['time=-1'], {}, [/^--param time: expected a whole number \(UTC epoch seconds/]],
  [
    'vault.projects',
    ['is_knowledge_base=yes', 'sort_by=size', 'per_page=0', 'page=1.5'],
    {},
    [/true or false/, /one of date, name/, /from 1 to 100/, /of at least 1/],
  ],
  ['vault.metadata', ['project_id=..'], {}, [/^--param project_id: expected an id$/]],
  ['vault.metadata', ['project_id='], {}, [/^--param project_id: expected an id$/]],
  ['vault.delete_file', [], {}, [/^--param file_id is missing: text$/]],
  [
    'vault.upload',
    ['project_id=p', 'file_paths=', 'file=/no/such'],
    {},
    [/^--param file: cannot read \/no\/such \(ENOENT\)$/],
  ],
  [
    'assistant.completion',
    ['prompt=x', 'model=alpha-6', 'file=/'],
    {},
    [/one of alpha-5, /, /is not a file$/],
  ],
  [
    'assistant.completion',
    ['prompt=x'],
    { body: '@/no/such' },
    [/^--body: cannot read/, /^--param prompt: put it into the body/],
  ],
  ['assistant.completion', [], { body: 'text' }, [/^--body: expected @file, or - for/]],
  ['audit.latest', [], { body: '-' }, [/^--body: audit.latest takes none$/]],
  ['audit.latest', [], { path: '/x' }, [/^--path: the specification names the path of audit.latest$/]],
  [
    'vault.metadata',
    [],
    { path: '//evil.example/{project_id}' },
    [/project_id is missing/, /^--path: expected a path/],
  ],
  ['vault.metadata', [], { path: '@evil.example/' }, [/^--path: expected a path/]],
])('%s with %j %j reports every mistake', (name, param, more, faults) => {
  const found = open(name, param, more).faults
  expect(found).toHaveLength(faults.length)
  for (const [i, fault] of faults.entries()) expect(found[i]).toMatch(fault)
})
