// What is wrong within one manifest, and between it and the one before it. Pure.
import { namingFault } from './objects.ts'
import type { OpenedManifest } from '../evidence/manifest-signature.ts'
import type { Manifest } from '../evidence/manifest.ts'

/** What of a manifest does not follow from the one before it. */
export function* linkFaults(
  { manifest: before, sha256 }: OpenedManifest,
  manifest: Manifest,
): Generator<string> {
  if (manifest.previous?.number !== before.number || manifest.previous.sha256 !== sha256)
    yield `names another manifest as the one before it than ${before.number} with SHA-256 ${sha256}: the chain was forked or put together of two`
  const { from, until } = manifest.interval
  if (before.complete && from !== before.interval.until)
    yield `begins at ${from}, want ${before.interval.until}, where the one before it ended`
  if (!before.complete && (from !== before.interval.from || until !== before.interval.until))
    yield 'does not go on with the interval that the one before it left incomplete'
  if (manifest.sequence.after !== before.sequence.through)
    yield `goes on behind entry ${manifest.sequence.after}, want ${before.sequence.through}, where the one before it ended`
}

/** All of (after, through] stands in stretches and gaps, each once and in order; each stretch's counts add up. */
export function* sequenceFaults({ sequence, stretches, gaps }: Manifest): Generator<string> {
  let at = sequence.after
  for (const { first, last } of [...stretches, ...gaps].sort((a, b) => a.first - b.first)) {
    if (first !== at + 1 || last < first) yield `leaves a hole or an overlap at entry ${at + 1}`
    at = Math.max(at, last)
  }
  if (at !== sequence.through) yield `covers the entries up to ${at}, want ${sequence.through}`
  for (const { first, last, delivered, filtered, parked } of stretches)
    if (delivered + filtered + parked !== last - first + 1)
      yield `counts ${delivered + filtered + parked} entries from ${first} to ${last}, want ${last - first + 1}`
}

/** Names fit, each object is whole within one stretch, and together they hold what was delivered of it. */
export function* objectFaults({ stretches, objects }: Manifest): Generator<string> {
  const held = stretches.map(() => 0)
  for (const object of objects) {
    const naming = namingFault(object)
    if (naming !== undefined) yield `lists ${object.key}, which ${naming}`
    const { first_sequence: first, last_sequence: last } = object
    const at = stretches.findIndex((stretch) => first >= stretch.first && last <= stretch.last)
    if (at < 0) yield `lists ${object.key}, which lies outside of the entries that it covers`
    else held[at] = (held[at] ?? 0) + object.entries
  }
  for (const [at, { first, last, delivered }] of stretches.entries())
    if (held[at] !== delivered)
      yield `lists objects with ${held[at] ?? 0} of the entries ${first} to ${last}, want ${delivered}`
}
