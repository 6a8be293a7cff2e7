// `verify`: does a bucket, or a copy in a folder, hold what its signed manifests list? Reads only.
import { existsSync, globSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { instantUs, isExposed } from '../config/fields.ts'
import { reasonOf } from '../config/references.ts'
import { errnoOf } from '../core/errors.ts'
import { printableName } from '../core/printable.ts'
import { systemClock } from '../platform/clock.ts'
import { openTransport } from '../platform/transport.ts'
import { bucketEvidence } from '../sinks/s3/evidence-bucket.ts'
import { readPublicKeys } from '../sinks/s3/evidence/manifest.ts'
import type { StoredIn } from '../sinks/s3/evidence/manifest.ts'
import { options as s3Options } from '../sinks/s3/options.ts'
import type { S3Options } from '../sinks/s3/options.ts'
import { Store } from '../sinks/s3/store.ts'
import type { Range, WalkedChain } from '../sinks/s3/verify/chain.ts'
import { folderEvidence } from '../sinks/s3/verify/folder.ts'
import type { EvidenceStore } from '../sinks/s3/verify/objects.ts'
import { verifyEvidence } from '../sinks/s3/verify/verify.ts'
import type { Span, Verified } from '../sinks/s3/verify/verify.ts'
import { configFile, knownConfig } from './shared/config-file.ts'
import { proxyOf } from './shared/environment.ts'
import { unknownName } from './shared/names.ts'
import { exitCodes, WrongUsage } from './shared/context.ts'
import type { CommandContext } from './shared/context.ts'

export interface VerifyCommandOptions {
  readonly endpoint?: string
  readonly region?: string
  readonly allowInsecure?: boolean
  readonly config?: string
  readonly sink?: string
  readonly publicKey: readonly string[]
  readonly until?: string
  readonly lastManifest?: readonly string[]
  readonly acceptGap?: readonly string[]
}

export async function verify(
  context: CommandContext,
  options: VerifyCommandOptions,
  where: string | undefined,
): Promise<number> {
  const untilAt = options.until === undefined ? undefined : untilOf(options.until)
  const lastSha256 = (options.lastManifest ?? []).map(hashOf)
  const acceptedGaps = (options.acceptGap ?? []).map(gapOf)
  const { store, storedIn, close } = verifyPlaceOf(context, options, where)
  try {
    // After the place is checked: a wrong place is reported even without a key.
    const keys = keysOf(options.publicKey)
    const pause = (ms: number) => systemClock.sleep(ms, context.signal)
    const verified = await verifyEvidence(
      store,
      { keys, untilAt, lastSha256, acceptedGaps, storedIn, pause },
      ({ level, where: at, what }) => context.stdout(`${level}: ${at} ${what}\n`),
    )
    context.stdout(reportOf(verified, untilAt !== undefined || lastSha256.length > 0))
    return verified.faults === 0 ? exitCodes.done : exitCodes.failed
  } finally {
    await close()
  }
}

function keysOf(files: readonly string[]) {
  if (files.length === 0)
    throw new WrongUsage('expected --public-key FILE: the public half of the key that signs the manifests')
  return new Map(
    files.flatMap((file) => {
      try {
        return [...readPublicKeys(readFileSync(file, 'utf8'))]
      } catch (error) {
        const isOnDisk = errnoOf(error, '') !== ''
        const why = !isOnDisk && error instanceof Error ? error.message : reasonOf(error)
        throw new WrongUsage(`--public-key ${file} cannot be used: ${why}`)
      }
    }),
  )
}

function untilOf(text: string): number {
  const at = instantUs(text)
  if (Number.isFinite(at)) return at / 1000
  throw new WrongUsage(`--until ${text}: expected a time in UTC such as 2026-01-31T00:00:00Z`)
}

function hashOf(text: string): string {
  const hash = text.toLowerCase()
  if (/^[0-9a-f]{64}$/.test(hash)) return hash
  throw new WrongUsage(`--last-manifest ${text}: expected a SHA-256 of 64 hex digits, as verify prints it`)
}

function gapOf(text: string): Range {
  const [, first, last] = /^(\d{1,15})-(\d{1,15})$/.exec(text) ?? []
  if (first !== undefined && last !== undefined) return { first: Number(first), last: Number(last) }
  throw new WrongUsage(`--accept-gap ${text}: expected two sequence numbers such as 101-250`)
}

// Finds the evidence: a folder, a bucket by address, or the bucket of a configured sink.

interface VerifyPlace {
  readonly store: EvidenceStore
  /** absent for a folder */
  readonly storedIn?: StoredIn
  readonly close: () => Promise<void>
}

/** Throws WrongUsage if the arguments name no place, or two. */
function verifyPlaceOf(
  context: CommandContext,
  options: VerifyCommandOptions,
  where: string | undefined,
): VerifyPlace {
  const address = where === undefined ? undefined : /^s3:\/\/([^/]+)\/?(.*)$/i.exec(where)
  if (where !== undefined && !address && options.sink === undefined && !where.includes('://')) {
    const meant = prefixNear(where)
    if (meant !== undefined)
      throw new WrongUsage(`${where}: it has no manifest folder; did you mean ${printableName(meant)}?`)
    return { store: folderEvidence(where), close: () => Promise.resolve() }
  }
  if (where !== undefined && !address)
    throw new WrongUsage(
      `${where}: expected s3://bucket/prefix, or a folder copied from there without --sink`,
    )
  const named = address ? { bucket: address[1] ?? '', prefix: (address[2] ?? '').replace(/\/+$/, '') } : {}
  const known = options.sink === undefined ? undefined : sinkOf(context, options, options.sink)
  if (!address && !known)
    throw new WrongUsage(
      'expected what to verify: s3://bucket/prefix, a folder, or --sink NAME of a configuration',
    )
  return bucketPlace(context, known ? { ...known, ...named } : optionsOf(options, named))
}

/** In a copy of a whole bucket, the sink's prefix lies deeper; the manifest folder lies in it. */
function prefixNear(folder: string): string | undefined {
  const hasManifests = (name: string) => existsSync(join(name, 'manifest'))
  if (!existsSync(folder) || !statSync(folder).isDirectory() || hasManifests(folder)) return undefined
  const [, above] = /^(.*)\/manifest(?:\/sink=[^/]*(?:\/journal=[^/]*)?)?$/.exec(resolve(folder)) ?? []
  const [inside] = globSync(['*/manifest', '*/*/manifest'], { cwd: folder })
  return above ?? (inside === undefined ? undefined : join(folder, dirname(inside)))
}

/** Bucket and keys of a sink in the daemon's configuration. */
function sinkOf(context: CommandContext, { config }: VerifyCommandOptions, name: string): S3Options {
  const all = knownConfig(configFile(context, config), context).sinks
  const sinks = all.filter((sink) => sink.type === 's3')
  const found = sinks.find((sink) => sink.name === name)
  if (found) return found
  const other = all.find((sink) => sink.name === name)
  if (other)
    throw new WrongUsage(`sink ${name} is of type ${other.type}: only what an s3 sink stored can be verified`)
  throw new WrongUsage(unknownName('s3 sink', name, sinks))
}

/** Keys come from the environment, as with other S3 tools. */
function optionsOf(options: VerifyCommandOptions, named: object): S3Options {
  const { endpoint, region, allowInsecure = false } = options
  const parsed = s3Options.safeParse({
    ...named,
    ...(endpoint === undefined ? {} : { endpoint, force_path_style: true }),
    ...(region === undefined ? {} : { region }),
  })
  if (!parsed.success) {
    const [issue] = parsed.error.issues
    throw new WrongUsage(`${issue?.path.join('.') ?? ''}: ${issue?.message ?? 'cannot be used'}`)
  }
  if (endpoint !== undefined && isExposed(endpoint) && !allowInsecure)
    throw new WrongUsage(
      `--endpoint ${endpoint} is plain http to another machine: use https, or say --allow-insecure`,
    )
  return parsed.data
}

function bucketPlace(context: CommandContext, options: S3Options): VerifyPlace {
  const networks: ReturnType<typeof openTransport>[] = []
  const store = new Store(options, {
    clock: systemClock,
    transport: (tls) => {
      const network = openTransport({ tls, proxy: proxyOf(context.env) })
      networks.push(network)
      return network.send
    },
  })
  return {
    store: bucketEvidence(store, options.prefix, context.signal),
    storedIn: { bucket: options.bucket, prefix: options.prefix },
    close: async () => {
      await store.close()
      await Promise.all(networks.map((network) => network.close()))
    },
  }
}

// The final report: the proof, its chains, and what no manifest can prove. Pure.

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

/** What the chains do not contain: the number of lines is not the number of entries read. */
function leftOut(chains: readonly WalkedChain[]): string[] {
  const sum = (of: (chain: WalkedChain) => number) => chains.reduce((total, chain) => total + of(chain), 0)
  const filtered = sum((chain) => chain.filtered)
  const parked = sum((chain) => chain.parked)
  if (filtered + parked === 0) return []
  return [
    `not in the objects: ${filtered} entries that the sink's settings left out and ${parked} that became dead letters are counted in the manifests, not stored`,
  ]
}

function unproved({ chains }: Verified, bounded: boolean): string[] {
  const end = bounded
    ? 'what came after the manifest or the time that you named'
    : 'that the chain is complete at its end: anyone who can delete objects can cut it. Keep the SHA-256 of the last manifest elsewhere and pass it as --last-manifest, or pass --until'
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
    'anything against a person who had the signing key: that person can sign another chain',
  ]
}

function spanText({ first, last, from, until }: Span): string {
  const time = from === undefined || until === undefined ? '' : `, of ${from} to ${until}`
  return `sequence numbers ${first} to ${last}${time}`
}

/** The extent of the faults, for a damage report. */
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
    ...(listed ? [`  affected: ${entriesText(listed.entries)}, ${spanText(listed)}`] : []),
    ...(planted
      ? [`  added by others: ${many(planted.count, 'object')}, by name of the ${spanText(planted)}`]
      : []),
    ...blind,
  ]
}

/** `bounded`: the end was checked against a value from outside the bucket. */
export function reportOf(verified: Verified, bounded: boolean): string {
  const { chains, objects, entries, faults, byLines, unread } = verified
  const all = `${many(objects, 'object')} with ${entriesText(entries)}`
  const verdict =
    faults === 0
      ? `proved: ${all}: none is missing, changed, moved or added up to the last manifest`
      : `NOT proved: ${many(faults, 'fault')}; the manifests list ${all}`
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
