// Sources and sinks as table rows: state, last success, lag, limits, counts, and the last error
// message. No source or sink is known by name.
import type {
  BackfillStatus,
  ReplayStatus,
  RateLimitStatus,
  FaultStatus,
  SinkStatus,
  StatusReport,
  SourceStatus,
  WorkspaceStatus,
} from '../status.ts'
import { rateLimitOf, isLagUnknown, noDelivery } from '../status.ts'
import {
  answerText,
  limitedText,
  memoryText,
  neverTexts,
  nextTryText,
  numberText,
  uploadText,
  usedText,
  waitText,
} from '../words.ts'
import {
  agoHtml,
  escapeHtml,
  isTrouble,
  lagHtml,
  meterHtml,
  percent,
  progressHtml,
  soft,
  stateHtml,
  tableHtml,
  unbroken,
  verbatim,
  zeroIsWell,
} from './html.ts'
import type { Row } from './html.ts'

/** Up to this many workspaces are shown open; with more, only those in trouble. */
const OPEN_WORKSPACES = 6
/** Shorter backlogs end before a progress bar is useful. */
const NOTABLE_BACKLOG_SECONDS = 60

function fault(error: FaultStatus | null, now: number) {
  if (!error) return undefined
  const html = `${verbatim(error.message)} ${soft(`(${escapeHtml(error.code)}, began ${agoHtml(error.since, now)}${unbroken(nextTryText(error.next_try_at, now))})`)}`
  return { kind: 'fault', html } as const
}

function backlog({ progress, lag_seconds, name }: SourceStatus) {
  if (progress === null || lag_seconds < NOTABLE_BACKLOG_SECONDS) return undefined
  const bar = progressHtml(`${name}: how far the backlog is read`, progress)
  return {
    kind: 'progress',
    html: `${bar} <span>${percent(progress)} of the backlog read, by time</span>`,
  } as const
}

function limit(rateLimiter: RateLimitStatus | undefined, now: number) {
  if (rateLimiter?.limited_until === undefined) return undefined
  return { kind: 'limit', html: escapeHtml(limitedText(rateLimiter.limited_until, now)) } as const
}

function answer({ waits_for_memory_since, answer_comes_since }: SourceStatus, now: number) {
  const text = memoryText(waits_for_memory_since, now) || answerText(answer_comes_since, now)
  return text === '' ? undefined : ({ kind: 'limit', html: escapeHtml(text) } as const)
}

function rateLimitHtml(rateLimiter: RateLimitStatus | undefined): string {
  if (!rateLimiter) return soft('none')
  const { used, limit, lowered_from: from, shared_with: others = [] } = rateLimiter
  const lowered = from === undefined ? '' : ` ${soft(`since a 429 (${numberText(from)} before)`)}`
  const shared = others.length === 0 ? '' : ` ${soft(`together with ${others.map(escapeHtml).join(', ')}`)}`
  return `${meterHtml(`Requests of ${rateLimiter.area} in the last minute`, used, Math.max(1, limit))} ${usedText(used, limit)}${lowered}${shared}`
}

const sourceColumns = {
  columns: ['Source', 'State', 'Last read', 'Caught up', 'Lag', 'Requests/min'],
  numbers: ['New', 'Gaps'],
}

function sourceRow(source: SourceStatus, workspace: WorkspaceStatus, now: number): Row {
  const { name } = workspace
  const [unread, behind] = neverTexts(source, now)
  return {
    key: escapeHtml(`source ${name} ${source.name}`),
    name: verbatim(source.name),
    cells: [
      stateHtml(source.state),
      agoHtml(source.last_success_at, now, unread),
      agoHtml(source.caught_up_at, now, behind),
      isLagUnknown(source) ? soft('unknown') : lagHtml(source.lag_seconds),
      rateLimitHtml(rateLimitOf(source, workspace)),
      numberText(source.new_entries),
      zeroIsWell(source.gaps),
    ],
    notes: [
      backlog(source),
      limit(rateLimitOf(source, workspace), now),
      answer(source, now),
      fault(source.error, now),
    ],
  }
}

function wellBeing(sources: readonly SourceStatus[]): string {
  const troubled = sources.filter(({ state }) => isTrouble(state)).length
  if (troubled === 0)
    return `<span class="state good">${sources.length === 1 ? 'well' : `all ${sources.length} well`}</span>`
  return `<span class="state bad">${troubled} of ${sources.length} in trouble</span>`
}

function workspaceHtml(workspace: WorkspaceStatus, open: boolean, now: number) {
  const { name, sources, replica } = workspace
  const elsewhere = replica === undefined ? '' : soft(`read by replica ${verbatim(replica)}`)
  const caption = `Sources of ${escapeHtml(name)}`
  const rows = sources.map((source) => sourceRow(source, workspace, now))
  return `<details data-key="${escapeHtml(`workspace ${name}`)}"${open ? ' open' : ''}>
<summary><h3>${verbatim(name)}</h3>${wellBeing(sources)}${elsewhere}</summary>
${tableHtml({ caption, ...sourceColumns, rows })}</details>`
}

