// API keys as they are written on a command line: `name:secret` or `name:secret:permission,permission`.
import { ConnectorError } from '../model/errors.ts'
import type { KeyOptions } from './keys.ts'
import { areas } from './router.ts'

/** What a key may be allowed: whole areas, and single endpoints of them. @internal for tests */
export const permissionWords: readonly string[] = areas.flatMap(({ area, find }) => [
  area,
  ...find.endpoints.map((endpoint) => `${area}.${endpoint}`),
])

const SHAPE = 'want name:secret or name:secret:permission,permission'

/**
 * `domain` is that of the workspace's addresses: the name becomes the user whose calls they are. Throws ConnectorError
 * `config_invalid` that says what would be right, without the secret.
 */
export function readKey(text: string, domain: string): KeyOptions {
  const match = /^([\w.-]{1,64}):([\x21-\x39\x3b-\x7e]+)(?::([\w.,]*))?$/.exec(text)
  const [, name = '', key = '', words] = match ?? []
  if (!match) throw new ConnectorError('config_invalid', `key: ${SHAPE}`)
  const permissions = words?.split(',').filter((word) => word !== '')
  const unknown = permissions?.find((word) => !permissionWords.includes(word))
  if (unknown !== undefined)
    throw new ConnectorError(
      'config_invalid',
      `key ${name}: no such permission as ${unknown}; there are ${permissionWords.join(', ')}`,
    )
  return { key, user: `${name}@${domain}`, ...(permissions ? { permissions } : {}) }
}
