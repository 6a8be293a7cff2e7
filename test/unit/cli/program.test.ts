// The program as a person calls it: exit codes, and what is printed where. Only what needs a process of its own starts one.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { runProgram } from '../../../src/cli/program.ts'
import { openContext } from './context.ts'

const main = resolve('src/main.ts')
const fixtures = resolve('test/fixtures/config')

let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'program-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

/** In this process. */
async function run(...args: readonly string[]) {
  const { context, heard } = openContext()
  const code = await runProgram(args, context)
  return { code, ...heard() }
}

/** As a process of its own. */
function start(args: readonly string[], env: Record<string, string> = {}, node: readonly string[] = []) {
  const inherited = { ...process.env }
  delete inherited['AUDITFERRY_CONFIG']
  const child = spawnSync(process.execPath, [...node, main, ...args], {
    cwd: folder,
    env: { ...inherited, ...env },
    encoding: 'utf8',
  })
  return { code: child.status, stdout: child.stdout, stderr: child.stderr }
}

const good = (key = 'planted-key') => `journal: { path: ${folder}/a.db, max_bytes: 1MiB }
workspaces:
  - { name: acme, base_url: "https://a.example.com", api_key: "${key}", audit: {} }
sinks:
  - { name: console, type: stdout, sources: [audit, vault.projects] }
  - { name: archive, type: file, path: ${folder}/out }
  - { name: siem, type: splunk_hec, url: "https://s.example.com:8088", token: planted-token, format: envelope }
`

function write(name: string, text: string): string {
  const path = join(folder, name)
  writeFileSync(path, text, { mode: 0o600 })
  return path
}

describe('validate', () => {
  test('a valid configuration exits 0 and prints each sink’s assurance', () => {
    const path = write('a.yaml', good())
    expect(start(['validate', '--config', path])).toEqual({
      code: 0,
      stdout: `${path}
  journal ${join(folder, 'a.db')} (not opened)
  workspace acme reads audit from https://a.example.com
  sink console (stdout, assurance: sent) takes audit as raw
  sink archive (file, assurance: stored) takes audit as raw
  sink siem (splunk_hec, assurance: received) takes audit as envelope
ok: 1 workspace, 3 sinks, 1 warning
`,
      stderr: `${path}:5:53: sinks[0].sources[1]: warning: no workspace has vault.projects switched on\n`,
    })
  })

  test('an invalid one exits 78 with its faults, without secrets, on standard error only', async () => {
    const { code, stdout, stderr } = await run('validate', '-c', `${fixtures}/invalid-hec-options.yaml`)
    expect({ code, stdout }).toEqual({ code: 78, stdout: '' })
    expect(stderr.trim().split('\n')).toHaveLength(4)
    expect(stderr).not.toContain('planted')
  })

  test.each(['validate', 'run'])('renamed keys exit 78 and name the new key: %s', async (command) => {
    const { code, stderr } = await run(command, '-c', `${fixtures}/invalid-renamed-keys.yaml`)
    expect(code).toBe(78)
    expect(stderr.match(/\.yaml:\d+:\d+: \S+: was renamed: write \w+ instead$/gm)).toHaveLength(4)
  })

  test('faults of text, references and files are reported together', async () => {
    const path = write('a.yaml', good('${file:/nonexistent/key}').replace(`${folder}/a.db`, folder))
    const { code, stderr } = await run('validate', '-c', path)
    expect(code).toBe(78)
    expect(stderr).toContain(`${path}:1:18: journal.path: is a folder: expected a file name\n`)
    expect(stderr).toContain(
      `${path}:3:63: workspaces[0].api_key: \${file:/nonexistent/key} cannot be resolved`,
    )
  })

  test('a missing configuration exits 78', async () => {
    expect(await run('validate', '--config', '/nonexistent/a.yaml')).toEqual({
      code: 78,
      stdout: '',
      stderr:
        '/nonexistent/a.yaml:1:1: (whole file): the configuration cannot be read: there is no such file; name another with --config, or begin with what auditferry init prints\n',
    })
  })

  test('without --config it is the one of the variable, then of the checkout, then the installed one', () => {
    const { code, stderr } = start(['validate'])
    expect(code).toBe(78)
    expect(stderr).toMatch(
      /^auditferry: Neither --config nor .* \.\/config\/auditferry\.yaml nor \/etc\/auditferry\/auditferry\.yaml is there: begin with mkdir -p config && auditferry init > config\/auditferry\.yaml, fill it in, then auditferry validate\n$/,
    )
    mkdirSync(join(folder, 'config'))
    write('config/auditferry.yaml', good())
    expect(start(['validate']).stdout).toMatch(/^\.\/config\/auditferry\.yaml\n/)
    expect(start(['validate'], { AUDITFERRY_CONFIG: write('b.yaml', good()) }).stdout).toContain('b.yaml\n')
  })
})

