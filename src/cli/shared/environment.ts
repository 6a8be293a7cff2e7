// The real environment: the system's clock, disk, network and compression.
import type { Environment } from '../../app/environment.ts'
import { basePath } from '../../config/journal.ts'
import type { Config } from '../../config/schema.ts'
import { gzip } from '../../platform/gzip/gzip.ts'
import { connectControl } from '../../control/client.ts'
import { secretsIn } from '../../core/secret.ts'
import { systemClock, systemRandom } from '../../platform/clock.ts'
import { openDatagrams } from '../../platform/datagrams.ts'
import { disk } from '../../platform/disk.ts'
import { type LogOptions, openLog } from '../../observability/log.ts'
import { connectSocket } from '../../platform/sockets.ts'
import { openTransport } from '../../platform/transport.ts'
import type { CommandContext } from './context.ts'

/** `to`: destination of the log, by default standard error. */
export function realEnvironment(config: Config, context: CommandContext, to?: LogOptions['to']): Environment {
  const proxy = proxyOf(context.env)
  // Collected once: when a file is read again, the values inside change.
  const secrets = secretsIn(config)
  return {
    version: context.version,
    clock: systemClock,
    random: systemRandom,
    log: openLog({ level: config.log.level, to, secrets: () => secrets }),
    disk,
    network: (to, tls) => openTransport({ to, tls, proxy }),
    connect: connectSocket,
    datagrams: openDatagrams,
    print: (bytes) => context.print(bytes),
    gzip,
  }
}

/** For a command that connects beside the daemon, which logs the warnings itself. */
export const quietEnvironment = (config: Config, context: CommandContext): Environment =>
  realEnvironment({ ...config, log: { level: 'error' } }, context)

/** Instance id of the running daemon, so that it recognises the command's requests as its own. */
export const instanceOf = (config: Config): Promise<string | undefined> =>
  connectControl(basePath(config))
    .then((daemon) => daemon?.instance())
    .catch(() => undefined)

export function proxyOf(env: CommandContext['env']) {
  return {
    https: env['HTTPS_PROXY'] ?? env['https_proxy'],
    http: env['HTTP_PROXY'] ?? env['http_proxy'],
    none: env['NO_PROXY'] ?? env['no_proxy'],
  }
}
