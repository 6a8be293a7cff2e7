// The status of one sink: what its dispatcher reported, as metrics and as an element of /status.
import type { JournalStats } from '../contracts/journal.ts'
import { sinkStates } from '../contracts/reporter.ts'
import type { Asked, SinkReporter } from '../contracts/reporter.ts'
import type { Assurance } from '../contracts/sink.ts'
import type { Clock } from '../core/clock.ts'
import { actionOf, errorCodes } from '../core/errors.ts'
import type { ConnectorError, ErrorCode } from '../core/errors.ts'
import { Condition, tryAt } from './condition.ts'
import { reasonLabel, sinkOutcomes } from './metrics.ts'
import type { SinkMetrics } from './metrics.ts'
import type { Recent } from './recent.ts'
import { iso, isoOrNull } from './source-status.ts'
import type { SinkStatus } from './status.ts'
import { spanText } from './words.ts'

export interface RegistrySink {
  readonly name: string
  readonly lingerMs: number
  readonly reporter: SinkReporter
  status(stats: JournalStats): SinkStatus
  /** Updates the gauges that follow from the journal. */
  refresh(stats: JournalStats): void
}

interface SinkFacts {
  readonly name: string
  readonly type: string
  readonly assurance: () => Assurance
  /** how long an entry may wait for its batch to fill */
  readonly lingerMs: number
}

/** Nothing is retried after these errors. */
const endsAll = (code: ErrorCode): boolean => ['exit', 'stop', 'yield'].includes(actionOf(code))

function prepareSeries(metrics: SinkMetrics, sink: string): void {
  const { pending, lag, lastSuccess, deadLetters, certificateExpiry } = metrics
  for (const gauge of [pending, lag, lastSuccess, deadLetters, certificateExpiry]) gauge.set({ sink }, 0)
  for (const outcome of sinkOutcomes) metrics.entries.inc({ sink, outcome }, 0)
  for (const reason of errorCodes) if (!endsAll(reason)) metrics.retries.inc({ sink, reason }, 0)
  metrics.requestDuration.zero({ sink })
}

function pendingBy(sink: string, stats: JournalStats, now: number) {
  const position = stats.sinks.find((candidate) => candidate.sink === sink)
  const oldestAt = position?.oldestPendingAt
  return {
    entries: position?.pendingEntries ?? 0,
    lagSeconds: oldestAt === undefined ? 0 : Math.max(0, (now - oldestAt) / 1000),
    deadLetters: position?.deadLetters ?? 0,
  }
}

/** The silence shows in the status before the timeout of the request ends it. */
function unanswered(silentMs: number, now: number): SinkStatus['error'] {
  return {
    code: 'timeout',
    message: `no answer for ${spanText(silentMs / 1000)}, and the request is still open: check the receiver and the network between`,
    since: iso(now - silentMs),
  }
}

/** The reported state, and in addition a receiver that does not answer, which no part reports. */
function shownOf(
  { condition: { state, error }, probe, silence, uploadAt }: Seen,
  now: number,
): Pick<SinkStatus, 'state' | 'error' | 'next_upload_at'> {
  if (state === 'failing' || state === 'blocked') return { state, error }
  if (probe.error) return { state: probe.state, error: probe.error }
  const silentMs = silence.ms
  if (silentMs !== undefined) return { state: 'failing', error: unanswered(silentMs, now) }
  if (state === 'collecting' && uploadAt !== undefined) return { state, error, next_upload_at: iso(uploadAt) }
  return { state: state === 'idle' && silence.busy ? 'sending' : state, error }
}

/** The reports of the dispatcher so far. */
interface Seen {
  readonly condition: Condition<SinkStatus['state']>
  /** result of probes outside deliveries, until a delivery ends */
  readonly probe: Condition<SinkStatus['state']>
  readonly silence: Silence
  /** a delivery has ended */
  tried: boolean
  /** epoch ms: when the collected entries are sent; undefined: nothing is collected */
  uploadAt: number | undefined
  /** epoch ms; 0: never */
  lastSuccessAt: number
  acceptedEntries: number
  filteredEntries: number
  /** dead letters since the last accepted entry; `sinceAt`: start of the trouble, epoch ms */
  rejecting: { readonly sinceAt: number; readonly entries: number } | undefined
}

