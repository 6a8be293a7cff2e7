// Commands against a real server: the tables are made and checked as an operator does it.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runProgram } from '../../src/cli/program.ts'
import { SCHEMA_VERSION } from '../../src/journal/postgres/schema.ts'
import { certificate } from '../fakes/certificates.ts'
import { openContext } from '../unit/cli/context.ts'
import { noPostgres, startPostgres } from './server.ts'
import type { PostgresServer } from './server.ts'

const why = noPostgres()
const given = why === undefined ? describe : describe.skip
if (why !== undefined) it.skip(`skipped: ${why}`, () => undefined)

let server: PostgresServer
let folder: string

given('journal migrate and validate --connect', () => {
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'commands-'))
    server = await startPostgres({ withPassword: ['ferry'] })
    await server.query("CREATE ROLE ferry LOGIN PASSWORD 's3cret'")
  })
  afterAll(async () => {
    await server.stop()
    rmSync(folder, { recursive: true, force: true })
  })

  const write = (name: string, text: string): string => {
    const path = join(folder, name)
    writeFileSync(path, text, { mode: 0o600 })
    return path
  }

  async function run(args: readonly string[], { more = '', url = server.url('ferry:s3cret') } = {}) {
    write('url', url)
    const config = write(
      'a.yaml',
      `journal: { postgres: { url: "\${file:url}"${more} } }
workspaces: [{ name: acme, base_url: "http://127.0.0.1:1", api_key: k3y, audit: {} }]
sinks: [{ name: siem, type: syslog, address: "tcp://127.0.0.1:1" }]
server: { listen: "127.0.0.1:1" }
`,
    )
    const { context, heard } = openContext()
    return { code: await runProgram([...args, '--config', config], context), ...heard() }
  }
  const migrate = (...args: string[]) => run(['journal', 'migrate', ...args])
  const journalLine = async (given?: Parameters<typeof run>[1]) => {
    const { stdout, stderr } = await run(['validate', '--connect'], given)
    return /^ {2}(ok {2}|FAIL) journal: (.*)$/m.exec(stdout + stderr)?.slice(1)
  }

  it('without its tables, and without the rights to make them, both say what to run', async () => {
    expect(await journalLine()).toEqual([
      'FAIL',
      'The PostgreSQL schema auditferry has no tables of this program: run "auditferry journal migrate" with this configuration (as the owner of the tables: --owner-url-file)',
    ])
    expect(await migrate()).toEqual({
      code: 78,
      stdout: '',
      stderr:
        'auditferry: The PostgreSQL role ferry may not create or change the schema auditferry in the database postgres: run "auditferry journal migrate" with the URL of its owner (--owner-url-file)\n',
    })
  })

  it('the owner makes the tables, and a role without rights on them is told how to get these', async () => {
    const owner = write('owner', `${server.url('owner')}\n`)
    const where = `The schema auditferry in PostgreSQL at ${server.folder}:${server.port}/postgres`
    const missing = await migrate('--owner-url-file', owner, '--runtime-role', 'nobody')
    expect(missing).toMatchObject({
      code: 78,
      stderr: expect.stringContaining('no PostgreSQL role nobody') as string,
    })
    expect(await migrate('--owner-url-file', owner)).toEqual({
      code: 0,
      stdout: `${where} was brought to version ${SCHEMA_VERSION}: ${SCHEMA_VERSION} steps\n`,
      stderr: '',
    })
    expect(await journalLine()).toEqual([
      'FAIL',
      'The PostgreSQL role ferry may not use the schema auditferry: run "auditferry journal migrate --runtime-role ferry" with the URL of its owner (--owner-url-file)',
    ])
    expect(await migrate('--owner-url-file', owner, '--runtime-role', 'ferry')).toEqual({
      code: 0,
      stdout: `${where} has version ${SCHEMA_VERSION} already\nThe role ferry may read and write its rows\n`,
      stderr: '',
    })
    expect(await journalLine()).toEqual(['ok  ', 'the role ferry may work with the schema auditferry'])
    await server.query('REVOKE INSERT ON auditferry.chunks FROM ferry')
    expect((await journalLine())?.[1]).toContain('may not write to all tables of the schema auditferry')
  })

  it('a wrong password, a server that is not there and unusable TLS files fail the check, without the password', async () => {
    const refused = await journalLine({ url: server.url('ferry:hidden') })
    expect(refused?.[1]).toMatch(/is not available: SQLSTATE 28P01/)
    expect(refused?.[1]).not.toContain('hidden')
    expect((await journalLine({ url: 'postgres://ferry:hidden@127.0.0.1:1/audit' }))?.[1]).toContain(
      'ECONNREFUSED',
    )
  })

  it('TLS verifies the name that is configured, with the authorities in the file as they are at each connection', async () => {
    const authority = certificate('ours')
    const secure = await startPostgres({ tls: certificate('db.internal', authority) })
    try {
      const url = `postgres://owner@127.0.0.1:${secure.port}/postgres`
      write('ca.pem', certificate('theirs').cert)
      const given = { url, more: ', tls: { ca_file: ca.pem, server_name: db.internal }' }
      expect((await journalLine(given))?.[1]).toContain('is not available')
      write('ca.pem', authority.cert)
      expect((await journalLine(given))?.[1]).toContain('has no tables of this program')
      expect((await journalLine({ url, more: ', tls: { ca_file: ca.pem }' }))?.[1]).toContain(
        'ERR_TLS_CERT_ALTNAME_INVALID',
      )
    } finally {
      await secure.stop()
    }
  })
})
