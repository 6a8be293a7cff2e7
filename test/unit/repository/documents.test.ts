// What the documents say is true: configurations parse, commands are ones that the program takes or that .ci/run runs, metrics and tests exist.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { runProgram } from '../../../src/cli/program.ts'
import { loadConfig } from '../../../src/config/load.ts'
import { openMetrics } from '../../../src/observability/metrics.ts'

const read = (path: string): string => readFileSync(path, 'utf8')
const inFolder = (folder: string): string[] =>
  readdirSync(folder)
    .filter((name) => name.endsWith('.md'))
    .map((name) => join(folder, name))
const documents = [
  ...['README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'src/mock/README.md', 'test/README.md'],
  ...['helm/auditferry/README.md', 'helm/auditferry/UPGRADING.md'],
  ...['docs', 'docs/deploy', 'docs/runbooks', 'docs/sinks', 'docs/decisions', 'docs/operations'].flatMap(
    inFolder,
  ),
]

interface Block {
  readonly document: string
  readonly language: string
  readonly text: string
}

const blocks: readonly Block[] = documents.flatMap((document) =>
  Array.from(read(document).matchAll(/^```(\w+)\n(.*?)^```$/gms), ([, language = '', text = '']) => ({
    document,
    language,
    text,
  })),
)

describe('configurations in the documents', () => {
  const whole = blocks.filter(({ language, text }) => language === 'yaml' && /^workspaces:/m.test(text))

  test.each(whole)('the one of $document is valid', ({ text }) => {
    const readFile = (path: string): string => (path === 'it.yaml' ? text : 'stand-in')
    expect(loadConfig('it.yaml', { env: {}, readFile }).sinks.length).toBeGreaterThan(0)
  })

  test('README has one of about fifteen lines', () => {
    const [own] = whole.filter(({ document }) => document === 'README.md')
    expect(own?.text.trim().split('\n').length).toBeLessThanOrEqual(15)
  })
})

describe('commands in the documents', () => {
  const shells = new Set(['sh', 'bash', 'shell', 'console'])
  const commands = blocks
    .filter(({ language }) => shells.has(language))
    .flatMap(({ document, text }) =>
      text
        .split('\n')
        .flatMap((line) => line.replace(/\s+#.*$/, '').split(' && '))
        .map((command) => command.trim())
        .filter((command) => command !== '' && !command.startsWith('#'))
        .map((command) => ({ document, command })),
    )
  const program = /^(?:npx auditferry|auditferry|node_modules\/\.bin\/node dist\/main\.js) ?/
  const own = commands.filter(({ command }) => program.test(command))
  /** Typed, line by line, by test/e2e/mock-readme.test.ts. */
  const typed = ({ document }: { document: string }) => document === 'src/mock/README.md'
  const others = commands.filter((each) => !program.test(each.command) && !typed(each))

  test('there are some of each', () => {
    expect(own.length).toBeGreaterThan(5)
    expect(others.length).toBeGreaterThan(5)
  })

  test.each(own)('$document: the program takes: $command', async ({ command }) => {
    const words = command.replace(program, '').split(' ')
    const first = words.findIndex((word) => word.startsWith('-'))
    const named = first < 0 ? words : words.slice(0, first)
    let reported = ''
    const context = {
      env: {},
      version: '0.0.0',
      stdout: (text: string) => void (reported += text),
      stderr: (text: string) => void (reported += text),
      print: async () => undefined,
      signal: new AbortController().signal,
    }
    expect(await runProgram([...named, '--help'], context)).toBe(0)
    // The usage before the arguments: `Usage: auditferry dead-letters show [options] <id>`.
    const usage = /^Usage: auditferry ?(.*?) ?(?:\[options\]|$)/m.exec(reported)?.[1] ?? 'no usage'
    expect(named.join(' ').startsWith(usage) && (usage !== '' || named.length === 0)).toBe(true)
    for (const option of words.filter((word) => word.startsWith('--')))
      expect(reported).toMatch(new RegExp(`${option}\\b`))
  })

  /** What .ci/run runs in its own steps. */
  const steps = [
    'npm ci',
    'npm start',
    'npm test',
    'npm run test:long',
    'npm run check',
    'npm run test:integration',
    'npm run test:planted',
    // By the suite of the image.
    'npm run image',
    '.ci/run',
  ]

  /** What needs an engine, a cluster or a host of one's own: the suites of image, chart and cluster run similar ones. */
  const elsewhere = /^(docker|helm|kubectl|systemctl|systemd-sysusers|journalctl|runuser|install|cp) ?/

  test.each(others)('$document: .ci/run runs: $command', ({ command }) => {
    // The demo asks the same address.
    if (elsewhere.test(command)) expect(command).not.toContain('|')
    else if (command.startsWith('curl ')) expect(command).toMatch(/http:\/\/127\.0\.0\.1:\d+\//)
    else expect([...steps, ...read('.ci/documented-commands').split('\n')]).toContain(command)
  })

  test('the steps are steps of .ci/run', () => {
    const run = read('.ci/run') + read('.ci/demo.ts')
    for (const part of [
      'npm ci',
      "['start', '--'",
      'suite tests test',
      'suite long test:long',
      'npm run check',
      'test:integration',
      'test:image',
    ])
      expect(run).toContain(part)
  })
})

test('metrics.md has every metric, and no other', async () => {
  const metrics = openMetrics({ version: '0.0.0', processMetrics: false })
  metrics.shards()
  const text = await metrics.render()
  const there = Array.from(text.matchAll(/^# TYPE (\S+)/gm), ([, name = '']) => name).sort()
  const reported = Array.from(
    read('docs/operations/metrics.md').matchAll(/^\| `(auditferry_\w+)` /gm),
    ([, name = '']) => name,
  )
  expect([...new Set(reported)].sort()).toEqual(there)
})

test('guarantees.md names tests that exist', () => {
  const files = readdirSync('test', { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.endsWith('.ts'),
  )
  const titles = files.map((name) => read(join('test', name)).replaceAll('\\', '')).join('\n')
  const text = read('docs/guarantees.md')
  for (const [, path = ''] of text.matchAll(/`(test\/[\w/.-]+\.ts)`/g))
    expect(existsSync(path), path).toBe(true)
  for (const [, title = ''] of text.matchAll(/"([^"]{12,})"/g))
    for (const piece of title.split('…').map((each) => each.trim())) expect(titles).toContain(piece)
})

test('each invariant that the code names is one of guarantees.md, and has tests there', () => {
  const sections = read('docs/guarantees.md')
    .split(/^## (?=\d+\.)/m)
    .slice(1)
  const invariants = new Set(sections.map((section) => String(Number.parseInt(section))))
  const code = readdirSync('src', { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.endsWith('.ts'),
  )
  const named = code.flatMap((name) =>
    Array.from(read(join('src', name)).matchAll(/\binvariant (\d+)/g), ([, number]) => number),
  )
  expect(named.length).toBeGreaterThan(20)
  expect(named.filter((number) => number !== undefined && !invariants.has(number))).toEqual([])
  expect(invariants.size).toBe(12)
  expect(sections.filter((section) => !/^Tests: .*`test\//m.test(section))).toEqual([])
})
