// What a sink must have of the history: each event that was shown or is long due, each content of it once, its bytes as served.
import type { MockHistoryEvent } from '../../src/mock/history.ts'
import type { Mock } from '../../src/mock/mock.ts'
import type { HistoryScenario } from './areas.ts'
import { onOneLine } from './lines.ts'
import type { Judged, Line } from './lines.ts'

const DAY_MS = 86_400_000
/** A daemon that dies before it has kept anything starts over. */
const START_MS = 600_000

interface Told extends MockHistoryEvent {
  readonly api: 'v1' | 'v2'
}

/** What a run did to its history. Instants are epoch ms. */
export interface HistoryFacts {
  readonly scenario: Pick<HistoryScenario, 'version' | 'v1UntilMs' | 'query' | 'startSpanMs' | 'rereadMs'>
  readonly mock: Mock
  readonly startAt: number
  readonly now: number
  /** a job read it again from here on; Infinity: none did */
  readonly askedFromMs: number
  /** rows of version 1 have no time */
  readonly timeless: boolean
  /** an answer may have an element twice */
  readonly doubles: boolean
  /** what became visible before it, on a day that is read again, must have been met */
  readonly dueBefore: number
  /** every content that was shown was kept: no answer was lost with its reader */
  readonly everyContent: boolean
}

export interface HistoryTruth extends HistoryFacts {
  readonly events: readonly Told[]
}

export function historyTruth(facts: HistoryFacts): HistoryTruth {
  const { version, v1UntilMs = 0 } = facts.scenario
  const boundaryMs = version === 'v1' ? Infinity : v1UntilMs
  const events = facts.mock
    .history()
    .map((event): Told => ({ ...event, api: event.atUs < boundaryMs * 1000 ? 'v1' : 'v2' }))
  return { ...facts, events }
}

function startMs({ scenario, startAt }: HistoryTruth): number {
  return scenario.startSpanMs === undefined ? 0 : startAt - scenario.startSpanMs
}

const secondOf = ({ atUs }: Told) => Math.floor(atUs / 1e6) * 1000

/** Events that a reader can take: v1 needs no id. */
function isWhole({ defect, api }: Told): boolean {
  return defect === undefined || (api === 'v1' && defect === 'history_no_id')
}

/** Its day is read again, so that what became visible at `visibleAt` must have been met. */
function isDue({ scenario, now, dueBefore }: HistoryTruth, { atUs }: Told, visibleAt: number): boolean {
  const dayEnd = (Math.floor(atUs / 1000 / DAY_MS) + 1) * DAY_MS
  return visibleAt < dueBefore && dayEnd > now - scenario.rereadMs + DAY_MS / 2
}

/** Rows without a time are read in days, whose edges the specification leaves open: a row on one may be in both or none. */
function isOnEdge({ timeless }: HistoryTruth, event: Told): boolean {
  return event.api === 'v1' && timeless && secondOf(event) % DAY_MS === 0
}

/** Numbers of the contents of an event that must be there. */
function wantedOf(truth: HistoryTruth, event: Told): readonly number[] {
  if (!isWhole(event) || isOnEdge(truth, event)) return []
  if (secondOf(event) < startMs(truth) + START_MS) return []
  const { versions, api } = event
  const shown = versions.flatMap(({ shownBy }, number) => (shownBy.includes(api) ? [number] : []))
  const due = versions.findLastIndex(({ from }) => isDue(truth, event, Math.max(from, event.visibleAt)))
  const last = shown.at(-1) ?? -1
  if (api === 'v1') return last >= 0 || due >= 0 ? [0] : []
  const wanted = new Set(truth.everyContent ? shown : shown.slice(-1))
  if (due > last) wanted.add(due)
  return [...wanted]
}

const nameOf = ({ kind, id, atUs, visibleAt, api }: Told) =>
  `${api} ${kind} event ${id} of ${new Date(atUs / 1000).toISOString()}, visible ${new Date(visibleAt).toISOString()}`

