// `verify`: whether a bucket, or a folder copied from one, holds what its signed manifests say. Reads only; needs no daemon and no journal.
import { readFileSync } from 'node:fs'
import { reasonOf } from '../../config/references.ts'
import { errnoOf } from '../../model/errors.ts'
import { systemClock } from '../../ops/clock.ts'
import { parseInstantText } from '../../model/time.ts'
import type { Range } from '../../sinks/s3/verify/chain.ts'
import { verifyEvidence } from '../../sinks/s3/verify/verify.ts'
import { readPublicKeys } from '../../sinks/s3/evidence/manifest-signature.ts'
import { type VerifyPlaceOptions, verifyPlaceOf, WrongUsage } from './place.ts'
import { reportOf } from './report.ts'
import { exitCodes, type World } from '../shared/world.ts'

export interface VerifyCommandOptions extends VerifyPlaceOptions {
  readonly publicKey: readonly string[]
  readonly until?: string
  readonly lastManifest?: readonly string[]
  readonly acceptGap?: readonly string[]
}

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
  const untilAt = options.until === undefined ? undefined : untilOf(options.until)
  const lastSha256 = (options.lastManifest ?? []).map(hashOf)
  const acceptedGaps = (options.acceptGap ?? []).map(gapOf)
  const { store, storedIn, close } = verifyPlaceOf(world, options, where)
  try {
    // What cannot be verified at all needs no key.
    const keys = keysOf(options.publicKey)
    const pause = (ms: number) => systemClock.sleep(ms, world.signal)
    const verified = await verifyEvidence(
      store,
      { keys, untilAt, lastSha256, acceptedGaps, storedIn, pause },
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
        const isOnDisk = errnoOf(error, '') !== ''
        const why = !isOnDisk && error instanceof Error ? error.message : reasonOf(error)
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
