// The receivers that the network faults are tried against, each with its sink's settings: adding one is a line in the list.
import { spawn } from 'node:child_process'
import { existsSync, globSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { FakeHec, listenHec } from '../fakes/hec.ts'
import { freePort, rsyslog, rsyslogMissing, until } from './rsyslog.ts'

export const BATCH_ENTRIES = 50

export interface OpenReceiver {
  readonly port: number
  /** Ids of what it has, in its order. */
  received(): readonly string[]
  close(): Promise<void>
}

export interface FaultyReceiver {
  readonly name: string
  /** why it cannot be tried here */
  readonly missing: string | undefined
  open(folder: string): Promise<OpenReceiver>
  /** The sink's piece of the configuration, for a receiver at this port of the loopback. */
  sink(port: number): object
  /** Entries that may come twice for each failure; 0: it says what it has. `linger`: all that the sink still keeps, told or not. */
  readonly inFlight: number | 'linger'
  /** It keeps no order among what it takes. */
  readonly unordered?: true
}

const HOST = '127.0.0.1'
const tools = process.env['AUDITFERRY_TOOLS'] ?? join(homedir(), '.cache', 'auditferry-tools')
const VERSITYGW = join(tools, 'bin', 'versitygw')
const TOKEN = 'token-5ec2e7'
const SECRET = 'secret-5ec2e7'

const idIn = (line: string) => / id="([^"]+)"/.exec(line)?.[1] ?? `no id: ${line.slice(0, 80)}`
const linesOf = (path: string) =>
  existsSync(path) ? readFileSync(path, 'utf8').split('\n').slice(0, -1) : []

function begin(command: string, args: readonly string[], env: NodeJS.ProcessEnv = process.env) {
  const child = spawn(command, args, { stdio: 'ignore', env })
  return async () => {
    const ended = new Promise((resolve) => child.once('exit', resolve))
    if (child.exitCode !== null || !child.kill('SIGKILL')) return
    await ended
  }
}

async function openHec(): Promise<OpenReceiver> {
  const fake = new FakeHec({ tokens: { [TOKEN]: {} } })
  const listener = await listenHec(fake, { port: 0 })
  const { port } = listener
  const close = () => listener.close()
  return { port, close, received: () => fake.texts().map((text) => (JSON.parse(text) as { id: string }).id) }
}

async function openImptcp(folder: string): Promise<OpenReceiver> {
  const receiver = await rsyslog({ folder, transport: 'tcp', maxMessageSize: '64k' })
  await receiver.start()
  const close = () => receiver.stop()
  return { port: receiver.port, close, received: () => receiver.lines().map((line) => idIn(line.replaceAll('\\"', '"'))) } // prettier-ignore
}

async function openImrelp(folder: string): Promise<OpenReceiver> {
  const port = await freePort()
  const work = join(folder, `imrelp-${port}`)
  mkdirSync(work, { recursive: true })
  writeFileSync(
    join(work, 'conf'),
    `global(workDirectory="${work}" maxMessageSize="64k")
module(load="imrelp")
template(name="whole" type="string" string="%rawmsg%\\n")
ruleset(name="keep" queue.type="Direct") {
  action(type="omfile" file="${work}/out" template="whole" asyncWriting="off" flushOnTXEnd="on")
}
input(type="imrelp" port="${port}" address="${HOST}" ruleset="keep" maxDataSize="64k")
`,
  )
  const close = begin('/usr/sbin/rsyslogd', ['-n', '-f', join(work, 'conf'), '-i', join(work, 'pid')])
  await until('imrelp', () => existsSync(join(work, 'pid')))
  return { port, close, received: () => linesOf(join(work, 'out')).map(idIn) }
}

/** Objects are plain files in the gateway's folder. */
async function openS3(folder: string): Promise<OpenReceiver> {
  const port = await freePort()
  const data = join(folder, 'data')
  mkdirSync(join(data, 'audit'), { recursive: true })
  const env = { ...process.env, ROOT_ACCESS_KEY: 'key', ROOT_SECRET_KEY: SECRET }
  const close = begin(VERSITYGW, ['--port', `${HOST}:${port}`, 'posix', data], env)
  await until('versitygw', () => fetch(`http://${HOST}:${port}/`).then(() => true, () => false)) // prettier-ignore
  const objects = () =>
    (readdirSync(join(data, 'audit'), { recursive: true }) as string[])
      .filter((name) => name.endsWith('.gz') && !name.startsWith('.'))
      .map((name) => join(data, 'audit', name))
      .filter((path) => statSync(path).isFile())
  const lines = (path: string) => gunzipSync(readFileSync(path)).toString().split('\n').slice(0, -1)
  const received = () =>
    objects().flatMap((path) => lines(path).map((line) => (JSON.parse(line) as { id: string }).id))
  return { port, close, received }
}

const relpMissing = globSync('/usr/lib/*/rsyslog/imrelp.so').length > 0 ? rsyslogMissing : 'imrelp is missing'

export const receivers: readonly FaultyReceiver[] = [
  {
    name: 'splunk_hec, our fake of the collector',
    missing: undefined,
    open: openHec,
    sink: (port) => ({ type: 'splunk_hec', url: `http://${HOST}:${port}`, token: TOKEN }),
    inFlight: BATCH_ENTRIES,
  },
  {
    name: 'syslog over TCP, rsyslog with imptcp',
    missing: rsyslogMissing,
    open: openImptcp,
    sink: (port) => ({ type: 'syslog', address: `tcp://${HOST}:${port}`, tcp_linger: '10m' }),
    inFlight: 'linger',
  },
  {
    name: 'syslog over RELP, rsyslog with imrelp',
    missing: relpMissing,
    open: openImrelp,
    sink: (port) => ({ type: 'syslog', address: `relp://${HOST}:${port}` }),
    inFlight: BATCH_ENTRIES,
  },
  {
    name: 's3, versitygw',
    missing: existsSync(VERSITYGW) ? undefined : 'versitygw is missing: .ci/tools/s3.sh brings it',
    open: openS3,
    sink: (port) => ({
      ...{ type: 's3', bucket: 'audit', endpoint: `http://${HOST}:${port}`, force_path_style: true },
      ...{ access_key_id: 'key', secret_access_key: SECRET, rotate: { max_bytes: '8KiB', max_age: '1s' } },
    }),
    inFlight: 0,
    unordered: true,
  },
]
