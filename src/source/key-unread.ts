// A key that cannot be read again is told: all goes on with the one in memory, until a restart has none.
import type { Transport } from '../model/http.ts'
import type { Log } from '../model/log.ts'
import type { Secret } from '../model/secret.ts'

/** Says it once for each reason, at the first request that goes out with the key in memory, and when it is over. */
export function tellingUnread(
  send: Transport,
  key: Pick<Secret, 'unread'>,
  log: Pick<Log, 'info' | 'warn'>,
): Transport {
  let told: string | undefined
  return (request, signal) => {
    const { unread } = key
    if (unread !== undefined && unread !== told)
      log.warn(
        'api_key cannot be read again: the key in memory goes on, and a restart would fail. Put the key back where it was',
        { error: unread },
      )
    if (unread === undefined && told !== undefined) log.info('api_key can be read again')
    told = unread
    return send(request, signal)
  }
}
