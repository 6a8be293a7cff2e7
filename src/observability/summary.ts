// The sentence at the top of /status, which an operator reads first.
import { rateLimitOf, isCaughtUp, sinceText } from './status.ts'
import type { FaultStatus, SinkStatus, SourceStatus, StatusReport, WorkspaceStatus } from './status.ts'
import { answerText, countText, utcText, limitedText, numberText, spanText } from './words.ts'

/** A longer lag is mentioned. */
const NOTABLE_LAG_SECONDS = 60
const MAX_CLAUSES = 3
/** Findings are mentioned this long, so that a person who looks once a day sees them. */
const FOREIGN_SHOWN_SECONDS = 25 * 3600
/** Slack after the linger time of a batch: it is loaded and sent. */
const BRIEF_SECONDS = 1

/** How long an entry may wait for its batch to fill, seconds. */
export type Lingers = (sink: string) => number

function secondsSince(instant: string, report: Pick<ReportFacts, 'reported_at'>): number {
  return Math.max(0, (Date.parse(report.reported_at) - Date.parse(instant)) / 1000)
}

type ReportFacts = Omit<StatusReport, 'summary' | 'backfills' | 'replays' | 'errors' | 'history'>

/** Without the full stop, so that text can follow. */
const asClause = (message: string) => message.replace(/[.\s]+$/, '')

/** The error message beside the sentence, unless the sentence contains it already. */
export const faultText = ({ message }: FaultStatus, { summary }: Pick<StatusReport, 'summary'>): string =>
  summary.includes(asClause(message)) ? 'as above' : message

function why(error: FaultStatus | null): string {
  return error ? `: ${asClause(error.message)}` : ''
}

type Why = typeof why
const unsaid: Why = () => ''

function pausedClause({ sinks, workspaces }: ReportFacts): string {
  const slowest = sinks
    .filter(({ pending_entries }) => pending_entries > 0)
    .toSorted((a, b) => b.lag_seconds - a.lag_seconds || b.pending_entries - a.pending_entries)[0]
  const paused = workspaces.flatMap(({ sources }) => sources).find(({ state }) => state === 'paused')
  if (paused?.error && paused.error.code !== 'journal_full') return `Reading is paused${why(paused.error)}`
  if (!slowest) return 'Reading is paused: the journal is full'
  const backlog = `${slowest.name} has ${countText(slowest.pending_entries, 'pending entries')}, the oldest for ${spanText(slowest.lag_seconds)}`
  return `Reading is paused because the journal is full: ${backlog}${slowest.error ? ` (${why(slowest.error).slice(2)})` : ''}`
}

function sourceClauses(report: ReportFacts, why: Why): string[] {
  return report.workspaces.flatMap(({ name: workspace, sources }) =>
    sources
      .filter(({ state }) => state === 'blocked' || state === 'failing')
      .map(({ name, state, error }) => {
        const since = error ? ` for ${spanText(secondsSince(error.since, report))}` : ''
        return `${workspace} ${name} has been ${state}${since}${why(error)}`
      }),
  )
}

function sinkClauses({ sinks }: ReportFacts, why: Why): string[] {
  return sinks
    .filter(({ state }) => state === 'blocked' || state === 'failing')
    .map((sink) => `${sink.name} ${troubleOf(sink)}${why(sink.error)}`)
}

function troubleOf({ state, lag_seconds, pending_entries }: SinkStatus): string {
  if (pending_entries === 0) return `is ${state}`
  if (lag_seconds < 1) return state === 'blocked' ? 'is blocked' : 'cannot deliver'
  return `is ${state === 'blocked' ? 'blocked and ' : ''}${spanText(lag_seconds)} behind`
}

/** The last delivery may be of another sink. A sink with an error is mentioned for that. */
const isRejecting = ({ rejecting, state }: SinkStatus): boolean =>
  rejecting !== undefined && state !== 'blocked' && state !== 'failing'

function rejectingClauses({ sinks, reported_at }: ReportFacts): string[] {
  return sinks.filter(isRejecting).flatMap(({ name, rejecting }) => {
    if (!rejecting) return []
    const span = spanText(secondsSince(rejecting.since, { reported_at }))
    return [
      `${name} has accepted nothing for ${span}: its last ${countText(rejecting.entries, 'entries')} became dead letters (auditferry dead-letters list says why)`,
    ]
  })
}

