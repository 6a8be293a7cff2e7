// `run --once`: runs until everything that is there now is delivered, or only blocked parts remain.
import { openApp } from '../../app/app.ts'
import type { App } from '../../app/app.ts'
import type { Config } from '../../config/schema.ts'
import { checkApart } from '../../journal/sqlite/open.ts'
import type { LogFields } from '../../core/log.ts'
import { MINUTE_MS } from '../../core/time.ts'
import type { StatusReport } from '../../observability/status.ts'
import type { Environment } from '../../app/environment.ts'
import { realEnvironment } from '../shared/environment.ts'
import type { CommandContext } from '../shared/context.ts'
import { exitCodes } from '../shared/context.ts'

/** How often the progress is checked. */
const LOOK_MS = 100
/** Only blocked parts for this long: one rejected try may be a key that is being replaced. */
const STUCK_MS = 2_000

/** Result of a single run, to be reported at the very end. */
export interface Once {
  readonly code: number
  readonly sentence: string
  /** why something is left */
  readonly why?: string
  /** as text, for a terminal */
  readonly counts: string
  /** the same as fields, for a log */
  readonly fields: LogFields
}

/** Rejects with the error that stopped the daemon, after closing all. */
export async function runOnce(
  config: Config,
  environment: Environment,
  { signal, journalCheck: program }: Pick<CommandContext, 'signal' | 'journalCheck'>,
  timeoutMs: number,
): Promise<Once> {
  const { path } = config.journal
  const open = await checkApart({ path, program, log: environment.log }, signal)
  if (signal.aborted)
    return {
      code: exitCodes.done,
      sentence: NOT_DONE,
      why: 'stopped while the journal was checked',
      counts: 'nothing was read',
      fields: {},
    }
  const app = await openApp(config, environment, { once: true }, open)
  // Stops the watch in any case: its sleeps would keep the process alive.
  const ending = new AbortController()
  try {
    const running = app.run()
    const ended = await Promise.race([
      running.then(() => 'done' as const),
      watchOnce(app, environment, AbortSignal.any([signal, ending.signal]), timeoutMs),
    ])
    return onceOf(app, ended)
  } finally {
    ending.abort()
    await app.stop()
  }
}

type Ending = 'done' | 'stuck' | 'timeout' | 'signal'

async function watchOnce(
  app: App,
  { clock, log }: Environment,
  signal: AbortSignal,
  timeoutMs: number,
): Promise<Ending> {
  const startedAt = clock.elapsed()
  const logProgress = progressLogger({ clock, log }, () => app.registry.status())
  let stuckSince: number | undefined
  for (;;) {
    await clock.sleep(LOOK_MS, signal)
    if (signal.aborted) return 'signal'
    const now = clock.elapsed()
    if (now - startedAt >= timeoutMs) return 'timeout'
    const state = app.singleRun()
    if (state === 'done') return 'done'
    stuckSince = state === 'stuck' ? (stuckSince ?? now) : undefined
    if (stuckSince !== undefined && now - stuckSince >= STUCK_MS) return 'stuck'
    logProgress()
  }
}

type RunStatus = Pick<StatusReport, 'summary' | 'workspaces' | 'sinks'>

/** Call often: logs the progress once a minute, since a first run may take long. @internal */
export function progressLogger(
  { clock, log }: Pick<Environment, 'clock' | 'log'>,
  status: () => RunStatus,
): () => void {
  let loggedAt = clock.elapsed()
  return () => {
    if (clock.elapsed() - loggedAt < MINUTE_MS) return
    loggedAt = clock.elapsed()
    const { summary, workspaces, sinks } = status()
    log.info('The run continues', {
      summary,
      entries_read: readOf(workspaces),
      entries_pending: mostPending(sinks),
    })
  }
}

const readOf = (workspaces: StatusReport['workspaces']): number =>
  workspaces.flatMap(({ sources }) => sources).reduce((sum, source) => sum + source.new_entries, 0)

const mostPending = (sinks: StatusReport['sinks']): number =>
  Math.max(0, ...sinks.map((sink) => sink.pending_entries))

