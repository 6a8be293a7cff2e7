// The status of a replica: the reports of all shards as one, wherever they are held.
import { MAX_ERRORS } from './recent.ts'
import type { LastHourStatus } from './recent.ts'
import { isWell } from './status-registry.ts'
import type { ShardStatus, SinkStatus, StatusReport, WorkspaceStatus } from './status.ts'
import { sentenceOf } from './summary.ts'
import type { Lingers } from './summary.ts'
import { spanText } from './words.ts'

export interface ShardPart {
  readonly status: ShardStatus
  /** undefined: none of it is known here yet */
  readonly report: StatusReport | undefined
}

export interface ReplicaFacts {
  /** in the order of the configuration */
  readonly workspaces: readonly string[]
  readonly lingers: Lingers
  /** why the database does not answer this replica; undefined: it does */
  readonly fault: string | undefined
}

/** A shard without a newer report is mentioned. A handover takes a few seconds. */
const STALE_MS = 30_000
const LAST_FINDINGS = 10

/** `own`: of the process, without any workspace or sink. */
export function mergedStatus(
  own: StatusReport,
  parts: readonly ShardPart[],
  facts: ReplicaFacts,
): StatusReport {
  const reports = parts.flatMap(({ report }) => report ?? [])
  const workspaces = workspacesOf(parts, facts.workspaces)
  const sinks = sinksOf(reports)
  const journal = journalOf(own, reports)
  const report = {
    ...own,
    workspaces,
    sinks,
    journal,
    shards: parts.map(({ status }) => status),
    warnings: warningsOf([own, ...reports]),
    findings: newest(
      reports.flatMap(({ findings }) => findings),
      ({ found_at }) => found_at,
    ).slice(0, LAST_FINDINGS),
  }
  const clauses = [...(facts.fault === undefined ? [] : [facts.fault]), ...staleClauses(own, parts)]
  // What other replicas report is not read either.
  const isIdle = facts.fault !== undefined && !parts.some(({ status }) => status.here)
  const rest = isIdle
    ? 'This replica reads and delivers nothing until the database answers, and everything below is older'
    : sentenceOf(report, facts.lingers)
  return {
    ...report,
    ok: clauses.length === 0 && isWell(report),
    summary: [...clauses, rest].join('; '),
    backfills: reports.flatMap(({ backfills }) => backfills),
    replays: reports.flatMap(({ replays }) => replays),
    errors: newest(
      [own, ...reports].flatMap(({ errors }) => errors),
      ({ last_at }) => last_at,
    ).slice(0, MAX_ERRORS),
    history: historyOf(own.history, reports),
  }
}

function staleClauses({ reported_at, configured_at }: StatusReport, parts: readonly ShardPart[]): string[] {
  return parts.flatMap(({ status: { shard, holder, here, reported_at: at } }) => {
    const ageMs = Date.parse(reported_at) - Date.parse(at ?? configured_at)
    if (here || ageMs < STALE_MS) return []
    const who = holder === null ? 'no replica works on it' : `replica ${holder} holds it`
    return [`Nothing new of shard ${shard} for ${spanText(ageMs / 1000)}: ${who}`]
  })
}

function workspacesOf(parts: readonly ShardPart[], order: readonly string[]): readonly WorkspaceStatus[] {
  const all = parts.flatMap(({ status: { here, holder }, report }) =>
    (report?.workspaces ?? []).map((each) => (here || holder === null ? each : { ...each, replica: holder })),
  )
  return all.toSorted((one, other) => order.indexOf(one.name) - order.indexOf(other.name))
}

const sum = (numbers: readonly number[]) => numbers.reduce((all, each) => all + each, 0)
const newest = <One>(all: readonly One[], at: (one: One) => string) =>
  all.toSorted((one, other) => Date.parse(at(other)) - Date.parse(at(one)))

function journalOf(own: StatusReport, reports: readonly StatusReport[]): StatusReport['journal'] {
  const all = reports.map(({ journal }) => journal)
  const total = (of: (one: StatusReport['journal']) => number) => sum(all.map(of))
  return {
    ...own.journal,
    entries: total(({ entries }) => entries),
    bytes: total(({ bytes }) => bytes),
    capacity_bytes: total((one) => one.capacity_bytes),
    paused: all.some(({ paused }) => paused),
    quarantined: total(({ quarantined }) => quarantined),
    gaps: total(({ gaps }) => gaps),
    findings: total(({ findings }) => findings),
    unconfigured: [...new Set(all.flatMap(({ unconfigured }) => unconfigured))],
  }
}

function sinksOf(reports: readonly StatusReport[]): readonly SinkStatus[] {
  const byName = Map.groupBy(
    reports.flatMap(({ sinks }) => sinks),
    ({ name }) => name,
  )
  return [...byName.values()].map(sinkOf)
}

/** The last is the worst. */
const states: readonly SinkStatus['state'][] = [
  'starting',
  'idle',
  'collecting',
  'sending',
  'failing',
  'blocked',
]

/** One sink, as each shard sees it: its worst state with that error, the largest lag, sums of counts. */
function sinkOf(all: readonly SinkStatus[]): SinkStatus {
  const [worst] = all.toSorted((one, other) => states.indexOf(other.state) - states.indexOf(one.state))
  if (!worst) throw new Error('A sink has at least one status')
  const total = (of: (one: SinkStatus) => number) => sum(all.map(of))
  const [uploadAt] = all.flatMap(({ next_upload_at: at }) => at ?? []).toSorted()
  const rejecting = all.flatMap((one) => one.rejecting ?? [])
  const [since] = rejecting.map((one) => one.since).toSorted()
  const successes = all.flatMap(({ last_success_at: at }) => at ?? []).toSorted()
  return {
    ...worst,
    ...(worst.state === 'collecting' && uploadAt !== undefined && { next_upload_at: uploadAt }),
    pending_entries: total(({ pending_entries }) => pending_entries),
    lag_seconds: Math.max(...all.map(({ lag_seconds }) => lag_seconds)),
    last_success_at: successes.at(-1) ?? null,
    accepted_entries: total(({ accepted_entries }) => accepted_entries),
    filtered_entries: total(({ filtered_entries }) => filtered_entries),
    dead_letters: total(({ dead_letters }) => dead_letters),
    ...(since !== undefined && {
      rejecting: { since, entries: sum(rejecting.map(({ entries }) => entries)) },
    }),
  }
}

/** A shared file or secret is warned of by each shard: the oldest warning counts. */
function warningsOf(reports: readonly StatusReport[]): StatusReport['warnings'] {
  const all = newest(
    reports.flatMap(({ warnings }) => warnings),
    ({ since }) => since,
  )
  const byKind = new Map(all.map((each) => [`${each.code} ${each.about}`, each]))
  return [...byKind.values()].toReversed()
}

/** Each ends now, so they are added from their ends. */
function historyOf(own: LastHourStatus, reports: readonly StatusReport[]): LastHourStatus {
  const all = reports.map(({ history }) => history)
  const steps = Math.max(own.read.length, ...all.map(({ read }) => read.length))
  const added = (of: (one: LastHourStatus) => readonly number[]) =>
    Array.from({ length: steps }, (_, i) => sum(all.map((one) => of(one).at(i - steps) ?? 0)))
  return {
    step_seconds: own.step_seconds,
    read: added(({ read }) => read),
    delivered: added(({ delivered }) => delivered),
    pending: added(({ pending }) => pending),
  }
}