/** '' if it waits only for its share of the rate limit. */
function limitOf(source: SourceStatus, workspace: WorkspaceStatus, { reported_at }: ReportFacts): string {
  const until = rateLimitOf(source, workspace)?.limited_until
  return until === undefined ? '' : limitedText(until, Date.parse(reported_at))
}

function waitsClause(source: SourceStatus, workspace: WorkspaceStatus, report: ReportFacts): string {
  if (source.waits_for_memory_since !== undefined) return ', waiting for memory that other answers use'
  const answer = answerText(source.answer_comes_since, Date.parse(report.reported_at))
  if (answer !== '') return `, ${answer}`
  if (source.state !== 'waiting') return ''
  const limit = limitOf(source, workspace, report)
  return `, waiting${limit === '' ? ' for its rate limit' : `: ${limit}`}`
}

/** A restart keeps the time of the next read: the last read may be an earlier process's. */
function nextReadText({ last_success_at: at }: SourceStatus, report: ReportFacts): string {
  if (at === null) return 'first read'
  if (Date.parse(at) >= Date.parse(report.configured_at)) return 'next read'
  return `first read ${sinceText(report)}, the last was ${spanText(secondsSince(at, report))} ago`
}

/** For a source that lags, or whose lag is unknown. */
function readingClause(source: SourceStatus, workspace: WorkspaceStatus, report: ReportFacts): string {
  const { lag_seconds, state, last_success_at } = source
  const name = `${workspace.name} ${source.name}`
  const waits = waitsClause(source, workspace, report)
  if (last_success_at !== null && isOverdue(source, report)) {
    const limit = limitOf(source, workspace, report)
    return `${name} waits for its rate limit: last read ${spanText(secondsSince(last_success_at, report))} ago${limit === '' ? '' : `, ${limit}`}`
  }
  if (state === 'idle' && lag_seconds < 1) return `${name} waits for its ${nextReadText(source, report)}`
  if (last_success_at === null || state === 'starting') return `${name} is starting${waits}`
  if (lag_seconds < 1) return `${name} is reading${waits}`
  return `${name} is ${spanText(lag_seconds)} behind and still reading${waits}`
}

/** The canary reads nothing: not mentioned between prompts, or while readers have a backlog. */
function canaryClauses(source: SourceStatus, workspace: WorkspaceStatus, report: ReportFacts): string[] {
  if (source.state === 'idle' || source.state === 'starting') return []
  return [`${workspace.name}'s canary is sending its prompt${waitsClause(source, workspace, report)}`]
}

/** It waits for its rate limit, and has not read for longer than its interval allows. */
function isOverdue(source: SourceStatus, report: ReportFacts): boolean {
  const { state, caught_up_at, interval_seconds = 0 } = source
  if (state !== 'waiting' || caught_up_at === null || !isCaughtUp(source, report)) return false
  return secondsSince(caught_up_at, report) > interval_seconds + NOTABLE_LAG_SECONDS
}

/** A source that waits for memory or the rest of an answer moves no head: its lag is unknown. */
const isBehind = (source: SourceStatus, report: ReportFacts): boolean =>
  source.lag_seconds >= NOTABLE_LAG_SECONDS ||
  !isCaughtUp(source, report) ||
  isOverdue(source, report) ||
  source.waits_for_memory_since !== undefined ||
  answerText(source.answer_comes_since, Date.parse(report.reported_at)) !== ''

function behindClauses(report: ReportFacts, lingers: Lingers): string[] {
  const { workspaces, sinks } = report
  const slow = sinks
    .filter(({ name, lag_seconds }) => lag_seconds - lingers(name) >= NOTABLE_LAG_SECONDS)
    .map(({ name, lag_seconds, pending_entries }) => {
      return `${name} is ${spanText(lag_seconds)} behind and catching up, ${countText(pending_entries, 'entries')} pending`
    })
  const reading = workspaces.flatMap((one) =>
    one.sources
      .filter((source) => isBehind(source, report))
      .flatMap((source) =>
        source.name === 'assistant'
          ? canaryClauses(source, one, report)
          : [readingClause(source, one, report)],
      ),
  )
  return [...slow, ...reading]
}

/** Waiting too short to be an alarm, but too long to be called caught up. */
function sendingClauses({ sinks }: ReportFacts, lingers: Lingers): string[] {
  return sinks
    .filter(
      ({ name, pending_entries, lag_seconds }) =>
        pending_entries > 0 && lag_seconds > lingers(name) + BRIEF_SECONDS,
    )
    .map(
      ({ name, pending_entries, lag_seconds }) =>
        `${countText(pending_entries, 'entries')} in flight to ${name}, the oldest for ${spanText(lag_seconds)}`,
    )
}