test('schema prints a JSON Schema of the configuration', async () => {
  const { code, stdout } = await run('schema')
  expect(code).toBe(0)
  expect(JSON.parse(stdout)).toMatchObject({
    $schema: 'http://json-schema.org/draft-07/schema#',
    required: ['workspaces', 'sinks'],
    additionalProperties: false,
  })
})

test.each([
  [['vlidate'], "error: unknown command 'vlidate'\n(Did you mean validate?)"],
  [['validate', '--confg', 'x'], "error: unknown option '--confg'\n(Did you mean --config?)"],
  [['--config', 'x', 'run'], '(options follow their command: auditferry run …)'],
  [['validate', '--config'], "error: option '-c, --config <file>' argument missing"],
  [['validate', 'x'], 'error: too many arguments'],
  [['mock', '--port', '70000'], 'Expected a port from 0 to 65535.'],
  [['mock', '--seed', '-1'], 'Expected a whole number.'],
  [['tap', '--sink', 'a', '--limit', '0'], 'Expected a number from 1 to 1000.'],
  [['dead-letters', 'list', '--limit', '0'], 'Expected a whole number from 1 on.'],
  [['quarantine', 'drop', '--limit', '0'], 'Expected a whole number from 1 on.'],
  [['tap', '--sink', 'a', '--limit', '1001'], 'Expected a number from 1 to 1000.'],
  [['mock', '--switch', 'from=sideways'], 'error: switch from: expected one of exclusive, inclusive'],
  [['mock', '--fault', 'late=2'], 'error: fault late: expected a rate from 0 to 1'],
  [['mock', '--key', 'secret'], 'error: key: expected name:secret or name:secret:permission,permission'],
  [['mock', '--key', 'a:b:all'], 'error: key a: no such permission as all; there are audit, '],
  [['backfill', '--status', '--cancel'], "error: option '--cancel' cannot be used with option '--status'"],
  [['replay', '--cancel', '--status'], "error: option '--cancel' cannot be used with option '--status'"],
  [[], 'Usage: auditferry'],
])('%j is wrong usage and exits 2', async (args, words) => {
  const { code, stdout, stderr } = await run(...args)
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
  expect(stderr).toContain(words)
})

test('--version and --help exit 0 on standard output', async () => {
  expect(start(['--version'])).toEqual({
    code: 0,
    stdout: expect.stringMatching(/^\d+\.\d+\.\d+\n$/) as string,
    stderr: '',
  })
  expect(await run('validate', '--help')).toMatchObject({ code: 0, stderr: '' })
  expect((await run('run', '--help')).stdout).not.toContain('default: false')
})

test('files that the program creates are accessible to its user only', () => {
  const tell = 'process.on("exit", () => process.stderr.write(process.umask().toString(8)))'
  expect(
    start(['--version'], {}, ['--import', `data:text/javascript,${encodeURIComponent(tell)}`]).stderr,
  ).toBe('77')
})

test('an older Node is reported in one line and exits 1', () => {
  const old =
    'Object.defineProperty(process, "versions", { value: { ...process.versions, node: "22.18.0" } })'
  const { code, stdout, stderr } = start(['--version'], {}, [
    '--import',
    `data:text/javascript,${encodeURIComponent(old)}`,
  ])
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  expect(stderr).toBe(
    'auditferry needs Node 22.19 or newer, this is 22.18.0: npm ci installs one as node_modules/.bin/node\n',
  )
})

/** The mock in this process, until the test ends. Resolves with what it prints once it serves. */
async function serveMock(...args: readonly string[]): Promise<string> {
  const { context, stop } = openContext()
  return new Promise((stdout, reject) => {
    const ended = runProgram(['mock', '--port', '0', '--backlog', '5', ...args], { ...context, stdout })
    void ended.then((code) => reject(new Error(`it ended with ${code} before it served`)))
    onTestFinished(async () => {
      stop.abort()
      expect(await ended).toBe(0)
    })
  })
}

