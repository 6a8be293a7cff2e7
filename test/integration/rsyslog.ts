// Real syslog receivers for the suites: rsyslog and syslog-ng, each started on free ports of the loopback with a folder of its own.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { existsSync, globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { connect, createServer, type AddressInfo } from 'node:net'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'

const HOST = '127.0.0.1'
const RSYSLOG = '/usr/sbin/rsyslogd'
const tools = process.env['AUDITFERRY_TOOLS'] ?? join(homedir(), '.cache', 'auditferry-tools')
const root = join(tools, 'syslog-ng')
const SYSLOG_NG = join(root, 'usr/sbin/syslog-ng')

const moduleThere = (name: string) => globSync(`/usr/lib/*/rsyslog/${name}.so`).length > 0
const bring = '.ci/tools/syslog.sh brings it'

/** What is missing here, in words; undefined: nothing. Says so loudly. */
function tell(what: string, there: boolean): string | undefined {
  if (there) return undefined
  process.stderr.write(`\nSKIPPED: ${what}. It is not there; ${bring}.\n\n`)
  return `${what} is missing`
}

export const rsyslogMissing = tell('rsyslog', existsSync(RSYSLOG) && moduleThere('lmnsd_ossl'))
export const syslogNgMissing = tell('syslog-ng', existsSync(SYSLOG_NG))

export async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, HOST, resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

export async function until(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 1_500; tries++) {
    if (await holds()) return
    await pause(10)
  }
  throw new Error(`it did not come: ${what}`)
}

const listens = (port: number) =>
  new Promise<boolean>((resolve) => {
    const socket = connect(port, HOST, () => {
      socket.destroy()
      resolve(true)
    })
    socket.on('error', () => resolve(false))
  })

/** Read from the system: to try the port would keep the receiver from it. */
function udpTaken(port: number): boolean {
  const local = `:${port.toString(16).toUpperCase().padStart(4, '0')} `
  return readFileSync('/proc/net/udp', 'utf8').includes(local)
}

export interface Receiver {
  readonly port: number
  /** Lines that it has written, one a message. */
  lines(): readonly string[]
  /** With SIGKILL unless told. */
  stop(signal?: NodeJS.Signals): Promise<void>
  start(): Promise<void>
}

/** Pairs of PEM text. */
export interface ReceiverTls {
  readonly cert: string
  readonly key: string
  readonly ca: string
  /** asks for a client certificate of `ca` */
  readonly mutual?: boolean
}

export interface ReceiverOptions {
  readonly folder: string
  readonly transport: 'tcp' | 'udp' | 'tls'
  readonly tls?: ReceiverTls
  /** rsyslog's own default when absent */
  readonly maxMessageSize?: string
}

function tlsFiles(folder: string, { cert, key, ca }: ReceiverTls) {
  const put = (name: string, text: string) => {
    writeFileSync(join(folder, name), text, { mode: 0o600 })
    return join(folder, name)
  }
  return { cert: put('cert.pem', cert), key: put('key.pem', key), ca: put('ca.pem', ca) }
}

function begin(command: string, args: readonly string[], env: NodeJS.ProcessEnv = process.env): ChildProcess {
  return spawn(command, args, { stdio: 'ignore', env })
}

async function end(child: ChildProcess | undefined, signal: NodeJS.Signals): Promise<void> {
  if (!child || child.exitCode !== null || child.signalCode !== null) return
  const ended = new Promise((resolve) => child.once('exit', resolve))
  child.kill(signal)
  await ended
}

function receiverOf(
  port: number,
  out: string,
  transport: ReceiverOptions['transport'],
  run: () => ChildProcess,
): Receiver {
  let child: ChildProcess | undefined
  return {
    port,
    lines: () => (existsSync(out) ? readFileSync(out, 'utf8').split('\n').slice(0, -1) : []),
    stop: (signal = 'SIGKILL') => end(child, signal),
    start: async () => {
      child = run()
      const ready = () => (transport === 'udp' ? udpTaken(port) : listens(port))
      await until(`a listener at port ${port}`, async () => {
        if (child?.exitCode !== null) throw new Error('the receiver has ended: is its configuration right?')
        return ready()
      })
    },
  }
}

