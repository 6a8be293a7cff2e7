// A look at what the server keeps of an object, by a role that need not have the right to.
import { ConnectorError } from '../../../model/errors.ts'
import type { Log } from '../../../model/log.ts'
import type { Looked } from './bucket.ts'
import { lacking } from './demands.ts'
import type { S3Options } from '../options.ts'
import type { Store } from './store.ts'

type Looking = Pick<Store, 'look' | 'where'>

export async function lookIfAllowed(
  store: Looking,
  key: string,
  signal: AbortSignal,
): Promise<Looked | 'denied' | undefined> {
  try {
    return await store.look(key, signal)
  } catch (error) {
    if (error instanceof ConnectorError && error.code === 'forbidden') return 'denied'
    throw error
  }
}

/** An object that an earlier try stored has what was set then. What was switched on since it lacks for good: that is told, with its name. */
export async function lookAtFormer(
  store: Looking,
  options: Pick<S3Options, 'sse' | 'object_lock'>,
  key: string,
  log: Log,
  signal: AbortSignal,
): Promise<void> {
  if (!options.sse && !options.object_lock) return
  const looked = await lookIfAllowed(store, key, signal)
  if (looked === undefined)
    throw new ConnectorError('bad_reply', `${store.where}: ${key} was there a moment ago, and is not`)
  if (looked === 'denied') {
    log.warn(
      'An earlier try stored this object, and this role may not see how: where sse or object_lock were set or changed since, it has them not. Look at it by hand, or grant s3:GetObject',
      { key },
    )
    return
  }
  const lacks = lacking(options, looked)
  if (lacks.length === 0) return
  log.warn(
    'An earlier try stored this object without what is set now, and it counts as stored. Lock it by hand (put-object-retention); to encrypt it copy it onto itself. A lock shows only to a role with s3:GetObjectRetention',
    { key, lacks: lacks.join(', ') },
  )
}