describe('mock', () => {
  test.each(['SIGTERM', 'SIGINT'] as const)('serves until %s and exits 0', async (signal) => {
    const child = spawn(process.execPath, [
      main,
      'mock',
      '--port',
      '0',
      '--backlog',
      '5',
      '--rate-limit',
      '0',
    ])
    const [line] = (await once(child.stdout, 'data')) as [Buffer]
    const url =
      /mock API at (\S+), workspace acme, API key (\S+), seed 1/.exec(line.toString()) ?? expect.fail()
    const asked = await fetch(`${url[1] ?? ''}/api/v1/logs/audit/earliest`, {
      headers: { authorization: `Bearer ${url[2] ?? ''}` },
    })
    expect(asked.status).toBe(200)
    expect(await asked.json()).toHaveProperty('log.id')
    child.kill(signal)
    const [code] = (await once(child, 'exit')) as [number]
    expect(code).toBe(0)
  })

  test('a key from a file works and is not printed', async () => {
    const file = write('key', 'planted-key\n')
    const line = await serveMock('--api-key-file', file)
    expect(line).not.toContain('planted')
    const url = /mock API at (\S+),/.exec(line)?.[1] ?? expect.fail()
    const ask = (key: string) =>
      fetch(`${url}/api/v1/logs/audit/earliest`, { headers: { authorization: `Bearer ${key}` } })
    expect((await ask('planted-key')).status).not.toBe(401)
    expect((await ask('acme-key')).status).toBe(401)
  })

  test('keys with permissions are listed by name, without their secrets', async () => {
    const keys = ['--key', 'siem:planted-1', '--key', 'usage:planted-2:history.usage']
    const line = await serveMock(...keys)
    expect(line).toContain('API keys siem, usage,')
    expect(line).not.toContain('planted')
    const url = /mock API at (\S+),/.exec(line)?.[1] ?? expect.fail()
    const ask = async (key: string) => {
      const headers = { authorization: `Bearer ${key}` }
      return (await fetch(`${url}/api/v1/logs/audit/earliest`, { headers })).status
    }
    expect([await ask('planted-1'), await ask('planted-2'), await ask('acme-key')]).toEqual([200, 403, 401])
  })

  test('an unusable address exits 1 with the reason', async () => {
    const taken = /:(\d+), workspace/.exec(await serveMock())?.[1] ?? expect.fail()
    expect(await run('mock', '--port', taken)).toEqual({
      code: 1,
      stdout: '',
      stderr: `mock API: making its past\nauditferry: mock API: cannot listen on 127.0.0.1, port ${taken} (EADDRINUSE): choose others with --host and --port\n`,
    })
  })
})

test('a daemon whose listen address is taken exits 1 with one line, so that a supervisor starts it again', async () => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const listen = `127.0.0.1:${(server.address() as AddressInfo).port}`
  const path = write('a.yaml', `${good()}server: { listen: "${listen}" }\n`)
  const { code, stderr } = start(['run', '--config', path])
  server.close()
  expect(code).toBe(1)
  expect(
    stderr
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as unknown),
  ).toMatchObject([
    {
      level: 'error',
      msg: 'The daemon cannot continue and stops',
      reason: `server.listen: ${listen} is in use by another process: stop that one or name another port`,
    },
  ])
})

test('the error that ends the demo is in its log', () => {
  // An address reserved for documentation: no machine has it.
  const { code, stderr } = start(['demo', '--data', join(folder, 'data'), '--listen', '192.0.2.1:9464'])
  expect(code).toBe(1)
  const errors = stderr.split('\n').filter((line) => line.includes('"level":"error"'))
  expect(errors.map((line) => JSON.parse(line) as unknown)).toMatchObject([
    {
      msg: 'The daemon cannot continue and stops',
      reason: expect.stringContaining('192.0.2.1:9464') as string,
    },
  ])
})

describe('a first configuration', () => {
  test('init prints a configuration that is valid once its secrets exist', async () => {
    const { code, stdout } = await run('init', '--sink', 'stdout,splunk_hec')
    expect(code).toBe(0)
    const key = write('key', 'a-key')
    chmodSync(key, 0o400)
    const text = stdout
      .replaceAll(/\/run\/secrets\/\S+(?=})/g, key)
      .replace(/path: \/var\/lib\/auditferry(\S+)/, `path: ${folder}$1\n  max_bytes: 1MiB`)
    const path = write('first.yaml', text)
    expect(await run('validate', '--config', path)).toMatchObject({ code: 0, stderr: '' })
  })

  test('init of an unknown sink type is wrong usage, and lists the known types', async () => {
    const { code, stderr } = await run('init', '--sink', 'kafka')
    expect(code).toBe(2)
    expect(stderr).toBe(
      'error: --sink kafka: there is no such type; known types: stdout, file, splunk_hec, syslog, s3\n',
    )
  })

  test('init of one type twice is wrong usage, since both would have the same name', async () => {
    const { code, stdout, stderr } = await run('init', '--sink', 'file,file')
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toMatch(/^error: --sink contains a value twice: list each once; a second sink of a type/)
  })

  test('config print shows the configuration in force: defaults filled in, secrets masked', async () => {
    const { code, stdout } = await run('config', 'print', '--config', write('a.yaml', good()))
    expect(code).toBe(0)
    expect(stdout).toContain('dedup_retention: 35d')
    expect(stdout).toContain('token: "***"')
    expect(stdout).not.toContain('planted')
  })
})

