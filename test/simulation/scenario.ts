// What a seed means: a workspace, its server's habits and faults, the sinks and their faults, and when the daemon dies.
import type { Faults, Switches } from '../../src/mock/switches.ts'
import { areasOf } from './areas.ts'
import type { AreaScenario } from './areas.ts'
import { operatorOf } from './operator.ts'
import type { OperatorScenario } from './operator.ts'
import { outagesOf } from './outages.ts'
import type { OutageScenario } from './outages.ts'
import { dice } from './random.ts'

export const HOUR_MS = 3_600_000

/** A collector that acknowledges, and how it fails. */
export interface AckScenario {
  readonly acks: true | 'auto'
  readonly maxInFlight: number
  readonly timeout: string
  readonly endpoints: 1 | 2
  readonly indexers: number
  readonly delayMs: number
  readonly cookieRolls: boolean
  /** the share of requests at which an indexer crashes or restarts, or all cookies end */
  readonly upsetShare: number
  /** the share of polls of which the answer is lost, late or garbled */
  readonly pollFaultShare: number
}

export interface Scenario {
  readonly seed: number
  readonly startAt: number
  /** faults for so long, then quiet until all has been reported */
  readonly troubleMs: number
  readonly entriesPerHour: number
  readonly historyMs: number
  readonly switches: Partial<Switches>
  readonly faults: Faults
  readonly interval: string
  readonly activity: 'high' | 'medium' | 'low' | 'auto'
  readonly start: string
  readonly batchEntries: number
  readonly journalBytes: string
  readonly hecFaultShare: number
  /** the share of its life that each sink is dead, in one piece */
  readonly deadSinkHours: number
  /** steps into the environment at which each life ends; after the last the daemon lives on */
  readonly fatalSteps: readonly number[]
  readonly powerCuts: boolean
  readonly rotateBytes: string | undefined
  /** undefined: the collector's answer that it accepted a batch is all there is */
  readonly acks: AckScenario | undefined
  /** undefined: the audit log is all that is read */
  readonly areas: AreaScenario | undefined
  /** undefined: no job */
  readonly operator: OperatorScenario | undefined
  readonly outages: OutageScenario
}

/** A batch that waits for its acknowledgement waits for seconds: of one entry each a backlog would outlast its seed. */
export function hecBatchEntries({ acks, batchEntries }: Pick<Scenario, 'acks' | 'batchEntries'>): number {
  return acks ? Math.max(20, batchEntries) : batchEntries
}

/** Drawn apart, so that the rest of a seed stays the same. */
function acksOf(seed: number): AckScenario | undefined {
  const roll = dice(seed + 500_009)
  if (!roll.chance(0.3)) return undefined
  return {
    acks: roll.pick([true, 'auto'] as const),
    maxInFlight: 1 + roll.below(4),
    timeout: roll.pick(['1m', '5m']),
    endpoints: roll.pick([1, 1, 2] as const),
    indexers: roll.pick([1, 1, 2, 3]),
    delayMs: roll.pick([0, 1_500, 1_500, 6_000]),
    cookieRolls: roll.chance(0.3),
    upsetShare: roll.pick([0, 0.01, 0.05]),
    pollFaultShare: roll.pick([0, 0.03, 0.2]),
  }
}

function faultsOf(roll: ReturnType<typeof dice>): Faults {
  const some = (share: number, most: number) => (roll.chance(share) ? roll() * most : 0)
  return {
    late: some(0.6, 0.1),
    error_500: some(0.4, 0.1),
    storm_429: some(0.2, 0.01),
    reset: some(0.3, 0.05),
    cut: some(0.3, 0.05),
    truncated: some(0.3, 0.05),
    stalled: some(0.1, 0.02),
    slow: some(0.2, 0.02),
    html: some(0.2, 0.02),
    wrong_shape: some(0.2, 0.02),
    repeated_page: some(0.2, 0.02),
    shuffled_page: some(0.2, 0.05),
    duplicated: some(0.3, 0.1),
    empty_page: some(0.2, 0.03),
    unauthorized: some(0.1, 0.01),
    no_id: some(0.15, 0.01),
    bad_time: some(0.15, 0.01),
    invalid_utf8: some(0.15, 0.01),
    not_an_object: some(0.1, 0.01),
    poison: some(0.1, 0.004),
  }
}

