// Follows replays that the daemon reads from the API: a line every ten seconds, and what came of it. They go on without the command.
import type { Clock } from '../model/clock.ts'
import { ConnectorError } from '../model/errors.ts'
import type { ApiReplay } from '../model/replays.ts'
import { secondText } from '../model/time.ts'
import type { ControlClient } from '../ops/control-client.ts'
import { countText } from '../ops/status.ts'
import { plain } from './columns.ts'
import { exitCodes, type World } from './world.ts'

const LOOK_MS = 1_000
const LINE_MS = 10_000
/** A daemon that restarts is back within this, or the command leaves it. */
const PATIENCE_MS = 30_000
const HOW = 'auditferry replay --status tells how far it is, --cancel ends it'

type Client = Pick<ControlClient, 'replays'>

/** Until all that were begun have ended, or the signal. */
export async function follow(
  world: World,
  begun: readonly ApiReplay[],
  connect: () => Promise<Client | undefined>,
  clock: Clock,
): Promise<number> {
  let now = begun
  let toldAt = clock.elapsed()
  let heardAt = clock.elapsed()
  while (now.some(({ endedAt }) => endedAt === undefined)) {
    await clock.sleep(LOOK_MS, world.signal)
    if (world.signal.aborted) {
      world.stdout(`The daemon goes on with it: ${HOW}\n`)
      return exitCodes.done
    }
    const heard = await connect()
      .then((client) => client?.replays())
      .catch(orUndefined)
    if (heard) {
      heardAt = clock.elapsed()
      now = now.map((one) => (one.endedAt === undefined ? find(heard, one) : one))
    } else if (clock.elapsed() - heardAt >= PATIENCE_MS) {
      world.stderr(
        `auditferry: the daemon does not answer any more; the replay goes on when it runs again: ${HOW}\n`,
      )
      return exitCodes.failed
    }
    if (clock.elapsed() - toldAt < LINE_MS) continue
    toldAt = clock.elapsed()
    for (const one of now) if (one.endedAt === undefined) world.stdout(`${lineText(one)}\n`)
  }
  for (const one of now) world.stdout(`${endText(one)}\n`)
  for (const one of now) world.stderr(adviceText(one))
  const isWhole = now.every(({ error, counts }) => error === undefined && counts.gaps === 0)
  return isWhole ? exitCodes.done : exitCodes.failed
}

export function tellAll({ stdout }: World, all: readonly ApiReplay[]): number {
  if (all.length === 0) stdout('No replay from the API is under way, and none ended within the last day\n')
  for (const one of all) stdout(`${one.endedAt === undefined ? lineText(one) : endText(one)}\n`)
  return exitCodes.done
}

function orUndefined(error: unknown): undefined {
  if (error instanceof ConnectorError && (error.code === 'unreachable' || error.code === 'timeout'))
    return undefined
  throw error
}

/** The same one as it stands now; one that is no longer there was cancelled. */
function find(heard: readonly ApiReplay[], one: ApiReplay): ApiReplay {
  const { origin, runAt, sink } = one
  const same = heard.find(
    (other) =>
      other.sink === sink &&
      other.runAt === runAt &&
      other.origin.workspace === origin.workspace &&
      other.origin.source === origin.source,
  )
  const gone = {
    code: 'aborted',
    message: 'it was cancelled; what it put into the journal goes out',
  } as const
  return same ?? { ...one, endedAt: runAt, error: gone }
}

const nameText = ({ origin, sink }: ApiReplay) =>
  plain(`${origin.workspace} ${origin.source} to ${sink}, from the API`)

function percent({ spans, atUs }: ApiReplay): string {
  const whole = spans.reduce((sum, { fromUs, toUs }) => sum + toUs - fromUs, 0)
  const read = (at: number) =>
    spans.reduce((sum, { fromUs, toUs }) => sum + Math.min(Math.max(at - fromUs, 0), toUs - fromUs), 0)
  return `${atUs === undefined || whole === 0 ? 0 : Math.floor((100 * read(atUs)) / whole)} %`
}

function countsText({ counts }: ApiReplay): string {
  const number = (count: number) => count.toLocaleString('en-US')
  const { read, sent, filtered, unknown, malformed, gaps } = counts
  const told = `${number(read)} read, ${number(sent)} put at the journal's end as a replay, ${number(filtered)} filtered, ${number(malformed)} malformed`
  const never =
    unknown === 0 ? '' : `; ${number(unknown)} of them the journal does not know, or not with this content`
  return `${told}${never}${gaps === 0 ? '' : `; ${countText(gaps, 'possible gaps')}: entries there may be missing`}`
}

function lineText(one: ApiReplay): string {
  const why = one.error ? `; trying again: ${plain(one.error.message)}` : one.waiting ? '; waiting' : ''
  return `${nameText(one)}: ${percent(one)}, ${countsText(one)}${why}`
}

function endText(one: ApiReplay): string {
  if (one.spans.length === 0)
    return `${nameText(one)}: nothing to read: live reading has not come to this span yet`
  const ended = one.error ? plain(one.error.message) : one.counts.gaps > 0 ? 'ended, not whole' : 'done'
  return `${nameText(one)}: ${ended}: ${countsText(one)}`
}

/** What this sink has now and the others may lack. */
function adviceText({ counts, origin, spans }: ApiReplay): string {
  const [first] = spans
  const last = spans.at(-1)
  if (counts.unknown === 0 || !first || !last) return ''
  const span = `--workspace ${origin.workspace} --from ${secondText(first.fromUs / 1000)} --to ${secondText(Math.ceil(last.toUs / 1e6) * 1000)}`
  return `auditferry: ${countText(counts.unknown, 'entries')} of ${plain(`${origin.workspace} ${origin.source}`)} were sent that the journal does not know, or not with this content: never read, of a type that was not wanted then, changed since, or older than journal.keep_keys. Other sinks may lack them: auditferry reconcile ${span} tells, auditferry backfill ${span} delivers what is not known to every sink\n`
}
