// All metrics, each declared once.
import { setImmediate as letOthers } from 'node:timers/promises'
import { AggregatorRegistry, Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from 'prom-client'
import type { Aggregator, Metric, MetricObjectWithValues, MetricValue } from 'prom-client'
import { deliveryBucketsSeconds } from '../contracts/reporter.ts'
import { errorCodes } from '../core/errors.ts'
import type { ErrorCode } from '../core/errors.ts'
import { WeightedHistogram } from './weighted-histogram.ts'

const requestBuckets = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]
const latenessBuckets = [0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600]

function sourceMetrics(registry: Registry) {
  const { counter, gauge, histogram } = makers(registry, 'workspace', 'source')
  return {
    state: gauge('source_state', '1 for the state that the source is in, 0 for the others', 'state'),
    interval: gauge('source_interval_seconds', 'Interval between reads; 0: unknown'),
    lastSuccess: gauge('source_last_success_timestamp_seconds', 'When a read last succeeded; 0: never'),
    caughtUp: gauge('source_caught_up_timestamp_seconds', 'When everything was last read; 0: never'),
    head: gauge('source_head_timestamp_seconds', 'Own time of the newest entry known; 0: none'),
    cursor: gauge('source_cursor_timestamp_seconds', 'Own time of the last entry read in order; 0: none'),
    lag: gauge(
      'source_lag_seconds',
      'Head minus cursor; 0 when caught up; while reading is paused and due, the time since everything was read',
    ),
    requests: counter(
      'source_requests_total',
      'Requests by HTTP status, or by error code if there was none',
      'code',
    ),
    requestDuration: histogram(
      'source_request_duration_seconds',
      'Duration of requests, including the body',
      requestBuckets,
    ),
    entries: counter('source_entries_total', 'Entries by outcome; late: new, behind the head', 'outcome'),
    waited: counter('source_rate_limit_wait_seconds_total', 'Time spent waiting for the rate limit'),
    gaps: counter('source_gaps_total', 'Possible gaps: entries that may have been missed for good'),
    // Reading the audit log creates entries of its own.
    ownFetches: counter('source_own_fetches_total', 'Entries created by our own reads that were seen again'),
    ownFetchLateness: histogram(
      'source_own_fetch_lateness_seconds',
      'How long after its own time one of our own entries was seen',
      latenessBuckets,
    ),
    findings: counter('source_findings_total', 'Findings about entries that need a person', 'kind'),
  }
}

function sinkMetrics(registry: Registry) {
  const { counter, gauge, histogram } = makers(registry, 'sink')
  return {
    state: gauge('sink_state', '1 for the state that the sink is in, 0 for the others', 'state'),
    linger: gauge('sink_linger_seconds', 'How long an entry may wait for its batch to fill'),
    pending: gauge(
      'sink_pending_entries',
      'Pending: entries in the journal that this sink has not acknowledged, including those that it will filter',
    ),
    lag: gauge(
      'sink_lag_seconds',
      'How long the oldest pending entry has been in the journal; 0: none is pending',
    ),
    entries: counter('sink_entries_total', 'Acknowledged entries by outcome', 'outcome'),
    retries: counter('sink_retries_total', 'Retried deliveries by error code', 'reason'),
    lastSuccess: gauge('sink_last_success_timestamp_seconds', 'When a delivery last succeeded; 0: never'),
    requestDuration: histogram('sink_request_duration_seconds', 'How long a delivery took', requestBuckets),
    deadLetters: gauge('sink_dead_letters', 'Dead letters: entries that the receiver rejects for good'),
    certificateExpiry: gauge(
      'sink_certificate_expiry_timestamp_seconds',
      "Earliest end of the certificates seen in a delivery, the receiver's or ours; 0: none seen",
    ),
    delivery: new WeightedHistogram({
      name: 'auditferry_delivery_seconds',
      help: "Time from an entry's own time to its acceptance by the sink",
      buckets: deliveryBucketsSeconds,
      registry,
    }),
  }
}

function canaryMetrics(registry: Registry) {
  const { gauge } = makers(registry, 'workspace')
  return {
    seconds: gauge(
      'canary_seconds',
      'How long after its prompt the last canary was seen at a stage, and acknowledged by a sink; none: not yet',
      'stage',
      'sink',
    ),
    missing: gauge('canary_missing', '1 if the last canary did not arrive in time', 'stage', 'sink'),
    interval: gauge('canary_interval_seconds', 'Shortest time between two canaries'),
    lastSuccess: gauge(
      'canary_last_success_timestamp_seconds',
      'When a canary was last seen everywhere; 0: never',
    ),
  }
}

/** The jobs in /status: under way, or ended within the last day. */
function jobMetrics(registry: Registry, what: 'backfill' | 'replay', name: string) {
  const { gauge } = makers(registry, 'workspace', 'source')
  const which = `by ${name} under way or ended within the last day; 0: none`
  return {
    underWay: gauge(`${what}_under_way`, `${name} under way; 0: none`),
    read: gauge(`${what}_read_entries`, `Entries read ${which}`),
    gaps: gauge(`${what}_gaps`, `Possible gaps ${which}`),
  }
}

