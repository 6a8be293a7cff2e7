// The real world behind the daemon: the system's clock, disk and network, and what packs.
import type { Environment } from '../../app/environment.ts'
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
import type { CommandContext } from './world.ts'

/** `to`: the log, where it is not standard error. */
export function realEnvironment(config: Config, context: CommandContext, to?: LogOptions['to']): Environment {
  const proxy = proxyOf(context.env)
  // Found once: what is read again later changes within them.
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

/** For a command that asks an API or a sink beside the daemon: warnings in its log are the daemon's matter. */
export const quietEnvironment = (config: Config, context: CommandContext): Environment =>
  realEnvironment({ ...config, log: { level: 'error' } }, context)

/** Of the daemon that runs on this journal: it recognises a request under its id as its own in the audit log. */
export const instanceOf = ({ journal }: Config): Promise<string | undefined> =>
  connectControl(journal.path)
    .then((daemon) => daemon?.instance())
    .catch(() => undefined)

export function proxyOf(env: CommandContext['env']) {
  return {
    https: env['HTTPS_PROXY'] ?? env['https_proxy'],
    http: env['HTTP_PROXY'] ?? env['http_proxy'],
    none: env['NO_PROXY'] ?? env['no_proxy'],
  }
}
