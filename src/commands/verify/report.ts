// What `verify` says at its end: what is proved, of which chains, and what no manifest can prove. Pure.
import type { WalkedChain } from '../../sinks/s3/verify/chain.ts'
import type { Span } from '../../sinks/s3/verify/touched.ts'
import type { Verified } from '../../sinks/s3/verify/verify.ts'

const many = (count: number, noun: string) => `${count} ${noun}${count === 1 ? '' : 's'}`

const entriesText = (count: number) => `${count} ${count === 1 ? 'entry' : 'entries'}`

function chainLines({ sink, journal, manifests, last, after, through }: WalkedChain): string[] {
  const name = `chain of sink ${sink}, journal ${journal}: ${many(manifests, 'manifest')}`
  if (!last) return [name]
  const { manifest, sha256 } = last
  const entries = through > after ? `, entries ${after + 1} to ${through}` : ', no entries yet'
  return [
    `${name}, the last one number ${manifest.number}, up to ${manifest.interval.until}${entries}`,
    `  SHA-256 of its last manifest: ${sha256}`,
  ]
}

/** Of each chain what it does not hold, so that nobody takes the number of lines for the number of entries that were read. */
function leftOut(chains: readonly WalkedChain[]): string[] {
  const sum = (of: (chain: WalkedChain) => number) => chains.reduce((total, chain) => total + of(chain), 0)
  const filtered = sum((chain) => chain.filtered)
  const parked = sum((chain) => chain.parked)
  if (filtered + parked === 0) return []
  return [
    `what is not in the objects: ${filtered} entries that the sink's settings left out and ${parked} that became dead letters are counted in the manifests, not stored`,
  ]
}

function unproved({ chains }: Verified, bounded: boolean): string[] {
  const end = bounded
    ? 'what came after the manifest or the time that you named'
    : 'that the chain ends where it ends: whoever may delete objects can cut its end. Keep the SHA-256 of the last manifest elsewhere and give it as --last-manifest, or give --until'
  return [
    end,
    ...leftOut(chains),
    ...(chains.length > 1
      ? ['that these are all chains: one that was removed whole, with its objects, leaves no trace here']
      : []),
    ...chains
      .filter(({ after }) => after > 0)
      .map(({ sink, after }) => `entries up to ${after} of sink ${sink}: stored before its evidence began`),
    'that what the API showed was true, nor anything that it never showed',
    'anything against somebody who had the signing key: who holds it can sign another chain',
  ]
}

function spanText({ first, last, from, until }: Span): string {
  const time = from === undefined || until === undefined ? '' : `, of ${from} to ${until}`
  return `sequence numbers ${first} to ${last}${time}`
}

/** How far the faults reach, for whoever has to say what is lost. */
function touchedLines({ touched: { listed, planted }, chains }: Verified): string[] {
  const blind = chains.flatMap(({ sink, journal, blind: ranges }) =>
    ranges
      .filter(({ after, through }) => through > after)
      .map(({ after, through }) => {
        const end = through === Infinity ? 'and up' : `to ${through}`
        return `  in doubt: sequence numbers ${after + 1} ${end} of sink ${sink}, journal ${journal}: their manifest is missing or bad`
      }),
  )
  return [
    ...(listed ? [`  touched: ${entriesText(listed.entries)}, ${spanText(listed)}`] : []),
    ...(planted
      ? [`  put there: ${many(planted.count, 'object')}, by name of the ${spanText(planted)}`]
      : []),
    ...blind,
  ]
}

/** `bounded`: the end was compared with something from outside. */
export function reportOf(verified: Verified, bounded: boolean): string {
  const { chains, objects, entries, faults, byLines, unread } = verified
  const all = `${many(objects, 'object')} with ${entriesText(entries)}`
  const verdict =
    faults === 0
      ? `proved: ${all}: none is missing, changed, moved or added up to the last manifest`
      : `NOT proved: ${many(faults, 'fault')} in ${all}`
  return [
    ...chains.flatMap(chainLines),
    verdict,
    ...(faults === 0 ? [] : touchedLines(verified)),
    ...(unread === 0 ? [] : [`  not read: ${many(unread, 'object')}; see why above, and verify again`]),
    ...(byLines === 0
      ? []
      : [
          `  by their lines alone: ${many(byLines, 'object')}; an earlier try had stored them, so no manifest has the SHA-256 of their compressed bytes`,
        ]),
    'not proved by any of this:',
    ...unproved(verified, bounded).map((line) => `  - ${line}`),
    '',
  ].join('\n')
}
