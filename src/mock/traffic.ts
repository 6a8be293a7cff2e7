// The activity of a workspace's people, by minute and seed: polling never changes it.
import { ByteWriter } from '../core/bytes.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../core/time.ts'
import { drawType } from './catalogue.ts'
import { Entry } from './entry.ts'
import type { Fate } from './faults.ts'
import { actorOf, dataOf, drawPerson, PEOPLE, userOf } from './people.ts'
import { below, chanceOf, dice, mix, poisson, streamSeed, uuidStream } from './random.ts'
import { renderEntry } from './render.ts'
import type { DefectSizes } from './render.ts'

/** mean number of entries in a burst of one person */
const BURST = 4

export interface TrafficOptions {
  /** the mean over a week; 0 for none */
  readonly entriesPerHour?: number
  /** epoch ms: start of the history */
  readonly since?: number
  /** number of entries prepared before the start, with all pages ready as bytes */
  readonly backlog?: number
  /** default: office hours in UTC; `steady`: the same at any hour, for a demo on a Sunday night */
  readonly rhythm?: 'office' | 'steady'
  /** share of entries in unusual but legal spellings */
  readonly exotic?: number
}

/** Activity by UTC hour: working days, then weekends. */
const hours = Array.from({ length: 24 }, (_, hour) =>
  hour >= 8 && hour < 18 ? 3 : hour === 7 || hour === 18 || hour === 19 ? 1.2 : 0.15,
)
const weekend = 0.07
const meanWeight = (hours.reduce((a, b) => a + b, 0) * (5 + 2 * weekend)) / (7 * 24)

function weightAt(ms: number): number {
  const hour = hours[Math.floor(ms / HOUR_MS) % 24] ?? 0
  // 1970-01-01 was a Thursday: days 2 and 3 of each seven are a weekend.
  const day = Math.floor(ms / DAY_MS) % 7
  return (hour * (day === 2 || day === 3 ? weekend : 1)) / meanWeight
}

interface Draft {
  readonly atUs: number
  readonly person: number
}

interface Settings {
  readonly seed: number
  readonly domain: string
  readonly exotic: number
  readonly sinceMs: number
}

interface TrafficSettings extends Settings {
  readonly entriesPerHour: number
  readonly rhythm: 'office' | 'steady'
  sizes(): DefectSizes
  fate(index: number, atMs: number): Fate
}

/**
 * The entries of one minute, in order. Their microseconds end in 500 to 999: the lower half is for
 * audited reads, so that the order of the two never changes.
 */
function minuteOf(startMs: number, settings: TrafficSettings, seed: number): Draft[] {
  const random = dice(mix(seed, startMs / MINUTE_MS))
  const weight = settings.rhythm === 'steady' ? 1 : weightAt(startMs)
  const mean = (settings.entriesPerHour / 60) * weight * (0.25 + 3 * random() ** 3)
  const drafts: Draft[] = []
  for (let bursts = poisson(random, mean / BURST); bursts > 0; bursts--) {
    const person = drawPerson(random)
    const size = 1 + Math.floor(Math.log(1 - random()) / Math.log(1 - 1 / BURST))
    let ms = below(random, MINUTE_MS)
    let atUs = 0
    for (let i = 0; i < size; i++) {
      // Occasionally two share one timestamp.
      if (i === 0 || random() > 0.04) atUs = (startMs + ms) * 1000 + 500 + below(random, 500)
      drafts.push({ atUs, person })
      ms = Math.min(MINUTE_MS - 1, ms + Math.floor(-Math.log(1 - random()) * 2500))
    }
  }
  return drafts.sort((a, b) => a.atUs - b.atUs)
}

type Content = Pick<Entry, 'id' | 'atUs' | 'type' | 'defect' | 'about'>

