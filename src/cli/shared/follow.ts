// Follows what the running daemon reads again on somebody's word: how far it is, and what came of it. It goes on without the command, and over restarts.
import { lackingText } from '../../contracts/jobs.ts'
import type { WaitsFor } from '../../contracts/jobs.ts'
import { isSameOrigin } from '../../contracts/source.ts'
import type { Origin } from '../../contracts/source.ts'
import type { ControlClient } from '../../control/client.ts'
import type { Clock } from '../../core/clock.ts'
import { ConnectorError } from '../../core/errors.ts'
import type { ErrorCode } from '../../core/errors.ts'
import { printable } from '../../core/printable.ts'
import { countText, waitText } from '../../observability/words.ts'
import { areKnown } from './names.ts'
import type { There, Whose } from './names.ts'
import { exitCodes } from './world.ts'
import type { World } from './world.ts'

const LOOK_MS = 1_000
const LINE_MS = 10_000
/** A daemon that restarts is back within this, or the command leaves it. */
const PATIENCE_MS = 30_000

/** Until all that were begun have ended, or are no longer there, or the signal. */
export async function follow<One extends Followed>(
  world: World,
  following: Following<One>,
  begun: readonly One[],
  connect: () => Promise<ControlClient | undefined>,
  clock: Clock,
): Promise<number> {
  const barText = world.colours === true ? following.barText : undefined
  const troubles = new Set<string>()
  let now = begun
  let toldAt = clock.elapsed()
  let heardAt = clock.elapsed()
  for (;;) {
    const open = now.filter(({ endedAt }) => endedAt === undefined)
    const silence = silenceText(clock.elapsed() - heardAt)
    if (barText)
      world.stdout(`${newTroubles(following, open, troubles, silence)}${AGAIN}${barText(now)}${silence}`)
    else if (clock.elapsed() - toldAt >= LINE_MS) {
      toldAt = clock.elapsed()
      for (const one of open) world.stdout(lineText(following, one, silence))
    }
    if (open.length === 0) break
    await clock.sleep(LOOK_MS, world.signal)
    if (world.signal.aborted) return left(world, following)
    const heard = await connect()
      .then((client) => client && hear(following, client, now))
      .catch(orUndefined)
    if (heard) {
      heardAt = clock.elapsed()
      now = heard
    } else if (clock.elapsed() - heardAt >= PATIENCE_MS) return lost(world, following)
  }
  if (barText) world.stdout(AGAIN)
  for (const one of now) world.stdout(lineText(following, one))
  for (const one of now) world.stderr(following.adviceText?.(one) ?? '')
  const isWhole = now.every((one) => one.error === undefined && following.isWhole(one))
  return isWhole ? exitCodes.done : exitCodes.failed
}

function orUndefined(error: unknown): undefined {
  if (error instanceof ConnectorError && (error.code === 'unreachable' || error.code === 'timeout'))
    return undefined
  throw error
}

/** All of them as they stand now. */
async function hear<One extends Followed>(
  following: Following<One>,
  client: ControlClient,
  before: readonly One[],
): Promise<readonly One[]> {
  const heard = await following.heard(client)
  return before.map((one) =>
    one.endedAt === undefined ? awake(following, asHeard(following, heard, one)) : one,
  )
}

/** One that waits for the configuration is followed no longer: it is kept for the day on which the daemon has again what it lacks. */
function awake<One extends Followed>({ begunAt }: Following<One>, one: One): One {
  const { waitsFor: what } = one
  if (what !== 'source' && what !== 'sink' && what !== 'sources') return one
  const message = `${lackingText[what]}: it waits in the journal, and continues once ${what === 'sources' ? 'it' : `the ${what}`} is there again`
  return { ...one, endedAt: begunAt(one), error: { code: 'aborted', message } }
}

/** The same one as it stands now. One that is no longer there was cancelled, unless another is in its place: then it may have ended by itself. */
function asHeard<One extends Followed>(
  { begunAt, stays }: Following<One>,
  heard: readonly One[],
  one: One,
): One {
  const alike = heard.filter((other) => other.sink === one.sink && isSameOrigin(other.origin, one.origin))
  const same = alike.find((other) => begunAt(other) === begunAt(one))
  // One that had ended before it began is told again now that this one has left its place.
  const isOver = alike.every(
    (other) => begunAt(other) < begunAt(one) && (other.endedAt ?? Infinity) <= begunAt(one),
  )
  const how = isOver
    ? 'it was cancelled'
    : 'it ended or was cancelled, and another one has started since: see the log of the daemon'
  const error = { code: 'aborted', message: `${how}; ${stays('it')}` } as const
  return same ?? { ...one, endedAt: begunAt(one), error }
}

const howText = ({ what }: { readonly what: string }) =>
  `auditferry ${what} --status shows its progress, --cancel stops it`

function left({ stdout }: World, following: { readonly what: string }): number {
  stdout(`\nThe daemon continues it: ${howText(following)}\n`)
  return exitCodes.done
}

function lost({ stderr }: World, following: { readonly what: string }): number {
  stderr(
    `auditferry: the daemon no longer answers; the ${following.what} continues when it runs again: ${howText(following)}\n`,
  )
  return exitCodes.failed
}