/** Rejected entries do not end a trouble: it began when the last entry was accepted, or before. */
function rejected(seen: Seen, entries: number, now: number): void {
  const { error } = seen.condition
  const sinceAt = seen.rejecting?.sinceAt ?? (error ? Date.parse(error.since) : now)
  seen.rejecting = { sinceAt, entries: (seen.rejecting?.entries ?? 0) + entries }
}

function reporterOf(seen: Seen, sink: string, { metrics, clock, recent }: SinkParts): SinkReporter {
  const shown = (error: ConnectorError | undefined) => error && recent.errors.record(sink, error)
  const { condition, probe, silence } = seen
  const delivery = metrics.delivery.labels({ sink })
  return {
    delivering() {
      const startedAt = clock.elapsed()
      const over = silence.delivering()
      return () => {
        over()
        seen.tried = true
        probe.succeed()
        metrics.requestDuration.observe({ sink }, (clock.elapsed() - startedAt) / 1000)
      }
    },
    asked: () => silence.asked(),
    active: () => silence.heard(),
    state(state, error, tryInMs) {
      const sinceAt = seen.rejecting?.sinceAt ?? clock.now() - (silence.msBeforeFault ?? 0)
      seen.uploadAt = state === 'collecting' ? tryAt(clock, tryInMs) : undefined
      condition.become(state, shown(error), sinceAt, tryAt(clock, tryInMs))
    },
    probed(error, tryInMs) {
      const fault = shown(error)
      const state = error?.action === 'block' ? 'blocked' : 'failing'
      if (!fault) probe.succeed()
      else if (!seen.tried) probe.become(state, fault, clock.now(), tryAt(clock, tryInMs))
    },
    tried: () => seen.tried,
    retry: (reason) => metrics.retries.inc({ sink, reason: reasonLabel(reason) }),
    acknowledged({ accepted, deadLettered, filtered }) {
      seen.acceptedEntries += accepted
      seen.filteredEntries += filtered
      const counts = { accepted, dead_lettered: deadLettered, filtered }
      for (const outcome of sinkOutcomes)
        if (counts[outcome] > 0) metrics.entries.inc({ sink, outcome }, counts[outcome])
      if (accepted > 0) recent.lastHour.accepted(accepted)
      if (accepted > 0) seen.rejecting = undefined
      else if (deadLettered > 0) rejected(seen, deadLettered, clock.now())
      // A receiver that rejects entries by name has answered.
      if (accepted + deadLettered > 0) condition.succeed()
    },
    delivered: (delayMs, entries) => delivery.observe(Math.max(0, delayMs) / 1000, entries),
    success() {
      seen.lastSuccessAt = clock.now()
      metrics.lastSuccess.set({ sink }, seen.lastSuccessAt / 1000)
      condition.succeed()
      silence.answered()
    },
    certificateEnds: (endsAt) => metrics.certificateExpiry.set({ sink }, endsAt / 1000),
  }
}

interface SinkParts {
  readonly metrics: SinkMetrics
  readonly clock: Clock
  readonly recent: Recent
}