/** The bytes of a generated entry. */
function compose(
  seed: number,
  { domain, exotic }: Settings,
  person: number,
  entry: Content,
  sizes: DefectSizes,
) {
  const random = dice(seed)
  const odd = random() < exotic
  const actor = actorOf(person, random, domain)
  const { id, atUs, type, defect, about } = entry
  const usual = dataOf(type, atUs, random, odd)
  const data = odd ? usual : (about ?? usual)
  return renderEntry({ id, atUs, type, ...actor, data }, odd ? random : undefined, defect, sizes)
}

/** Yields the entries since the last call, in order, for all milliseconds before `ms`. */
export type Traffic = (ms: number, take: (entry: Entry) => void) => void

export function openTraffic(settings: TrafficSettings): Traffic {
  const { seed, domain, sinceMs, entriesPerHour } = settings
  const ids = uuidStream(seed, 'traffic')
  const entrySeed = streamSeed(seed, 'entry')
  const typeSeed = streamSeed(seed, 'type')
  const minuteSeed = streamSeed(seed, 'minute')
  let nextMinute = Math.floor(sinceMs / MINUTE_MS) * MINUTE_MS
  let drafts: Draft[] = []
  let at = 0
  let number = 0
  /** one string per person, not per entry */
  const users: string[] = []

  const entryOf = (number: number, { atUs, person }: Draft): Entry => {
    const type = drawType(chanceOf(typeSeed, number))
    const user = (users[person] ??= userOf(person, domain))
    const fate = settings.fate(number, Math.floor(atUs / 1000))
    const make = (entry: Entry) => compose(mix(entrySeed, number), settings, person, entry, settings.sizes())
    return new Entry({ id: ids(number), atUs, type, ...fate, user, number, origin: 'traffic' }, make)
  }

  return (ms, take) => {
    if (entriesPerHour <= 0) return
    while (true) {
      for (let draft = drafts[at]; draft; draft = drafts[++at]) {
        if (draft.atUs >= ms * 1000) return
        if (draft.atUs < sinceMs * 1000) continue
        take(entryOf(number++, draft))
      }
      if (nextMinute >= ms) return
      drafts = minuteOf(nextMinute, settings, minuteSeed)
      at = 0
      nextMinute += MINUTE_MS
    }
  }
}

const ENTRY_BYTES = 420

/**
 * A large past, rendered into one buffer before the first request: a page of it is a range of that
 * buffer, so that a load test measures the reader.
 */
export function prepareBacklog(
  settings: Settings,
  count: number,
  untilMs: number,
  historyAfterMs: number,
): Entry[] {
  const { seed, domain, sinceMs } = settings
  const ids = uuidStream(seed, 'backlog')
  const own = streamSeed(seed, 'backlog')
  const stepUs = ((untilMs - sinceMs) * 1000) / Math.max(1, count)
  const writer = new ByteWriter(Math.max(1, count) * ENTRY_BYTES)
  /** element i is in [starts[i], starts[i + 1] - 1), with a comma after it */
  const starts = new Float64Array(count + 1)
  const users = Array.from({ length: PEOPLE }, (_, person) => userOf(person, domain))
  const make = ({ number }: Entry) =>
    writer.view().subarray(starts[number] ?? 0, (starts[number + 1] ?? 1) - 1)
  return Array.from({ length: count }, (_, number) => {
    const chance = chanceOf(own, number)
    const person = Math.floor(chance * PEOPLE)
    const type = drawType(chanceOf(own ^ 1, number))
    const atUs = Math.floor(sinceMs * 1000 + (number + chance) * stepUs)
    const content = { id: ids(number), atUs, type, defect: undefined, about: undefined }
    writer.copy(compose(mix(own, number), settings, person, content, { depth: 0, hugeBytes: 0 }))
    writer.byte(44)
    starts[number + 1] = writer.length
    const visibleAt = Math.floor(atUs / 1000)
    const times = { visibleAt, historyAt: visibleAt + historyAfterMs }
    return new Entry({ ...content, ...times, user: users[person] ?? '', number, origin: 'backlog' }, make)
  })
}