function journalMetrics(registry: Registry) {
  const { gauge } = makers(registry)
  return {
    entries: gauge('journal_entries', 'Pending entries: not yet acknowledged by every sink'),
    bytes: gauge('journal_bytes', 'Pending payload'),
    capacity: gauge('journal_capacity_bytes', 'Bound of the pending payload: reading pauses there'),
    paused: gauge('journal_paused', '1 while reading is paused because there is no room'),
    quarantined: gauge('quarantined', 'Malformed elements kept as bytes, never delivered'),
  }
}

/** Only of a replica, whose journal is in PostgreSQL. */
function shardMetrics(registry: Registry) {
  const { counter, gauge } = makers(registry)
  return {
    held: gauge('shard_held', '1 if this replica holds the shard, 0 if not', 'shard'),
    epoch: gauge(
      'shard_epoch',
      'How often the shard was acquired, by any replica; only of shards that this replica holds',
      'shard',
    ),
    takeovers: counter(
      'shard_takeovers_total',
      'Shards that this replica acquired because the lease of another ended without being released',
    ),
  }
}

export type ShardMetrics = ReturnType<typeof shardMetrics>
export type SourceMetrics = ReturnType<typeof sourceMetrics>
export type SinkMetrics = ReturnType<typeof sinkMetrics>
export type CanaryMetrics = ReturnType<typeof canaryMetrics>

export type Metrics = ReturnType<typeof openMetrics>
export type MetricValues = readonly MetricObjectWithValues<MetricValue<string>>[]

interface MetricsOptions {
  readonly version: string
  /** process_* and nodejs_*; default on, off in tests. */
  readonly processMetrics?: boolean
}

export function openMetrics({ version, processMetrics: ofProcess = true }: MetricsOptions) {
  const registry = new Registry()
  const make = makers(registry)
  if (ofProcess) for (const metric of processMetrics()) registry.registerMetric(metric)
  make
    .gauge('build_info', 'Version of this program and of Node', 'version', 'node')
    .set({ version, node: process.version }, 1)
  const reload = make.gauge(
    'config_last_reload_successful',
    '1 if the configuration was last read without a fault',
  )
  reload.set(1)
  const taken = make.gauge(
    'config_last_reload_success_timestamp_seconds',
    'When the current configuration was loaded, at the start or later; counters begin there',
  )
  const refreshers: (() => void)[] = []
  const refresh = () => {
    for (const each of refreshers) each()
  }
  return {
    contentType: registry.contentType,
    source: sourceMetrics(registry),
    sink: sinkMetrics(registry),
    journal: journalMetrics(registry),
    warnings: make.gauge('warnings', 'Warnings to fix although no part fails, by kind', 'code'),
    canary: canaryMetrics(registry),
    backfill: jobMetrics(registry, 'backfill', 'backfills'),
    replay: jobMetrics(registry, 'replay', 'replays from the API'),
    /** Adds them: call once. */
    shards: () => shardMetrics(registry),
    /** Called before each scrape, to update the gauges. */
    onScrape: (each: () => void) => void refreshers.push(each),
    /** Not for a reload that succeeds: it opens new metrics, which start at 0. */
    configReloaded: (successful: boolean) => reload.set(successful ? 1 : 0),
    /** `at`: epoch ms, when the current configuration was loaded. Counters begin there. */
    configTaken: (at: number) => taken.set(at / 1000),
    /** All series in the text format. */
    async render(): Promise<string> {
      refresh()
      // Yields between metrics: a hundred workspaces have ten thousand series.
      const texts: string[] = []
      for (const { name } of registry.getMetricsAsArray()) {
        texts.push(await registry.getSingleMetricAsString(name))
        await letOthers()
      }
      return `${texts.join('\n\n')}\n`
    },
    /** The same as values, for `mergedMetrics`. */
    async values(): Promise<MetricValues> {
      refresh()
      return await registry.getMetricsAsJSON()
    },
  }
}

// The metrics of several shards as those of one process.

/** Gauges whose sum over the shards of a replica would mean nothing; all others are summed. */
const aggregators: ReadonlyMap<string, Aggregator> = new Map([
  ['build_info', 'first'],
  ['config_last_reload_successful', 'first'],
  ['config_last_reload_success_timestamp_seconds', 'first'],
  ['sink_state', 'max'],
  ['sink_linger_seconds', 'max'],
  ['sink_lag_seconds', 'max'],
  ['sink_last_success_timestamp_seconds', 'max'],
  ['sink_certificate_expiry_timestamp_seconds', 'min'],
  ['journal_paused', 'max'],
])