export function openRegistrySink(facts: SinkFacts, parts: SinkParts): RegistrySink {
  const { metrics, clock } = parts
  const { name, type, assurance, lingerMs } = facts
  const seen: Seen = {
    ...{ tried: false, uploadAt: undefined, rejecting: undefined },
    ...{ lastSuccessAt: 0, acceptedEntries: 0, filteredEntries: 0 },
    condition: new Condition<SinkStatus['state']>('starting', ['idle', 'collecting']),
    probe: new Condition<SinkStatus['state']>('idle', []),
    silence: new Silence(clock),
  }
  prepareSeries(metrics, name)
  metrics.linger.set({ sink: name }, lingerMs / 1000)
  const current = () => shownOf(seen, clock.now())
  return {
    name,
    lingerMs,
    reporter: reporterOf(seen, name, parts),
    status(stats) {
      const { entries, lagSeconds, deadLetters } = pendingBy(name, stats, clock.now())
      const { rejecting } = seen
      return {
        name,
        type,
        assurance: assurance(),
        ...current(),
        pending_entries: entries,
        lag_seconds: lagSeconds,
        last_success_at: isoOrNull(seen.lastSuccessAt),
        accepted_entries: seen.acceptedEntries,
        filtered_entries: seen.filteredEntries,
        dead_letters: deadLetters,
        ...(rejecting && {
          rejecting: { since: iso(rejecting.sinceAt), entries: rejecting.entries },
        }),
      }
    },
    refresh(stats) {
      const own = { sink: name }
      const { entries, lagSeconds, deadLetters } = pendingBy(name, stats, clock.now())
      metrics.pending.set(own, entries)
      metrics.lag.set(own, lagSeconds)
      metrics.deadLetters.set(own, deadLetters)
      const { state: now } = current()
      for (const state of sinkStates) metrics.state.set({ ...own, state }, state === now ? 1 : 0)
    },
  }
}

// How long a receiver has not answered. The request continues; the next answer ends the silence.

/** A failing part should show within half a minute; a slow but healthy receiver answers sooner. */
const SILENT_MS = 25_000

interface Wait {
  /** monotonic ms: start, or the last sign of life */
  at: number
  /** a delivery: any sign of life of the receiver counts for it, while a request has its own */
  readonly isDelivery: boolean
}

class Silence {
  readonly #clock: Pick<Clock, 'elapsed'>
  readonly #waits = new Set<Wait>()
  /** Start of a silence in which a request was aborted; a silent next request continues it. */
  #unheardSince: number | undefined
  /** The last delivery was silent to its end, since this time. */
  #overSince: number | undefined

  constructor(clock: Pick<Clock, 'elapsed'>) {
    this.#clock = clock
  }

  /** Something is under way. */
  get busy(): boolean {
    return this.#waits.size > 0
  }

  /** ms of a silence that is too long; undefined: none */
  get ms(): number | undefined {
    return this.#tooLong(Infinity)
  }

  /** Like `ms`, including the delivery that just ended: its error is reported only after that. */
  get msBeforeFault(): number | undefined {
    return this.#tooLong(this.#overSince ?? Infinity)
  }

  #tooLong(sinceMs: number): number | undefined {
    const since = Math.min(sinceMs, this.#unheardSince ?? Infinity, ...[...this.#waits].map(({ at }) => at))
    const silentMs = this.#clock.elapsed() - since
    return silentMs >= SILENT_MS ? silentMs : undefined
  }

  delivering(): () => void {
    const wait = this.#begin(true)
    this.#overSince = undefined
    return () => {
      this.#waits.delete(wait)
      if (this.#clock.elapsed() - wait.at >= SILENT_MS) this.#overSince = wait.at
    }
  }

  asked(): Asked {
    const wait = this.#begin(false)
    this.heard()
    return {
      moved: () => {
        wait.at = this.#clock.elapsed()
        this.heard()
      },
      over: (answered) => {
        this.#waits.delete(wait)
        if (answered) this.answered()
        else if (this.#clock.elapsed() - wait.at >= SILENT_MS)
          this.#unheardSince = Math.min(this.#unheardSince ?? Infinity, wait.at)
      },
    }
  }

  /** The receiver took or sent something. */
  heard(): void {
    const now = this.#clock.elapsed()
    this.#overSince = undefined
    for (const wait of this.#waits) if (wait.isDelivery) wait.at = now
  }

  answered(): void {
    this.#unheardSince = undefined
    this.heard()
  }

  #begin(isDelivery: boolean): Wait {
    const wait = { at: this.#clock.elapsed(), isDelivery }
    this.#waits.add(wait)
    return wait
  }
}
