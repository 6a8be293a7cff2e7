// `replay`: sends to one sink again what it had already, by the entries' own time; as much as the journal still keeps.
import { kindOf } from '../sinks/index.ts'
import type { SinkConfig } from '../config/schema.ts'
import { ConnectorError } from '../model/errors.ts'
import type { Replayed, ReplayQuery } from '../model/journal.ts'
import { secondText } from '../model/time.ts'
import { systemClock } from '../ops/clock.ts'
import { countText, sizeText } from '../ops/status.ts'
import type { OpenAside } from './aside.ts'
import { withAside } from './aside.ts'
import { spanOf } from './instants.ts'
import { exitCodes, type World } from './world.ts'

export interface ReplayOptions {
  readonly config?: string
  readonly sink: string
  readonly from: string
  readonly to?: string
  readonly workspace?: string
  readonly dryRun: boolean
}

/** The journal is full of what is owed: its sinks make room, and the replay goes on. */
const WAIT_MS = 2_000
/** So long without room, and the replay ends with what it has done. */
const PATIENCE_MS = 60_000

export function replay(world: World, options: ReplayOptions): Promise<number> {
  return withAside(world, options.config, async (opened) => {
    const nowMs = systemClock.now()
    const span = spanOf(world, options.from, options.to, nowMs)
    if (!span) return exitCodes.usage
    const sink = opened.sinks.find(({ name }) => name === options.sink)
    if (!sink) {
      const names = opened.sinks.map(({ name }) => name).join(', ')
      world.stderr(`auditferry: there is no sink ${options.sink} in the configuration; there are ${names}\n`)
      return exitCodes.failed
    }
    if (!options.dryRun && !isMarked(sink))
      world.stderr(
        `auditferry: lines of ${sink.name} cannot tell that they are sent again (format raw, and ${sink.type} has no field of its own for it): its receiver sees these entries twice\n`,
      )
    const query = { ...span, sink: sink.name, sources: sink.sources, dryRun: options.dryRun, runAt: nowMs }
    const whole = options.workspace === undefined ? query : { ...query, workspace: options.workspace }
    const done = await walk(opened, whole, world)
    world.stdout(told(done, options, opened))
    return done.stopped ? exitCodes.failed : exitCodes.done
  })
}

/** Every format but raw has a field for it. */
function isMarked(sink: SinkConfig): boolean {
  return sink.format !== 'raw' || kindOf(sink.type).marksReplay?.(sink) === true
}

interface Done {
  entries: number
  bytes: number
  keptSince: number | undefined
  /** by a signal, or by a journal that stayed full */
  stopped: boolean
}

/** Step after step, so that the daemon does its own work in between. */
async function walk(
  { aside }: OpenAside,
  query: Omit<ReplayQuery, 'after' | 'until'>,
  { signal, stderr }: World,
): Promise<Done> {
  const done: Done = { entries: 0, bytes: 0, keptSince: undefined, stopped: false }
  let at: Pick<ReplayQuery, 'after' | 'until'> = { after: 0, until: undefined }
  let waitedMs = 0
  for (;;) {
    const step: Replayed | undefined = await aside.replay({ ...query, ...at }).catch((error: unknown) => {
      if (error instanceof ConnectorError && error.code === 'journal_full') return undefined
      throw error
    })
    if (step) {
      done.entries += step.entries
      done.bytes += step.bytes
      done.keptSince = step.keptSince
      waitedMs = 0
      if (!step.more) return done
      at = { after: step.through, until: step.until }
    } else {
      if (waitedMs === 0) stderr('auditferry: the journal is full, waiting for its sinks to take some\n')
      waitedMs += WAIT_MS
      await systemClock.sleep(WAIT_MS, signal)
    }
    if (signal.aborted || waitedMs >= PATIENCE_MS) return { ...done, stopped: true }
  }
}

function told(
  { entries, bytes, keptSince, stopped }: Done,
  options: ReplayOptions,
  opened: OpenAside,
): string {
  const what = `${countText(entries, 'entries')} (${sizeText(bytes)})`
  const kept =
    keptSince === undefined
      ? 'the journal keeps nothing'
      : `the journal keeps what it took in since ${secondText(keptSince)}`
  const limits = `${kept}; what is owed to ${options.sink} still is not counted, it comes anyway`
  if (options.dryRun) return `${what} would be sent to ${options.sink} again; ${limits}\n`
  const when = opened.running ? 'they go out now' : 'they go out when the daemon runs'
  const early = stopped ? 'Stopped early: ' : ''
  return `${early}${what} put at the journal's end for ${options.sink}, marked as a replay; ${when}; ${limits}\n`
}