const countOf = (count: number, one: string, more: string): string => `${count} ${count === 1 ? one : more}`

/** What was read, delivered and filtered; a filter explains why nothing arrived. @internal */
export function deliveredText({ workspaces, sinks }: Pick<StatusReport, 'workspaces' | 'sinks'>): string {
  const sources = workspaces.flatMap((workspace) => workspace.sources)
  const filteredOf = (parts: readonly { readonly filtered_entries: number }[], by: string) => {
    const filtered = parts.reduce((sum, part) => sum + part.filtered_entries, 0)
    return filtered === 0 ? [] : [`${filtered} filtered by ${by}`]
  }
  const read = readOf(workspaces)
  const delivered = sinks.reduce((sum, sink) => sum + sink.accepted_entries, 0)
  return [
    countOf(read, 'new entry', 'new entries'),
    ...filteredOf(sources, 'audit.types'),
    countOf(delivered, 'delivery', 'deliveries'),
    ...filteredOf(sinks, 'what the sinks take'),
  ].join(', ')
}

const DONE = 'Everything visible at start was read and delivered'
const DONE_WITH_LEFTOVERS =
  'Everything visible at start was read, and delivered except for dead letters and quarantined elements'
const NOT_DONE = 'Not everything was read and delivered; nothing is lost, and the next run continues'

/** The result, with its documented exit code. */
function onceOf(app: App, ended: Ending): Once {
  const status = app.registry.status()
  const { sinks, journal, summary: state } = status
  const letters = sinks.reduce((sum, sink) => sum + sink.dead_letters, 0)
  const pending = mostPending(sinks)
  const counts = [
    deliveredText(status),
    ...(pending === 0 ? [] : [`${pending} pending`]),
    countOf(letters, 'dead letter', 'dead letters'),
    `${journal.quarantined} quarantined`,
    countOf(journal.gaps, 'possible gap', 'possible gaps'),
  ].join(', ')
  const fields = {
    ...countsOf(status),
    pending,
    dead_letters: letters,
    quarantined: journal.quarantined,
    gaps: journal.gaps,
  }
  if (ended === 'done' && pending === 0) {
    const sentence = letters + journal.quarantined === 0 ? DONE : DONE_WITH_LEFTOVERS
    return { code: exitCodes.done, sentence, counts, fields }
  }
  const why = {
    done: 'entries are still pending',
    stuck: 'only blocked parts remain',
    timeout: 'the timeout came first',
    signal: 'stopped',
  }[ended]
  // A signal is a deliberate stop.
  const code = ended === 'signal' ? exitCodes.done : exitCodes.failed
  return { code, sentence: NOT_DONE, why: `${why}: ${state}`, counts, fields }
}

/** By sink: accepted and filtered entries. */
function countsOf({ workspaces, sinks }: Pick<StatusReport, 'workspaces' | 'sinks'>): LogFields {
  const filtered = workspaces
    .flatMap(({ sources }) => sources)
    .reduce((sum, one) => sum + one.filtered_entries, 0)
  const bySink = sinks.flatMap((sink): [string, number][] => [
    [`delivered.${sink.name}`, sink.accepted_entries],
    ...(sink.filtered_entries === 0
      ? []
      : [[`filtered.${sink.name}`, sink.filtered_entries] as [string, number]]),
  ])
  return {
    entries_read: readOf(workspaces),
    ...(filtered > 0 && { entries_filtered: filtered }),
    ...Object.fromEntries(bySink),
  }
}

/** One line, whatever the log level: text on a terminal, JSON otherwise. */
export function reportOnce(
  { code, sentence, why, counts, fields }: Once,
  context: CommandContext,
  config: Config,
): void {
  if (context.terminal) {
    context.stderr(`auditferry: ${sentence}${why === undefined ? '' : ` (${why})`}: ${counts}\n`)
    return
  }
  const { log } = realEnvironment({ ...config, log: { ...config.log, level: 'info' } }, context)
  log[code === exitCodes.done && why === undefined ? 'info' : 'warn'](sentence, { why, ...fields })
}