/** `kinds`: of what the sink wants. */
export function judgeHistory(
  truth: HistoryTruth | undefined,
  sink: string,
  kinds: readonly string[],
  lines: readonly Line[],
): Judged {
  const own = lines.filter(({ source }) => source.startsWith('history.'))
  if (!truth)
    return {
      faults: own.length === 0 ? [] : [`${sink}: history that nobody asked for`],
      repeats: 0,
    }
  const stray = own.filter(({ source }) => !kinds.includes(source))
  const events = truth.events.filter(({ kind }) => kinds.includes(`history.${kind}`))
  const withId = judgeEvents(truth, sink, events, own)
  const rows = judgeRows(truth, sink, events, own)
  return {
    faults: [
      ...(stray.length > 0
        ? [`${sink}: ${stray.length} lines of ${stray[0]?.source}, which it did not ask for`]
        : []),
      ...withId.faults,
      ...rows.faults,
    ],
    repeats: withId.repeats + rows.repeats,
  }
}

/** Version 2: every line is one content of one event. */
function judgeEvents(
  truth: HistoryTruth,
  sink: string,
  all: readonly Told[],
  lines: readonly Line[],
): Judged {
  const events = all.filter(({ api }) => api === 'v2')
  const byName = new Map(events.map((event) => [`history.${event.kind} ${event.id}`, event]))
  const seen = new Map<Told, Set<number>>()
  const faults: string[] = []
  let repeats = 0
  for (const { source, id, text } of lines) {
    if (id === undefined) continue
    const event = byName.get(`${source} ${id}`)
    const number = event?.versions.findIndex(({ raw }) => onOneLine(raw) === text) ?? -1
    if (!event || number < 0) faults.push(`${sink}: a line of ${source} that the API never served: ${id}`)
    else if (secondOf(event) < Math.min(startMs(truth), truth.askedFromMs) - 1000)
      faults.push(`${sink}: ${nameOf(event)} lies before the start`)
    else {
      const numbers = seen.get(event) ?? new Set()
      if (numbers.has(number)) repeats++
      seen.set(event, numbers.add(number))
    }
  }
  const missing = events.flatMap((event) =>
    wantedOf(truth, event)
      .filter((number) => seen.get(event)?.has(number) !== true)
      .map((number) => `${nameOf(event)}, content ${number} of ${event.versions.length}`),
  )
  for (const name of missing.slice(0, 3)) faults.push(`${sink}: missing (of ${missing.length}): ${name}`)
  return { faults, repeats }
}

/** Version 1 has no ids: as many rows of the same bytes as were served. */
function judgeRows(truth: HistoryTruth, sink: string, all: readonly Told[], lines: readonly Line[]): Judged {
  const least = new Map<string, number>()
  const most = new Map<string, number>()
  const add = (to: Map<string, number>, text: string, count = 1) => to.set(text, (to.get(text) ?? 0) + count)
  // A row that an answer has twice is two rows.
  const copies = truth.doubles ? 2 : 1
  const rows = all.filter(({ api }) => api === 'v1')
  for (const event of rows) {
    const text = onOneLine(event.versions[0]?.rawV1 ?? Buffer.of())
    if (isWhole(event) || event.defect === 'history_bad_time')
      add(most, text, isOnEdge(truth, event) ? 2 : copies)
    if (wantedOf(truth, event).length > 0) add(least, text)
  }
  const seen = new Map<string, number>()
  for (const { text, id } of lines) if (id === undefined) add(seen, text)
  const faults: string[] = []
  let repeats = 0
  for (const [text, count] of seen) {
    const served = most.get(text) ?? 0
    if (served === 0) faults.push(`${sink}: a row that the API never served: ${text.slice(0, 80)}`)
    repeats += Math.max(0, count - Math.max(1, served))
  }
  const missing = [...least].filter(([text, count]) => (seen.get(text) ?? 0) < count)
  for (const [text, count] of missing.slice(0, 3))
    faults.push(
      `${sink}: ${count} rows of the same bytes were served and ${seen.get(text) ?? 0} are there (${missing.length} such): ${text.slice(0, 120)}`,
    )
  return { faults, repeats }
}

/** No log may contain what a person asked. */
export function judgeQueryText(truth: HistoryTruth | undefined, log: string): string[] {
  if (!truth?.scenario.query) return []
  const texts = truth.events
    .filter(({ kind, defect }) => kind === 'query' && defect === undefined)
    .slice(0, 200)
    .flatMap(({ versions }) => {
      const { query } = JSON.parse(Buffer.from(versions[0]?.raw ?? []).toString()) as { query: string }
      return query.length > 20 ? [query] : []
    })
  const reported = texts.find((text) => log.includes(text) || log.includes(JSON.stringify(text).slice(1, -1)))
  return reported === undefined ? [] : [`the log tells what somebody asked: ${reported.slice(0, 60)}`]
}
