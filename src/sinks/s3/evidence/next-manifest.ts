// What a manifest says: made of the chain before it and of what its interval settled. Pure.
import type { StoredObject } from '../../../model/object.ts'
import type { Listed } from './intervals.ts'
import type { Chain } from './notes.ts'
import { microTime } from './manifest.ts'
import type { Manifest, ManifestObject, StoredIn } from './manifest.ts'

interface Making {
  readonly sink: string
  readonly instance: string
  readonly storedIn: StoredIn
  readonly chain: Chain
  readonly listed: Listed
  readonly untilAt: number
  readonly intervalMs: number
  readonly madeAt: number
  /** its id */
  readonly key: string
}

export function manifestOf(making: Making): Manifest {
  const { sink, instance, storedIn, chain, listed, untilAt, intervalMs, madeAt, key } = making
  const time = (at: number) => new Date(at).toISOString()
  return {
    type: 'auditferry-manifest',
    version: 1,
    sink,
    journal: instance,
    number: chain.number + 1,
    stored_in: storedIn,
    previous: chain.number === 0 ? null : { number: chain.number, sha256: chain.sha256 },
    interval: { from: time(chain.fromAt), until: time(untilAt), every_seconds: intervalMs / 1000 },
    complete: listed.complete,
    made_at: time(madeAt),
    key_sha256: key,
    sequence: { after: chain.through, through: listed.through },
    stretches: [...listed.stretches],
    gaps: [...listed.gaps],
    objects: listed.records.flatMap(({ settled }) => settled.objects),
  }
}

/** A stored object as the manifest lists it. Nothing sure is known of a body that an earlier try had stored: another version may have packed it. */
export function objectOf(object: StoredObject, prefix: string): ManifestObject {
  const { key, there, bodySha256, bodyBytes } = object
  return {
    key: prefix === '' ? key : key.slice(prefix.length + 1),
    sha256: object.linesSha256,
    bytes: object.linesBytes,
    entries: object.count,
    first_sequence: object.first,
    last_sequence: object.last,
    first_time: microTime(object.firstAtUs),
    last_time: microTime(object.lastAtUs),
    ...(there ? {} : { stored_sha256: bodySha256, stored_bytes: bodyBytes }),
  }
}