export function readingHtml(report: StatusReport, now: number): string {
  const { workspaces } = report
  const few = workspaces.length <= OPEN_WORKSPACES
  const groups = workspaces.map((workspace) => {
    const troubled = workspace.sources.some(({ state }) => isTrouble(state))
    return workspaceHtml(workspace, few || troubled, now)
  })
  const inner = groups.length > 0 ? groups.join('\n') : `<p>${soft('No workspace is read.')}</p>`
  return `<section aria-labelledby="reading"><h2 id="reading">Reading</h2>\n${inner}</section>`
}

const sinkColumns = {
  columns: ['Sink', 'State', 'Assurance', 'Last delivery', 'Behind'],
  numbers: ['Pending', 'Delivered', 'Dead letters'],
}

function uploadHtml({ next_upload_at: at }: SinkStatus, now: number): string {
  const text = uploadText(at, now)
  return text === '' ? '' : ` ${soft(unbroken(text))}`
}

function sinkRow(sink: SinkStatus, report: StatusReport, now: number): Row {
  return {
    key: escapeHtml(`sink ${sink.name}`),
    name: `${verbatim(sink.name)} ${soft(escapeHtml(sink.type))}`,
    cells: [
      stateHtml(sink.state) + uploadHtml(sink, now),
      escapeHtml(sink.assurance),
      agoHtml(sink.last_success_at, now, noDelivery(report)),
      lagHtml(sink.lag_seconds),
      numberText(sink.pending_entries),
      numberText(sink.accepted_entries),
      zeroIsWell(sink.dead_letters),
    ],
    notes: [fault(sink.error, now)],
  }
}

export function deliveringHtml(report: StatusReport, now: number): string {
  const rows = report.sinks.map((sink) => sinkRow(sink, report, now))
  return `<section aria-labelledby="delivering"><h2 id="delivering">Delivering</h2>
${tableHtml({ caption: 'Sinks', ...sinkColumns, rows })}</section>`
}

const jobColumns = ['State', 'From', 'To', 'Progress']

type JobStatus = Omit<BackfillStatus, 'new_entries'>

/** Why it is waiting now. */
function jobNote({ waits_for, wait_reason, error }: JobStatus) {
  if (error) {
    const html = `${verbatim(error.message)} ${soft(`(${escapeHtml(error.code)}, tried again)`)}`
    return { kind: 'fault', html } as const
  }
  return waits_for === null
    ? undefined
    : ({ kind: 'progress', html: escapeHtml(waitText(waits_for, wait_reason)) } as const)
}

/** State, span and progress of a job. */
function jobCells({ from, to, state, progress }: JobStatus, label: string): readonly string[] {
  const tone = { waiting: 'warn', running: 'busy', done: 'good', failing: 'bad' }[state]
  return [
    `<span class="state ${tone}">${state}</span>`,
    escapeHtml(from),
    escapeHtml(to),
    progress === null
      ? soft('not known yet')
      : `${progressHtml(label, progress)} ${unbroken(percent(progress))}`,
  ]
}

function backfillRow(backfill: BackfillStatus): Row {
  const { workspace, source, from, to, new_entries } = backfill
  return {
    key: escapeHtml(`backfill ${workspace} ${source} ${from} to ${to}`),
    name: verbatim(`${workspace} ${source}`),
    cells: [...jobCells(backfill, `Backfill of ${workspace} ${source}`), numberText(new_entries)],
    notes: [jobNote(backfill)],
  }
}

function replayRow(replay: ReplayStatus): Row {
  const { workspace, source, sink, from, to, sent_entries } = replay
  const cells = jobCells(replay, `Replay of ${workspace} ${source} to ${sink}`)
  return {
    key: escapeHtml(`replay ${workspace} ${source} ${sink} ${from} to ${to}`),
    name: verbatim(`${workspace} ${source}`),
    cells: [verbatim(sink), ...cells, numberText(sent_entries)],
    notes: [jobNote(replay)],
  }
}

/** Empty if there are none, as on most days. */
export function backfillsHtml(backfills: readonly BackfillStatus[]): string {
  if (backfills.length === 0) return ''
  const columns = ['Source', ...jobColumns]
  const table = { caption: 'Backfills', columns, numbers: ['New'], rows: backfills.map(backfillRow) }
  return `<section aria-labelledby="backfills" data-key="backfills"><h2 id="backfills">Backfills</h2>\n${tableHtml(table)}</section>`
}

export function replaysHtml(replays: readonly ReplayStatus[]): string {
  if (replays.length === 0) return ''
  const columns = ['Source', 'Sink', ...jobColumns]
  const table = { caption: 'Replays from the API', columns, numbers: ['Sent'], rows: replays.map(replayRow) }
  return `<section aria-labelledby="replays" data-key="replays"><h2 id="replays">Replays</h2>\n${tableHtml(table)}</section>`
}
