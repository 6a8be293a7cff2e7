// `verify`: whether a bucket, or a folder copied from one, holds what its signed manifests say. Reads only; needs no daemon and no journal.
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { isExposed } from '../config/fields.ts'
import { errnoOf } from '../model/errors.ts'
import { parseInstantText } from '../model/time.ts'
import { systemClock } from '../ops/clock.ts'
import { openTransport } from '../ops/transport.ts'
import { bucketEvidence } from '../sinks/s3/evidence-bucket.ts'
import { folderEvidence } from '../sinks/s3/evidence-folder.ts'
import { verifyEvidence, type EvidenceStore, type Range } from '../sinks/s3/evidence-verify.ts'
import { readPublicKeys } from '../sinks/s3/manifest-signature.ts'
import type { StoredIn } from '../sinks/s3/manifest.ts'
import { options as s3Options, type S3Options } from '../sinks/s3/options.ts'
import { Store } from '../sinks/s3/store.ts'
import { configFile } from './config-file.ts'
import { knownConfig } from './known-config.ts'
import { unknownName } from './named.ts'
import { proxyOf } from './outside.ts'
import { reportOf } from './verify-report.ts'
import { exitCodes, type World } from './world.ts'

export interface VerifyCommandOptions {
  readonly publicKey: readonly string[]
  readonly until?: string
  readonly lastManifest?: readonly string[]
  readonly acceptGap?: readonly string[]
  readonly endpoint?: string
  readonly region?: string
  readonly allowInsecure?: boolean
  readonly config?: string
  readonly sink?: string
}

/** What was asked makes no sense: told, exit 2. */
class WrongUsage extends Error {}

export async function verify(
  world: World,
  options: VerifyCommandOptions,
  where: string | undefined,
): Promise<number> {
  try {
    return await verifyPlace(world, options, where)
  } catch (error) {
    if (!(error instanceof WrongUsage)) throw error
    world.stderr(`error: ${error.message}\n`)
    return exitCodes.usage
  }
}

async function verifyPlace(world: World, options: VerifyCommandOptions, where: string | undefined) {
  const keys = keysOf(options.publicKey)
  const untilAt = options.until === undefined ? undefined : untilOf(options.until)
  const lastSha256 = (options.lastManifest ?? []).map(hashOf)
  const acceptedGaps = (options.acceptGap ?? []).map(gapOf)
  const { store, storedIn, close } = placeOf(world, options, where)
  try {
    const verified = await verifyEvidence(
      store,
      { keys, untilAt, lastSha256, acceptedGaps, storedIn },
      ({ level, where: at, what }) => world.stdout(`${level}: ${at} ${what}\n`),
    )
    world.stdout(reportOf(verified, untilAt !== undefined || lastSha256.length > 0))
    return verified.faults === 0 ? exitCodes.done : exitCodes.failed
  } finally {
    await close()
  }
}

function keysOf(files: readonly string[]) {
  if (files.length === 0)
    throw new WrongUsage('want --public-key FILE: the public half of the key that signs the manifests')
  return new Map(
    files.flatMap((file) => {
      try {
        return [...readPublicKeys(readFileSync(file, 'utf8'))]
      } catch (error) {
        const why = errnoOf(error, error instanceof Error ? error.message : 'unknown error')
        throw new WrongUsage(`--public-key ${file} cannot be used: ${why}`)
      }
    }),
  )
}

function untilOf(text: string): number {
  const day = /^\d{4}-\d\d-\d\d$/.test(text)
  const at = parseInstantText(day ? `${text}T00:00:00Z` : text)
  if (Number.isFinite(at)) return at / 1000
  throw new WrongUsage(`--until ${text}: want a time in UTC such as 2026-01-31T00:00:00Z`)
}

function hashOf(text: string): string {
  const hash = text.toLowerCase()
  if (/^[0-9a-f]{64}$/.test(hash)) return hash
  throw new WrongUsage(`--last-manifest ${text}: want a SHA-256 of 64 hex digits, as verify tells it`)
}

function gapOf(text: string): Range {
  const [, first, last] = /^(\d{1,15})-(\d{1,15})$/.exec(text) ?? []
  if (first !== undefined && last !== undefined) return { first: Number(first), last: Number(last) }
  throw new WrongUsage(`--accept-gap ${text}: want two sequence numbers such as 101-250`)
}

interface Place {
  readonly store: EvidenceStore
  /** a folder does not know */
  readonly storedIn?: StoredIn
  readonly close: () => Promise<void>
}

function placeOf(world: World, options: VerifyCommandOptions, where: string | undefined): Place {
  const address = where === undefined ? undefined : /^s3:\/\/([^/]+)\/?(.*)$/i.exec(where)
  if (where !== undefined && !address && options.sink === undefined && !where.includes('://')) {
    const deeper = deeperThan(where)
    if (deeper !== undefined)
      throw new WrongUsage(`${where}: no folder manifest stands in it; did you mean ${deeper}?`)
    return { store: folderEvidence(where), close: () => Promise.resolve() }
  }
  if (where !== undefined && !address)
    throw new WrongUsage(`${where}: want s3://bucket/prefix, or a folder copied from there without --sink`)
  const named = address ? { bucket: address[1] ?? '', prefix: (address[2] ?? '').replace(/\/+$/, '') } : {}
  const known = options.sink === undefined ? undefined : sinkOf(world, options, options.sink)
  if (!address && !known)
    throw new WrongUsage(
      'want what to verify: s3://bucket/prefix, a folder, or --sink NAME of a configuration',
    )
  return bucketPlace(world, known ? { ...known, ...named } : optionsOf(options, named))
}

/** A copy of a whole bucket has the sink's prefix as a folder of its own. */
function deeperThan(folder: string): string | undefined {
  const hasManifests = (name: string) => existsSync(join(name, 'manifest'))
  if (!existsSync(folder) || !statSync(folder).isDirectory() || hasManifests(folder)) return undefined
  return readdirSync(folder)
    .map((name) => join(folder, name))
    .find(hasManifests)
}

/** The bucket as the daemon's configuration has it. */
function sinkOf(world: World, { config }: VerifyCommandOptions, name: string): S3Options {
  const sinks = knownConfig(configFile(world, config), world).sinks.filter((sink) => sink.type === 's3')
  const found = sinks.find((sink) => sink.name === name)
  if (found) return found
  throw new WrongUsage(unknownName('s3 sink', name, sinks))
}

/** Keys come from the environment, as for any tool that speaks to a bucket. */
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

function bucketPlace(world: World, options: S3Options): Place {
  const networks: ReturnType<typeof openTransport>[] = []
  const store = new Store(options, {
    clock: systemClock,
    transport: (tls) => {
      const network = openTransport({ tls, proxy: proxyOf(world.env) })
      networks.push(network)
      return network.send
    },
  })
  return {
    store: bucketEvidence(store, options.prefix, world.signal),
    storedIn: { bucket: options.bucket, prefix: options.prefix },
    close: async () => {
      await store.close()
      await Promise.all(networks.map((network) => network.close()))
    },
  }
}