/** Parsed again by rsyslog itself: each line is JSON of what it took the message for. */
export async function rsyslog({
  folder,
  transport,
  tls,
  maxMessageSize,
}: ReceiverOptions): Promise<Receiver> {
  const port = await freePort()
  const work = join(folder, `rsyslog-${port}`)
  mkdirSync(work, { recursive: true })
  const out = join(work, 'out')
  const files = tls && tlsFiles(work, tls)
  const inputs = {
    tcp: `module(load="imptcp")\ninput(type="imptcp" port="${port}" address="${HOST}" ruleset="keep")`,
    udp: `module(load="imudp")\ninput(type="imudp" port="${port}" address="${HOST}" ruleset="keep")`,
    tls: `module(load="imtcp" streamDriver.name="ossl" streamDriver.mode="1" streamDriver.authMode="${tls?.mutual ? 'x509/certvalid' : 'anon'}")
input(type="imtcp" port="${port}" address="${HOST}" ruleset="keep")`,
  }
  const size = maxMessageSize === undefined ? '' : ` maxMessageSize="${maxMessageSize}"`
  const drivers = files
    ? ` defaultNetstreamDriverCAFile="${files.ca}" defaultNetstreamDriverCertFile="${files.cert}" defaultNetstreamDriverKeyFile="${files.key}"`
    : ''
  const property = (name: string) => `property(outname="${name}" name="${name}" format="jsonf")`
  const names = ['pri', 'timereported', 'hostname', 'app-name', 'msgid', 'structured-data', 'rawmsg']
  const fields = names
    .map(property)
    .join('\n  constant(value=",")\n  ')
    .replace('name="timereported" format="jsonf"', 'name="timereported" dateFormat="rfc3339" format="jsonf"')
  writeFileSync(
    join(work, 'conf'),
    `global(workDirectory="${work}"${size}${drivers})
template(name="parsed" type="list") {
  constant(value="{")
  ${fields}
  constant(value=",")
  property(outname="msg" name="msg" format="jsonf")
  constant(value="}\\n")
}
ruleset(name="keep") {
  action(type="omfile" file="${out}" template="parsed" asyncWriting="off" flushOnTXEnd="on")
}
${inputs[transport]}
`,
  )
  const args = ['-n', '-f', join(work, 'conf'), '-i', join(work, 'pid')]
  const checked = spawnSync(RSYSLOG, ['-N1', '-f', join(work, 'conf')], { encoding: 'utf8' })
  if (checked.status !== 0) throw new Error(`rsyslog refuses its configuration: ${checked.stderr}`)
  return receiverOf(port, out, transport, () => begin(RSYSLOG, args))
}

/** Each line is the structured data, a tab, and the message. */
export async function syslogNg({ folder, transport, tls }: ReceiverOptions): Promise<Receiver> {
  const port = await freePort()
  const work = join(folder, `syslog-ng-${port}`)
  mkdirSync(work, { recursive: true })
  const out = join(work, 'out')
  const files = tls && tlsFiles(work, tls)
  const verify = tls?.mutual ? 'required-trusted' : 'optional-untrusted'
  const secured = files
    ? ` tls(key-file("${files.key}") cert-file("${files.cert}") ca-file("${files.ca}") peer-verify(${verify}))`
    : ''
  writeFileSync(
    join(work, 'conf'),
    `@version: 3.38
options { frac-digits(6); keep-hostname(yes); };
source s { syslog(ip("${HOST}") port(${port}) transport("${transport}")${secured}); };
destination d { file("${out}" template("$PRI\\t$ISODATE\\t$HOST\\t$PROGRAM\\t$SDATA\\t$MSG\\n") flush-lines(1)); };
log { source(s); destination(d); };
`,
  )
  const libraries = ['usr/lib/syslog-ng', 'usr/lib/x86_64-linux-gnu', 'lib/x86_64-linux-gnu'].map((each) =>
    join(root, each),
  )
  const version = globSync(join(root, 'usr/lib/syslog-ng/*/'))[0] ?? ''
  const args = [
    ...['--foreground', '--no-caps', `--module-path=${version}`, `--cfgfile=${join(work, 'conf')}`],
    ...[
      `--persist-file=${join(work, 'persist')}`,
      `--control=${join(work, 'control')}`,
      `--pidfile=${join(work, 'pid')}`,
    ],
  ]
  const env = { ...process.env, LD_LIBRARY_PATH: libraries.join(':') }
  return receiverOf(port, out, transport, () => begin(SYSLOG_NG, args, env))
}
