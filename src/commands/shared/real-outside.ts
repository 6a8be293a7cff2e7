// The real world behind the daemon: the system's clock, disk and network, and what packs.
import type { Outside } from '../../outside.ts'
import type { Config } from '../../config/schema.ts'
import { gzip } from '../../gzip/gzip.ts'
import { secretsIn } from '../../model/secret.ts'
import { systemClock, systemRandom } from '../../ops/clock.ts'
import { openDatagrams } from '../../ops/datagrams.ts'
import { disk } from '../../ops/disk.ts'
import { type LogOptions, openLog } from '../../ops/log.ts'
import { connectSocket } from '../../ops/sockets.ts'
import { openTransport } from '../../ops/transport.ts'
import type { World } from './world.ts'

/** `to`: the log, where it is not standard error. */
export function realOutside(config: Config, world: World, to?: LogOptions['to']): Outside {
  const proxy = proxyOf(world.env)
  // Found once: what is read again later changes within them.
  const secrets = secretsIn(config)
  return {
    version: world.version,
    clock: systemClock,
    random: systemRandom,
    log: openLog({ level: config.log.level, to, secrets: () => secrets }),
    disk,
    network: (to, tls) => openTransport({ to, tls, proxy }),
    connect: connectSocket,
    datagrams: openDatagrams,
    print: (bytes) => world.print(bytes),
    gzip,
  }
}

export function proxyOf(env: World['env']) {
  return {
    https: env['HTTPS_PROXY'] ?? env['https_proxy'],
    http: env['HTTP_PROXY'] ?? env['http_proxy'],
    none: env['NO_PROXY'] ?? env['no_proxy'],
  }
}
