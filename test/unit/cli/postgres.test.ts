// Commands with a journal in PostgreSQL while no daemon answers: they say what they need, and open nothing.
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { runProgram } from '../../../src/cli/program.ts'
import { openEngine } from '../../../src/cli/run/engine.ts'
import { knownConfig } from '../../../src/cli/shared/config-file.ts'
import { quietEnvironment } from '../../../src/cli/shared/environment.ts'
import { configOrAddress } from '../../../src/cli/shared/journal.ts'
import { basePath } from '../../../src/config/journal.ts'
import { openContext } from './context.ts'

let folder: string
let file: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'commands-'))
  file = join(folder, 'a.yaml')
  write('postgres: { url: "postgres://ferry:hidden@db.example.com/audit" }')
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

function write(journal: string, more = ''): void {
  writeFileSync(
    file,
    `journal: { ${journal} }
workspaces: [{ name: acme, base_url: "https://a.example.com", api_key: k3y, audit: {} }]
sinks: [{ name: siem, type: syslog, address: "tls://siem:6514" }]
server: { listen: "127.0.0.1:1" }
${more}`,
    { mode: 0o600 },
  )
}

async function run(...args: string[]) {
  const { context, heard } = openContext()
  const code = await runProgram([...args, '--config', file], context)
  return { code, ...heard() }
}

const socket = /\/auditferry-[0-9a-f]{8}\/replica\.sock/

describe('a command that needs the journal', () => {
  test.each([
    ['dead-letters', 'list'],
    ['quarantine', 'list'],
    ['reconcile', '--from', '2026-01-01', '--to', '2026-01-02'],
    ['replay', '--sink', 'siem', '--from', '2026-01-01', '--dry-run'],
  ])('needs a daemon: %s', async (...args) => {
    const { code, stdout, stderr } = await run(...args)
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr).toMatch(
      /^auditferry: No daemon answers at \S+, and with a journal in PostgreSQL this command needs one: /,
    )
    expect(stderr).toMatch(socket)
  })

  test('status names the socket and how to start a daemon, also if another part of the file is invalid', async () => {
    const { code, stderr } = await run('status')
    expect(code).toBe(1)
    expect(stderr).toMatch(/no daemon runs on \S+: no answer at \S+\.sock/)
    write('postgres: { url: "postgres://ferry:hidden@db.example.com/audit" }', 'nonsense: 1\n')
    expect((await run('status')).stderr).toContain('nonsense')
  })

  test('an invalid file still leads to the socket of its database', () => {
    const { context } = openContext()
    const place = () => basePath(configOrAddress(file, context).place)
    const before = place()
    expect(`${before}.sock`).toMatch(socket)
    writeFileSync(join(folder, 'url'), 'postgres://other:rotated@db.example.com/audit')
    write('postgres: { url: "${file:url}", shards: none }', 'nonsense: 1\n')
    expect(configOrAddress(file, context).faults?.message).toContain('nonsense')
    expect(place()).toBe(before)
  })

  test('a bundle names the database, without its password', async () => {
    expect(await run('bundle', join(folder, 'bundle.md'))).toMatchObject({ code: 0 })
    const { stdout } = await run('bundle', '-')
    expect(stdout).toContain('PostgreSQL at db.example.com:5432/audit, schema auditferry')
    expect(stdout).not.toContain('hidden')
    expect(existsSync(join(folder, 'bundle.md'))).toBe(true)
  })
})

test('run --once is refused: it needs one journal', async () => {
  const { code, stderr } = await run('run', '--once')
  expect(code).toBe(78)
  expect(stderr).toContain('journal.postgres: run --once does not work with a journal in PostgreSQL')
})

test('validate names the database, connects to nothing, and warns that it has no TLS', async () => {
  const { code, stdout, stderr } = await run('validate')
  expect(code).toBe(0)
  expect(stdout).toContain('journal PostgreSQL at db.example.com:5432/audit, schema auditferry (not opened)')
  expect(stderr).toContain('unencrypted')
})

describe('a replica refuses a folder for its control socket and spool', () => {
  /** Its place for temporary files is `folder`. */
  function setup() {
    vi.stubEnv('TMPDIR', folder)
    const { context, stop } = openContext()
    const config = knownConfig(file, context)
    const environment = quietEnvironment(config, context)
    const base = basePath(config)
    mkdirSync(dirname(base))
    return { base, start: () => openEngine({ config, environment }, undefined, stop.signal) }
  }
  afterEach(() => vi.unstubAllEnvs())

  test('that every user may write to', async () => {
    const { base, start } = setup()
    chmodSync(dirname(base), 0o777)
    await expect(start()).rejects.toThrow(
      `the folder ${dirname(base)} can be written by every user of this machine`,
    )
  })

  test('that another process has', async () => {
    const { base, start } = setup()
    const other = createServer((_, response) => response.end('{}'))
    await new Promise<void>((resolve) => other.listen(`${base}.sock`, resolve))
    await expect(start()).rejects.toThrow(
      'Another auditferry already runs on this machine with this database',
    )
    other.close()
  })
})

describe('journal migrate', () => {
  test('needs journal.postgres', async () => {
    write(`path: ${folder}/a.db`)
    const { code, stderr } = await run('journal', 'migrate')
    expect(code).toBe(78)
    expect(stderr).toContain('journal.postgres is not set')
  })

  test.each([
    ['that is not there', undefined, 'there is no such file'],
    ['without a URL', 'hidden', 'is not a URL of PostgreSQL'],
  ])('refuses an --owner-url-file %s', async (_, content, why) => {
    const owner = join(folder, 'owner')
    if (content !== undefined) writeFileSync(owner, content)
    const { code, stderr } = await run('journal', 'migrate', '--owner-url-file', owner)
    expect(code).toBe(78)
    expect(stderr).toContain(`--owner-url-file ${owner}: ${why}`)
    expect(stderr).not.toContain('hidden')
  })
})
