// A PostgreSQL of this machine for one test file, in a temporary folder, on a socket of that folder.
import { execFile, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, chownSync, existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
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
  /** Another server with the data that this one has now, as a standby that will get no more. */
  copy(): Promise<PostgresServer>
  /** A synchronous standby: once this resolves, each COMMIT here waits until it has that too. */
  standby(): Promise<PostgresServer>
  /** After a crash the standby has to reconnect: until then it may lack what is seen here. */
  untilInSync(): Promise<void>
  /** It dies without a word, with all of its processes. */
  kill(): Promise<void>
  /** As `kill`, and a new one recovers its data. */
  crash(): Promise<void>
  /** As its superuser. */
  query<Row>(text: string, values?: readonly unknown[]): Promise<Row[]>
  stop(): Promise<void>
}

interface ServerOptions {
  /** lines of its configuration */
  readonly settings?: readonly string[]
  /** PEM; it listens on the loopback too, with TLS */
  readonly tls?: { readonly cert: string; readonly key: string }
  /** of this machine: with `tls` it listens there instead of on the loopback, and wants a password of each role */
  readonly address?: string
  /** roles that need a password */
  readonly withPassword?: readonly string[]
  /** it listens on the loopback too, at a port that is free, without TLS */
  readonly loopback?: boolean
  /** stays in recovery until it is promoted */
  readonly standby?: boolean
  /** begins with the data of this server */
  readonly copyOf?: Pick<PostgresServer, 'folder' | 'port'>
}

/** How often a standby looks for its server, and what a server keeps for one that was away. */
const STANDBY = ["wal_retrieve_retry_interval = '200ms'", "wal_keep_size = '256MB'"]

export async function startPostgres(options: ServerOptions = {}): Promise<PostgresServer> {
  const { settings = [], tls, address = '127.0.0.1', withPassword = [], standby = false, copyOf } = options
  const loopback = tls !== undefined || options.loopback === true
  const bin = programs() ?? ''
  const as = user() ?? {}
  const folder = mkdtempSync(join(tmpdir(), 'auditferry-postgres-'))
  const own = (path: string) => as.uid !== undefined && chownSync(path, as.uid, as.gid ?? 0)
  own(folder)
  chmodSync(folder, 0o755)
  const data = join(folder, 'data')
  const port = loopback ? await freePort() : PORT
  const run = (program: string, args: readonly string[]) =>
    promisify(execFile)(join(bin, program), args, { ...as, cwd: folder })
  if (copyOf) {
    const from = ['-h', copyOf.folder, '-p', String(copyOf.port), '-U', 'owner']
    await run('pg_basebackup', ['-D', data, ...from, '-c', 'fast', '--no-sync'])
  } else
    await run('initdb', ['-D', data, '-U', 'owner', '--auth=trust', '--no-sync', '-E', 'UTF8', '--locale=C'])
  const write = (name: string, text: string) => {
    writeFileSync(join(data, name), text, { mode: 0o600 })
    own(join(data, name))
  }
  const listening = `listen_addresses = '${loopback ? address : ''}'\nssl = ${tls ? 'on' : 'off'}`
  const always = [
    `unix_socket_directories = '${folder}'`,
    `port = ${port}`,
    'shared_buffers = 32MB',
    'fsync = off',
    ...STANDBY,
  ]
  write('postgresql.auto.conf', [listening, ...always, ...settings].join('\n'))
  const asked = withPassword.map((role) => `local all ${role} scram-sha-256`)
  write(
    'pg_hba.conf',
    [
      ...asked,
      'local all all trust',
      'local replication all trust',
      'host all all 127.0.0.1/32 trust',
      'hostssl all all all scram-sha-256',
      '',
    ].join('\n'),
  )
  if (tls) {
    write('server.crt', tls.cert)
    write('server.key', tls.key)
  }
  if (standby) write('standby.signal', '')
  const socket = join(folder, `.s.PGSQL.${port}`)
  const launch = () => spawn(join(bin, 'postgres'), ['-D', data], { ...as, cwd: folder, stdio: 'ignore' })
  const session = () =>
    connected(() => new Client({ host: folder, port, user: 'owner', database: 'postgres' }), socket)
  let server = launch()
  const quit = () => void server.kill('SIGQUIT')
  process.once('exit', quit)
  const ended = async (signal: NodeJS.Signals) => {
    if (server.exitCode !== null || server.signalCode !== null) return
    const exit = once(server, 'exit')
    server.kill(signal)
    await exit
  }
  const query = async <Row>(text: string, values: readonly unknown[] = []) =>
    (await client.query(text, values.length === 0 ? undefined : [...values])).rows as Row[]
  const isFollowed = async (how = '%') =>
    (await query(`SELECT FROM pg_stat_replication WHERE state = 'streaming' AND sync_state LIKE $1`, [how]))
      .length > 0
  const untilInSync = () => until(() => isFollowed('sync'))
  let client = await session()
  return {
    folder,
    port,
    as,
    url: (role = 'owner', database = 'postgres') =>
      `postgres://${role}@localhost:${port}/${database}?host=${folder}`,
    copy: () => startPostgres({ copyOf: { folder, port } }),
    async standby() {
      const to = `primary_conninfo = 'host=${folder} port=${port} user=owner'`
      const standby = await startPostgres({
        ...{ copyOf: { folder, port }, standby: true, loopback: options.loopback === true },
        settings: [...settings.filter((line) => !line.startsWith('primary_conninfo')), to],
      })
      await until(() => isFollowed())
      await query(`ALTER SYSTEM SET synchronous_standby_names = '*'`)
      await query('SELECT pg_reload_conf()')
      await untilInSync()
      return standby
    },
    untilInSync,
    kill: () => ended('SIGKILL'),
    async crash() {
      await ended('SIGKILL')
      // Its other processes end when they miss it: until then a new one refuses to start.
      for (let attempt = 0; attempt < 100; attempt++) {
        server = launch()
        const failed = once(server, 'exit').then(() => undefined)
        const opening = session()
        opening.catch(() => undefined)
        const fresh = await Promise.race([failed, opening])
        if (fresh) {
          client = fresh
          return
        }
        await sleep(100)
      }
      throw new Error('PostgreSQL did not start again')
    },
    query,
    async stop() {
      await client.end().catch(() => undefined)
      await ended('SIGINT')
      process.off('exit', quit)
      // Processes of one that was killed may still write there.
      rmSync(folder, { recursive: true, force: true, maxRetries: 10 })
    },
  }
}

async function until(seen: () => Promise<boolean>): Promise<void> {
  for (let attempt = 0; !(await seen()); attempt++) {
    if (attempt > 600) throw new Error('the standby of PostgreSQL does not follow')
    await sleep(100)
  }
}

async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  await new Promise((resolve) => server.close(resolve))
  return port
}

async function connected(make: () => Client, socket: string): Promise<Client> {
  for (let attempt = 0; ; attempt++) {
    const client = make()
    // Its server is killed, or stops.
    client.on('error', () => undefined)
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