/** `first`: the process itself, whose metrics about it are the ones that count. */
export async function mergedMetrics(
  first: Pick<Metrics, 'values'>,
  shards: readonly Pick<Metrics, 'values'>[],
  ended: readonly MetricValues[],
): Promise<string> {
  const own = (await first.values()).map((metric) =>
    metric.name.startsWith(PREFIX) ? metric : { ...metric, aggregator: 'first' as const },
  )
  // Yields between shards and metrics, as `render` does.
  const parts = [own, ...ended]
  for (const each of shards) {
    parts.push(await each.values())
    await letOthers()
  }
  const texts: string[] = []
  for (const same of Map.groupBy(parts.flat(), ({ name }) => name).values()) {
    texts.push(await aggregated(same.map((metric) => [metric])).metrics())
    await letOthers()
  }
  return texts.join('\n')
}

/** Counters that continue when a shard is freed: a counter that falls looks like a restart. */
export async function endedCounters(
  before: MetricValues,
  shard: Pick<Metrics, 'values'>,
): Promise<MetricValues> {
  const counters = (await shard.values()).filter(
    ({ type }) => String(type) === 'counter' || String(type) === 'histogram',
  )
  return await aggregated([before, counters]).getMetricsAsJSON()
}

const aggregated = (parts: readonly MetricValues[]) =>
  AggregatorRegistry.aggregate(withoutUnseen(parts) as MetricValues[])

/** A time of 0 means that none was seen, and is no minimum. */
function withoutUnseen(parts: readonly MetricValues[]): readonly MetricValues[] {
  const keyOf = (name: string, labels: object) => `${name} ${JSON.stringify(labels)}`
  const isMinimum = ({ aggregator }: MetricValues[number]) => aggregator === 'min'
  const seen = new Set(
    parts
      .flat()
      .filter(isMinimum)
      .flatMap(({ name, values }) =>
        values.filter(({ value }) => value > 0).map(({ labels }) => keyOf(name, labels)),
      ),
  )
  return parts.map((metrics) =>
    metrics.map((metric) => {
      if (!isMinimum(metric)) return metric
      const values = metric.values.filter(
        ({ value, labels }) => value > 0 || !seen.has(keyOf(metric.name, labels)),
      )
      return { ...metric, values }
    }),
  )
}

// The closed sets of label values. Event data never creates a series.

export const sourceOutcomes = ['new', 'known', 'late', 'quarantined', 'filtered'] as const
export const sinkOutcomes = ['accepted', 'dead_lettered', 'filtered'] as const

/**
 * Documented answers of the API and common network errors: present from the start, so that the
 * first increase is visible.
 */
export const expectedCodes = [
  ...(['200', '201', '401', '403', '404', '429', '500'] as const),
  ...(['unreachable', 'timeout', 'tls_invalid'] as const satisfies readonly ErrorCode[]),
]

const statuses = [
  200, 201, 202, 204, 301, 302, 304, 307, 308, 400, 401, 403, 404, 405, 408, 409, 412, 413, 415, 422, 429,
  500, 501, 502, 503, 504,
]
const knownCodes: ReadonlySet<string> = new Set([...errorCodes, ...statuses.map(String)])
const knownReasons: ReadonlySet<string> = new Set(errorCodes)

/** A server may send any number: a rare status counts under its hundred, others under `other`. */
export function codeLabel(code: string): string {
  if (knownCodes.has(code)) return code
  return /^[1-5]\d\d$/.test(code) ? `${code.charAt(0)}xx` : 'other'
}

export function reasonLabel(reason: string): string {
  return knownReasons.has(reason) ? reason : 'other'
}

// How a metric is declared: its kind, our prefix, and its registry.

const PREFIX = 'auditferry_'

/** `own`: the labels that all of them have. */
function makers(registry: Registry, ...own: string[]) {
  const options = (name: string, help: string, more: string[] = []) => {
    return { name: `${PREFIX}${name}`, help, labelNames: [...own, ...more], registers: [registry] }
  }
  return {
    counter: (name: string, help: string, ...more: string[]) => new Counter(options(name, help, more)),
    gauge: (name: string, help: string, ...more: string[]) =>
      new Gauge({ ...options(name, help, more), aggregator: aggregators.get(name) ?? 'sum' }),
    histogram: (name: string, help: string, buckets: number[]) =>
      new Histogram({ ...options(name, help), buckets }),
  }
}

// Metrics of the process itself: collected once per process, even across reloads, because the
// collector cannot be stopped.

/** Gauges of prom-client whose names end in _total. */
const misnamed = ['handles', 'requests', 'resources'].map((what) => `nodejs_active_${what}_total`)

let processMetricsCache: readonly Metric[] | undefined

function processMetrics(): readonly Metric[] {
  processMetricsCache ??= collectProcessMetrics()
  return processMetricsCache
}

function collectProcessMetrics(): readonly Metric[] {
  const register = new Registry()
  // 100 ms instead of 10: an idle daemon should not wake a hundred times a second.
  collectDefaultMetrics({ register, eventLoopMonitoringPrecision: 100 })
  for (const name of misnamed) register.removeSingleMetric(name)
  return register.getMetricsAsArray().flatMap(({ name }) => register.getSingleMetric(name) ?? [])
}
