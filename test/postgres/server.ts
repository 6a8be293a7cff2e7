// A PostgreSQL of this machine for one test file, in a temporary folder, on a socket of that folder.
import { execFileSync, spawn } from 'node:child_process'
import { chmodSync, chownSync, existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from 'pg'

const PORT = 5432

/** The folder of its programs: AUDITFERRY_POSTGRES, or where Debian and others put them. */
function programs(): string | undefined {
  const debian = '/usr/lib/postgresql'
  const versions = existsSync(debian) ? readdirSync(debian).sort((a, b) => Number(b) - Number(a)) : []
  const folders = [
    process.env['AUDITFERRY_POSTGRES'] ?? '',
    ...versions.map((version) => join(debian, version, 'bin')),
    ...(process.env['PATH'] ?? '').split(':'),
  ]
  return folders.find(
    (folder) => folder !== '' && existsSync(join(folder, 'initdb')) && existsSync(join(folder, 'postgres')),
  )
}

/** It refuses to run as root: then it runs as the user that its package made. */
function user(): { uid?: number; gid?: number } | undefined {
  if (process.getuid?.() !== 0) return {}
  try {
    const id = (flag: string) =>
      Number(
        execFileSync('id', [flag, 'postgres'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }),
      )
    return { uid: id('-u'), gid: id('-g') }
  } catch {
    return undefined
  }
}

/** Why there is none here; undefined: there is one. */
export function noPostgres(): string | undefined {
  if (programs() === undefined) return 'no PostgreSQL is installed (initdb, postgres)'
  return user() === undefined ? 'PostgreSQL cannot run as root, and there is no user postgres' : undefined
}

export interface PostgresServer {
  /** of its socket, and of its data */
  readonly folder: string
  readonly port: number
  /** the user that it runs as, if that is another one than ours */
  readonly as: { uid?: number; gid?: number }
  readonly url: (role?: string, database?: string) => string
  /** As its superuser. */
  query<Row>(text: string, values?: readonly unknown[]): Promise<Row[]>
  stop(): Promise<void>
}

export async function startPostgres(settings: readonly string[] = []): Promise<PostgresServer> {
  const bin = programs() ?? ''
  const as = user() ?? {}
  const folder = mkdtempSync(join(tmpdir(), 'auditferry-postgres-'))
  if (as.uid !== undefined && as.gid !== undefined) chownSync(folder, as.uid, as.gid)
  chmodSync(folder, 0o755)
  const data = join(folder, 'data')
  execFileSync(
    join(bin, 'initdb'),
    ['-D', data, '-U', 'owner', '--auth=trust', '--no-sync', '-E', 'UTF8', '--locale=C'],
    {
      ...as,
      cwd: folder,
      stdio: 'ignore',
    },
  )
  writeFileSync(
    join(data, 'postgresql.auto.conf'),
    [
      "listen_addresses = ''",
      `unix_socket_directories = '${folder}'`,
      `port = ${PORT}`,
      'fsync = off',
      'shared_buffers = 32MB',
      ...settings,
    ].join('\n'),
  )
  const server = spawn(join(bin, 'postgres'), ['-D', data], { ...as, cwd: folder, stdio: 'ignore' })
  const ended = new Promise<void>((resolve) => server.once('exit', () => resolve()))
  const socket = join(folder, `.s.PGSQL.${PORT}`)
  const url = (role = 'owner', database = 'postgres') =>
    `postgres://${role}@localhost/${database}?host=${folder}`
  const client = await connected(
    () => new Client({ host: folder, port: PORT, user: 'owner', database: 'postgres' }),
    socket,
  )
  client.on('error', () => undefined)
  return {
    folder,
    port: PORT,
    as,
    url,
    query: async <Row>(text: string, values: readonly unknown[] = []) =>
      (await client.query(text, values.length === 0 ? undefined : [...values])).rows as Row[],
    async stop() {
      await client.end().catch(() => undefined)
      server.kill('SIGINT')
      await ended
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

async function connected(make: () => Client, socket: string): Promise<Client> {
  for (let attempt = 0; ; attempt++) {
    const client = make()
    try {
      if (!existsSync(socket)) throw new Error('PostgreSQL has not made its socket')
      await client.connect()
      return client
    } catch (error) {
      if (attempt > 300) throw error
      await sleep(100)
    }
  }
}
