// syslog-ng over TCP, UDP and TLS, each on a free port and in a folder of its own.
import { existsSync, globSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { freePort } from './ports.ts'
import { find } from './program.ts'
import { type Receiver, receiverOf } from './server.ts'
import { type ReceiverOptions, tlsFiles } from './syslog-options.ts'
import { toolsFolder } from './tools.ts'

const root = join(toolsFolder, 'syslog-ng')
const program = join(root, 'usr/sbin/syslog-ng')
const libraries = ['usr/lib/syslog-ng', 'usr/lib/x86_64-linux-gnu', 'lib/x86_64-linux-gnu']
const modules = globSync(join(root, 'usr/lib/syslog-ng/*/'))[0] ?? ''

export const foundSyslogNg = await find({
  name: 'syslog-ng',
  image: {
    variable: 'AUDITFERRY_IMAGE_SYSLOG_NG',
    name: 'balabit/syslog-ng:4.5.0',
    command: ['syslog-ng'],
  },
  local: {
    there: () => existsSync(program),
    // Unpacked beside the system: it does not find its parts alone.
    command: [program, `--module-path=${modules}`],
    env: { LD_LIBRARY_PATH: libraries.map((each) => join(root, each)).join(':') },
    bring: '.ci/tools/syslog.sh',
  },
})

/** Each line is priority, time, host, program, structured data and message, with tabs between. */
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
options { frac-digits(6); keep-hostname(yes); use-dns(no); };
source s { syslog(ip("${foundSyslogNg.listenAt}") port(${port}) transport("${transport}")${secured}); };
destination d { file("${out}" template("$PRI\\t$ISODATE\\t$HOST\\t$PROGRAM\\t$SDATA\\t$MSG\\n") flush-lines(1)); };
log { source(s); destination(d); };
`,
  )
  const at = (option: string, name: string) => `--${option}=${join(work, name)}`
  const args = [
    ...['--foreground', '--no-caps', at('cfgfile', 'conf'), at('persist-file', 'persist')],
    ...[at('control', 'control'), at('pidfile', 'pid')],
  ]
  const protocol = transport === 'udp' ? 'udp' : 'tcp'
  return receiverOf(foundSyslogNg, { args, folder: work, port: { number: port, protocol } }, out)
}