function calmClause(report: ReportFacts): string {
  const last =
    report.sinks
      .map(({ last_success_at }) => last_success_at ?? '')
      .toSorted()
      .at(-1) ?? ''
  const waiting = Math.max(0, ...report.sinks.map(({ pending_entries }) => pending_entries))
  if (last === '' && waiting > 0)
    return `All caught up, not due for delivery yet: ${countText(waiting, 'entries')}`
  if (last === '') return `All caught up, nothing to deliver ${sinceText(report)}`
  return `All caught up: last delivery ${spanText(secondsSince(last, report))} ago`
}

/** The oldest of each kind: a wrong clock of ours, for example, affects every workspace. */
function warningClauses({ warnings }: ReportFacts): string[] {
  const kinds = [...Map.groupBy(warnings, ({ code }) => code).values()]
  return kinds.flatMap(([first, ...more]) => {
    const rest = more.length > 0 ? ` (and ${more.length} more like it)` : ''
    return first ? [asClause(first.message) + rest] : []
  })
}

/** Entries that no receiver gets. */
function unreadClauses({ journal: { gaps, quarantined } }: ReportFacts): string[] {
  const unread = [
    ...(gaps > 0 ? [countText(gaps, 'possible gaps')] : []),
    ...(quarantined > 0 ? [`${numberText(quarantined)} quarantined`] : []),
  ]
  return unread.length > 0 ? [unread.join(', ')] : []
}

function deadLetterClauses({ sinks }: ReportFacts): string[] {
  return sinks
    .filter((sink) => sink.dead_letters > 0 && !isRejecting(sink))
    .map(({ name, dead_letters }) => `${countText(dead_letters, 'dead letters')} at ${name}`)
}

/** Perhaps a stolen key, so it is mentioned beside every other fault, also after a restart. */
function foreignClauses({ findings, journal, ...report }: ReportFacts): string[] {
  const recent = findings.filter(({ found_at }) => secondsSince(found_at, report) < FOREIGN_SHOWN_SECONDS)
  const last = recent
    .map(({ entry_at, found_at }) => entry_at ?? found_at)
    .toSorted()
    .at(-1)
  return last ? [`${countText(journal.findings, 'foreign fetches')}, the last ${utcText(last)}`] : []
}

/** With a wrong clock entries may be undiscovered. */
const isCaughtUpKnown = ({ warnings }: ReportFacts) => warnings.every(({ code }) => code !== 'clock_apart')

function join(clauses: readonly string[]): string {
  const rest = clauses.length - MAX_CLAUSES
  return [...clauses.slice(0, MAX_CLAUSES), ...(rest > 0 ? [`and ${rest} more`] : [])].join('; ')
}

function refusedClauses({ config_refused_at, config_refused_why }: ReportFacts, isAlone: boolean): string[] {
  if (config_refused_at === null) return []
  const reason = isAlone && config_refused_why !== null ? `: ${asClause(config_refused_why)}` : ''
  return [`The changed configuration is invalid, the previous one stays in use${reason}`]
}

/** Faults first, then lags; only without both it says "caught up". */
export function sentenceOf(report: ReportFacts, lingers: Lingers): string {
  const paused = report.journal.paused ? [pausedClause(report)] : []
  const lost = report.journal.lost === null ? [] : [report.journal.lost]
  const wrong = (reason: Why) => [...paused, ...sinkClauses(report, reason), ...sourceClauses(report, reason)]
  const count = lost.length + wrong(unsaid).length
  const rejecting = rejectingClauses(report)
  // With several faults the sentence names the parts; the rows have the messages.
  const warned = warningClauses(report)
  const refused = refusedClauses(report, count === 0)
  const foreign = foreignClauses(report)
  if (count > 0)
    return join([
      ...lost,
      ...refused,
      ...wrong(count === 1 ? why : unsaid),
      ...rejecting,
      ...warned,
      ...foreign,
    ])
  const late = [...rejecting, ...behindClauses(report, lingers)]
  const behind = late.length > 0 ? late : sendingClauses(report, lingers)
  const before = [...refused, ...warned, ...unreadClauses(report)]
  const calm = before.length > 0 ? calmClause(report).replace(/^A/, 'a') : calmClause(report)
  const allClear = isCaughtUpKnown(report) ? [calm] : []
  return join([
    ...before,
    ...(behind.length > 0 ? behind : allClear),
    ...foreign,
    ...deadLetterClauses(report),
  ])
}