/** `--status`: a name that left the configuration is known as long as one of them bears it. */
export async function tellAll<One extends Followed>(
  world: World,
  following: Following<One>,
  client: ControlClient,
  whose: Whose,
  there: () => Promise<There>,
): Promise<number> {
  const heard = await following.heard(client)
  const meant = heard.filter((one) => isOf(one, whose))
  if (meant.length === 0) {
    const known = await there()
    const names = {
      workspaces: [...known.workspaces, ...heard.map(({ origin }) => ({ name: origin.workspace }))],
      sinks: [...known.sinks, ...heard.flatMap(({ sink }) => (sink === undefined ? [] : { name: sink }))],
    }
    if (!areKnown(world, whose, names)) return exitCodes.usage
    world.stdout(
      `No ${heard.length > 0 ? 'such ' : ''}${following.title} is under way, and none came to its end within the last day; one that was cancelled is not kept\n`,
    )
  }
  for (const one of meant) world.stdout(lineText(following, one))
  return exitCodes.done
}

const isOf = ({ origin, sink }: Followed, whose: Whose): boolean =>
  origin.workspace === (whose.workspace ?? origin.workspace) &&
  origin.source === (whose.source ?? origin.source) &&
  sink === (whose.sink ?? sink)

/** `--cancel` */
export function tellCancelled<One extends Followed>(
  { stdout }: World,
  { what, title, stays }: Following<One>,
  count: number,
): number {
  if (count === 0) stdout(`No ${title} was under way: nothing to end\n`)
  else stdout(`${countText(count, `${what}s`)} ended; ${stays(count === 1 ? 'it' : 'they')}\n`)
  return exitCodes.done
}

/** `what` needs one. */
export function withoutDaemon({ stderr }: World, file: string, what: string): number {
  stderr(
    `auditferry: no daemon runs on ${file}, and ${what} needs one, since the daemon keeps the rate limit: start it with: auditferry run --config ${file}\n`,
  )
  return exitCodes.failed
}

// What a command that follows says of each part of the past that is read again: how far it is, what holds it up, what came of it.

/** A part of the past that is read again. */
interface Followed {
  readonly origin: Origin
  /** absent: it is for every sink */
  readonly sink?: string
  readonly endedAt: number | undefined
  readonly error: { readonly code: ErrorCode; readonly message: string } | undefined
  readonly waitsFor: WaitsFor | undefined
  readonly waitReason?: string | undefined
}

/** In what those of one command differ from those of the other. */
export interface Following<One extends Followed> {
  /** what it is called, and its command */
  readonly what: 'backfill' | 'replay'
  /** what it is called where none is there */
  readonly title: string
  /** of one that was cancelled */
  readonly stays: (whose: 'it' | 'they') => string
  readonly heard: (client: ControlClient) => Promise<readonly One[]>
  /** epoch ms: with its origin and its sink it tells one from the others */
  readonly begunAt: (one: One) => number
  readonly nameText: (one: One) => string
  /** 0 to 1 */
  readonly ratio: (one: One) => number
  readonly countsText: (one: One) => string
  readonly isWhole: (one: One) => boolean
  readonly endText: (one: One, ended: string) => string
  /** on a screen, of all together */
  readonly barText?: (all: readonly One[]) => string
  /** behind the last lines */
  readonly adviceText?: (one: One) => string
}

/** Looks that are answered in their time are closer together. */
const SILENT_MS = 3_000
/** To the line's beginning, and everything off it. */
const AGAIN = '\r\u001b[K'

/** What the daemon said last may no longer hold: that it says nothing is told in place of it. */
const silenceText = (silentMs: number) =>
  silentMs < SILENT_MS ? '' : `; no answer from the daemon since ${Math.round(silentMs / 1000)} s`

function lineText<One extends Followed>(following: Following<One>, one: One, silence = ''): string {
  const { nameText, ratio, countsText, isWhole, endText } = following
  const why = one.error && printable(one.error.message)
  if (one.endedAt !== undefined)
    return `${endText(one, why ?? (isWhole(one) ? 'done' : 'ended, not whole'))}\n`
  return `${nameText(one)}: ${percentText(ratio(one))}, ${countsText(one)}${silence || troubleText(one)}\n`
}

/** What holds it up, if anything does. */
export function troubleText({ error, waitsFor, waitReason }: Trouble): string {
  if (error) return `; trying again: ${printable(error.message)}`
  const text = waitText(waitsFor, waitReason)
  return text === '' ? '' : `. ${printable(text)}`
}

interface Trouble {
  readonly error?: { readonly message: string } | null | undefined
  readonly waitsFor?: WaitsFor | null | undefined
  readonly waitReason?: string | null | undefined
}

/** Of those under way: what holds one up is told once on a screen, above the bar. */
function newTroubles<One extends Followed>(
  following: Following<One>,
  open: readonly One[],
  told: Set<string>,
  silence: string,
): string {
  if (silence !== '') return ''
  const news = open.filter((one) => {
    // The figures of a wait change all the time.
    const trouble = one.error ? troubleText(one) : (one.waitsFor ?? '')
    return trouble !== '' && told.size < told.add(`${following.nameText(one)}${trouble}`).size
  })
  return news.map((one) => `${AGAIN}${lineText(following, one)}`).join('')
}

export const percentText = (ratio: number) => `${Math.floor(ratio * 100)} %`

/** What every reading of the past may have to say of its counts. */
export const gapsText = (gaps: number) =>
  gaps === 0 ? '' : `; ${countText(gaps, 'possible gaps')}: entries there may be missing`