describe('completion', () => {
  const complete = async (...words: readonly string[]) => {
    const script = write('complete', (await run('completion', 'bash')).stdout)
    const line = `source ${script}; COMP_WORDS=(auditferry ${words.join(' ')}); COMP_CWORD=${words.length}; _auditferry; echo "\${COMPREPLY[*]}"`
    return spawnSync('bash', ['-c', line], { encoding: 'utf8' }).stdout.trim()
  }

  test.each([
    [['dead-l'], 'dead-letters'],
    [['dead-letters', 'dr'], 'drop'],
    [['replay', '--sink', 'siem', '--dr'], '--dry-run'],
    [['run', '--once', '--ti'], '--timeout'],
    [['completion', "''"], 'bash zsh fish --help'],
    [['init', '--sink', "''"], 'stdout file splunk_hec syslog s3'],
    [['init', '--sink', 'spl'], 'splunk_hec'],
    [['replay', '--only', 'j'], 'journal'],
    [['api', 'vault.up'], 'vault.upload'],
  ])('bash completes %j to %s', async (words, whole) => {
    expect(await complete(...words)).toBe(whole)
  })

  const hasZsh = spawnSync('zsh', ['--version']).status === 0

  test.runIf(hasZsh).each([
    [['dead-letters', 'dr'], 'drop'],
    [['init', '--sink', 'spl'], 'splunk_hec'],
  ])('zsh completion of %j offers %s', async (words, whole) => {
    const script = write('complete', (await run('completion', 'zsh')).stdout)
    const asked = `COMP_WORDS=(auditferry ${words.join(' ')}); COMP_CWORD=${words.length}; _auditferry; echo "\${COMPREPLY[*]}"`
    const line = `autoload -U compinit; compinit -u -D; source ${script}; ask() { setopt localoptions ksharrays; ${asked}; }; ask`
    const { stdout, stderr } = spawnSync('zsh', ['-fc', line], { encoding: 'utf8' })
    expect(stderr).toBe('')
    expect(stdout.trim().split(' ')).toContain(whole)
  })

  test('the zsh script uses no reserved name of zsh, and no length that zsh cannot compute', async () => {
    const { stdout } = await run('completion', 'zsh')
    expect(stdout).not.toMatch(/\b(?:path|words|status|argv)=/)
    expect(stdout).not.toMatch(/:[A-Z_]+-1\}/)
  })

  test('each supported shell has a script, and any other is wrong usage', async () => {
    for (const shell of ['bash', 'zsh', 'fish'])
      expect((await run('completion', shell)).stdout).toMatch(/dead-letters[^]*splunk_hec/)
    expect(await run('completion', 'csh')).toMatchObject({ code: 2, stdout: '' })
  })
})

describe('output that cannot be written', () => {
  const shell = (line: string, ...args: string[]) =>
    spawnSync('bash', ['-c', `set -o pipefail; "$0" "$@" ${line}`, process.execPath, main, ...args], {
      cwd: folder,
      encoding: 'utf8',
    })

  test.each([
    ['schema'],
    ['config', 'print', '--config', 'a.yaml'],
    ['validate', '--config', 'a.yaml'],
    ['--help'],
  ])('%s on a full disk exits 1 and says so', (...args) => {
    write('a.yaml', good())
    const { status, stderr } = shell('>/dev/full', ...args)
    expect(stderr).toContain('standard output could not be written completely (ENOSPC)')
    expect(status).toBe(1)
  })

  test('a closed pipe is no failure', () => {
    const { status, stderr } = shell('| head -c 1', 'schema')
    expect([status, stderr]).toEqual([0, ''])
  })
})

describe('wrong usage', () => {
  test('a timeout without --once', async () => {
    const { code, stderr } = await run('run', '--timeout', '5m', '--config', write('a.yaml', good()))
    expect(code).toBe(2)
    expect(stderr).toContain('--timeout needs --once')
  })

  test.each(['0s', '10', 'soon'])('a timeout of %s', async (timeout) => {
    const { code, stderr } = await run(
      'run',
      '--once',
      '--timeout',
      timeout,
      '--config',
      write('a.yaml', good()),
    )
    expect([code, stderr]).toEqual([
      2,
      `error: --timeout ${timeout}: expected a duration such as 90s or 10m\n`,
    ])
  })

  test.each(['x', 'host', '127.0.0.1:99999', ':1'])('a demo with the listen address %s', async (listen) => {
    const { code, stderr } = await run('demo', '--data', join(folder, 'data'), '--listen', listen)
    expect(code).toBe(2)
    expect(stderr).toContain('Expected host:port, such as 127.0.0.1:9464')
    expect(stderr).not.toContain('.yaml')
  })
})
