// rsyslog with imptcp, imudp, imtcp over TLS, and imrelp, each on a free port and in a folder of its own.
import { existsSync, globSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { freePort } from './ports.ts'
import { find } from './program.ts'
import { type Receiver, receiverOf } from './server.ts'
import { type ReceiverOptions, tlsFiles } from './syslog-options.ts'

// No file with its process id: after a kill it would take itself for one that still runs, since in a container each is process 1.
const foreground = ['-n', '-i', 'NONE']
const there = (module: string) => globSync(`/usr/lib/*/rsyslog/${module}.so`).length > 0

export const foundRsyslog = await find({
  name: 'rsyslog',
  image: {
    variable: 'AUDITFERRY_IMAGE_RSYSLOG',
    name: 'rsyslog/rsyslog-collector:2026-04',
    command: ['rsyslogd', ...foreground],
  },
  local: {
    there: () => existsSync('/usr/sbin/rsyslogd') && ['lmnsd_ossl', 'imrelp'].every(there),
    command: ['/usr/sbin/rsyslogd', ...foreground],
    bring: '.ci/tools/syslog.sh',
  },
})

function inputOf({ transport, tls }: ReceiverOptions, port: number): string {
  const place = `port="${port}" address="${foundRsyslog.listenAt}" ruleset="keep"`
  if (transport === 'tcp') return `module(load="imptcp")\ninput(type="imptcp" ${place})`
  if (transport === 'udp') return `module(load="imudp")\ninput(type="imudp" ${place})`
  const mode = tls?.mutual ? 'x509/certvalid' : 'anon'
  return `module(load="imtcp" streamDriver.name="ossl" streamDriver.mode="1" streamDriver.authMode="${mode}")
input(type="imtcp" ${place})`
}

const property = (name: string) => `property(outname="${name}" name="${name}" format="jsonf")`
const names = ['pri', 'timereported', 'hostname', 'app-name', 'msgid', 'structured-data', 'rawmsg']
const fields = names
  .map(property)
  .join('\n  constant(value=",")\n  ')
  .replace('name="timereported" format="jsonf"', 'name="timereported" dateFormat="rfc3339" format="jsonf"')

/** Parsed again by rsyslog itself: each line is JSON of what it took the message for. */
export async function rsyslog(options: ReceiverOptions): Promise<Receiver> {
  const { folder, transport, tls, maxMessageSize } = options
  const port = await freePort()
  const work = join(folder, `rsyslog-${port}`)
  mkdirSync(work, { recursive: true })
  const out = join(work, 'out')
  const files = tls && tlsFiles(work, tls)
  const size = maxMessageSize === undefined ? '' : ` maxMessageSize="${maxMessageSize}"`
  const drivers = files
    ? ` defaultNetstreamDriverCAFile="${files.ca}" defaultNetstreamDriverCertFile="${files.cert}" defaultNetstreamDriverKeyFile="${files.key}"`
    : ''
  writeFileSync(
    join(work, 'conf'),
    `global(workDirectory="${work}" net.enableDNS="off"${size}${drivers})
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
${inputOf(options, port)}
`,
  )
  const args = ['-f', join(work, 'conf')]
  const protocol = transport === 'udp' ? 'udp' : 'tcp'
  return receiverOf(foundRsyslog, { args, folder: work, port: { number: port, protocol } }, out)
}

export interface ImrelpOptions {
  readonly folder: string
  /** a free one by default */
  readonly port?: number
  /** parameters of the input beside the common ones, such as those of TLS */
  readonly more?: string
}

/** Each line is a whole message. Answers only once it is in the file: a queue in memory would be lost with a kill, despite an answer. */
export async function imrelp({ folder, port, more = '' }: ImrelpOptions): Promise<Receiver> {
  const number = port ?? (await freePort())
  const work = join(folder, `imrelp-${number}`)
  mkdirSync(work, { recursive: true })
  const config = join(work, 'conf')
  const out = join(folder, 'out')
  writeFileSync(
    config,
    `global(workDirectory="${work}" net.enableDNS="off" maxMessageSize="64k")
module(load="imrelp" tls.tlslib="openssl")
template(name="whole" type="string" string="%rawmsg%\\n")
ruleset(name="keep" queue.type="Direct") {
  action(type="omfile" file="${out}" template="whole" asyncWriting="off" flushOnTXEnd="on")
}
input(type="imrelp" port="${number}" address="${foundRsyslog.listenAt}" ruleset="keep" maxDataSize="64k" ${more})
`,
  )
  const args = ['-C', '-f', config]
  return receiverOf(foundRsyslog, { args, folder, port: { number, protocol: 'tcp' } }, out)
}
