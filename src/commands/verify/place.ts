// Which evidence `verify` reads: a folder, a bucket by its address, or the bucket of a sink that a configuration names.
import { existsSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { isExposed } from '../../config/fields.ts'
import { printableName } from '../../model/printable.ts'
import { systemClock } from '../../ops/clock.ts'
import { openTransport } from '../../ops/transport.ts'
import { bucketEvidence } from '../../sinks/s3/evidence-bucket.ts'
import { folderEvidence } from '../../sinks/s3/verify/folder.ts'
import type { EvidenceStore } from '../../sinks/s3/verify/objects.ts'
import type { StoredIn } from '../../sinks/s3/evidence/manifest.ts'
import { options as s3Options, type S3Options } from '../../sinks/s3/options.ts'
import { Store } from '../../sinks/s3/bucket/store.ts'
import { configFile } from '../shared/config-file.ts'
import { knownConfig } from '../shared/known-config.ts'
import { unknownName } from '../shared/named.ts'
import { proxyOf } from '../shared/real-outside.ts'
import type { World } from '../shared/world.ts'

export interface VerifyPlaceOptions {
  readonly endpoint?: string
  readonly region?: string
  readonly allowInsecure?: boolean
  readonly config?: string
  readonly sink?: string
}

/** What was asked makes no sense: told, exit 2. */
export class WrongUsage extends Error {}

/** Where the objects are and who reads them. */
interface VerifyPlace {
  readonly store: EvidenceStore
  /** a folder does not know */
  readonly storedIn?: StoredIn
  readonly close: () => Promise<void>
}

/** Throws WrongUsage where what was given names no place, or two. */
export function verifyPlaceOf(
  world: World,
  options: VerifyPlaceOptions,
  where: string | undefined,
): VerifyPlace {
  const address = where === undefined ? undefined : /^s3:\/\/([^/]+)\/?(.*)$/i.exec(where)
  if (where !== undefined && !address && options.sink === undefined && !where.includes('://')) {
    const deeper = deeperThan(where)
    if (deeper !== undefined)
      throw new WrongUsage(
        `${where}: no folder manifest stands in it; did you mean ${printableName(deeper)}?`,
      )
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
function sinkOf(world: World, { config }: VerifyPlaceOptions, name: string): S3Options {
  const all = knownConfig(configFile(world, config), world).sinks
  const sinks = all.filter((sink) => sink.type === 's3')
  const found = sinks.find((sink) => sink.name === name)
  if (found) return found
  const other = all.find((sink) => sink.name === name)
  if (other)
    throw new WrongUsage(`sink ${name} is of type ${other.type}: only what an s3 sink stored can be verified`)
  throw new WrongUsage(unknownName('s3 sink', name, sinks))
}

/** Keys come from the environment, as for any tool that speaks to a bucket. */
function optionsOf(options: VerifyPlaceOptions, named: object): S3Options {
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

function bucketPlace(world: World, options: S3Options): VerifyPlace {
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