function switchesOf(roll: ReturnType<typeof dice>): Partial<Switches> {
  return {
    from: roll.pick(['exclusive', 'inclusive']),
    search_body: roll.pick(['wrapped', 'bare']),
    latest_body: roll.pick(['wrapped', 'bare']),
    none: roll.pick(['404', 'null', 'empty_object']),
    gone: roll.pick(['404', '400', 'empty']),
    page_cap: roll.pick([0, 0, 0, 100, 7]),
    retry_after: roll.pick(['none', 'seconds', 'date']),
    self_audit: roll.pick(['all', 'all', 'pages', 'off']),
    self_audit_after: roll.pick([0, 0, 5_000, 120_000]),
    user_agent: roll.pick(['sent', 'sent', 'sent', 'generic']),
    date_header: roll.pick(['on', 'on', 'off']),
    late_by: roll.pick([60_000, 600_000, 2 * HOUR_MS]),
    clock_skew_ms: roll.pick([0, 0, -3_000, 45_000]),
    transit: roll.pick([0, 20, 2_000]),
    latency: roll.pick([0, 30, 1_500]),
  }
}

export function scenarioOf(seed: number): Scenario {
  const roll = dice(seed)
  const deaths = roll.pick([0, 1, 2, 4, 8])
  const operator = operatorOf(seed)
  const audit = { ...auditOf(seed, roll, deaths), ...(operator?.backfills ? withPast(seed) : {}) }
  const areas = areasOf(seed, audit.startAt, audit.entriesPerHour)
  const switches = { ...audit.switches, ...areas?.switches }
  const outages = outagesOf(seed, audit.startAt, audit.troubleMs)
  return { ...audit, switches, faults: { ...audit.faults, ...areas?.faults }, areas, operator, outages }
}

/** A backfill proves itself by entries before the start: live reading never reads those. */
function withPast(seed: number): Pick<Scenario, 'start' | 'historyMs'> {
  return { start: '6h', historyMs: dice(seed + 900_002).pick([12, 24, 48]) * HOUR_MS }
}

function auditOf(
  seed: number,
  roll: ReturnType<typeof dice>,
  deaths: number,
): Omit<Scenario, 'areas' | 'operator' | 'outages'> {
  return {
    seed,
    // A Tuesday morning, and every hour of the week after it.
    startAt: Date.UTC(2026, 10, 17, 8) + roll.below(7 * 24) * HOUR_MS,
    troubleMs: (2 + roll.below(14)) * HOUR_MS,
    entriesPerHour: roll.pick([2, 10, 30, 60]),
    historyMs: roll.pick([0, 2, 12, 48]) * HOUR_MS,
    switches: switchesOf(roll),
    faults: faultsOf(roll),
    interval: roll.pick(['5m', '15m', '1h']),
    activity: roll.pick(['high', 'medium', 'low', 'auto']),
    start: roll.pick(['earliest', 'earliest', '6h']),
    batchEntries: roll.pick([1, 7, 50, 1000]),
    journalBytes: roll.pick(['2GiB', '64KiB', '256KiB']),
    hecFaultShare: roll.pick([0, 0.02, 0.2]),
    deadSinkHours: roll.pick([0, 1, 12]),
    fatalSteps: Array.from({ length: deaths }, () => 1 + roll.below(roll.pick([40, 400, 4000]))),
    powerCuts: roll.chance(0.5),
    rotateBytes: roll.chance(0.3) ? '64KiB' : undefined,
    acks: acksOf(seed),
  }
}
