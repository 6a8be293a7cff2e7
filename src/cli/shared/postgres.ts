// How the configured database is reached: its secrets and TLS files are read again for each
// connection.
import type { Config } from '../../config/schema.ts'
import { addressOf, urlFault } from '../../journal/postgres/address.ts'
import type { PostgresSettings } from '../../journal/postgres/connection.ts'
import { identityOptions, tlsMaterial } from '../../platform/tls-material.ts'

export type PostgresConfig = NonNullable<Config['journal']['postgres']>

/** `url`: the one to use; absent: the configured one. */
export function postgresSettings({ url: secret, tls }: PostgresConfig, url = secret): PostgresSettings {
  const { host } = addressOf(url.reveal())
  return {
    get url() {
      const fresh = url.fresh()
      // A secret that is half written is no reason to give up a working one.
      if (fresh !== undefined && urlFault(fresh) === undefined) url.become(fresh)
      return url.reveal()
    },
    ...(tls && {
      tls: async () => {
        const { secureContext } = await tlsMaterial(tls)
        return { secureContext, ...identityOptions(host, tls.server_name) }
      },
    }),
  }
}
