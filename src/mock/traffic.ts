// The activity of a workspace's people, made up to the current time: by minute and seed, so that
// polling does not change it.
import { DAY_MS, MINUTE_MS } from '../core/time.ts'
import { drawType, types } from './catalogue.ts'
import { Entry } from './entry.ts'
import type { Fate } from './faults.ts'
import { actorOf, dataOf, drawPerson, userOf } from './people.ts'
import { below, chanceOf, dice, mix, poisson, streamSeed, uuidStream } from './random.ts'
import { render } from './render.ts'
import type { DefectSizes } from './render.ts'
import type { Defect } from './switches.ts'

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
  const day = Math.floor(ms / DAY_MS)
  const hour = hours[Math.floor(ms / 3_600_000) % 24] ?? 0
  // 1970-01-01 was a Thursday: days 2 and 3 of each seven are a weekend.
  const idle = day % 7 === 2 || day % 7 === 3
  return (hour * (idle ? weekend : 1)) / meanWeight
}

interface Draft {
  readonly atUs: number
  readonly person: number
}

/**
 * The entries of one minute, in order. Their microseconds end in 500 to 999: the lower half is for audited reads, so that the
 * order of the two never changes.
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

interface TrafficSettings {
  readonly seed: number
  readonly domain: string
  readonly sinceMs: number
  readonly entriesPerHour: number
  readonly rhythm: 'office' | 'steady'
  readonly exotic: number
  sizes(): DefectSizes
  fate(index: number, atMs: number): Fate
}

/** The bytes of a generated entry. */
export function compose(
  seed: number,
  domain: string,
  exotic: number,
  entry: { id: string; atUs: number; type: string; defect: Defect | undefined; about?: string | undefined },
  person: number,
  sizes: DefectSizes,
): Buffer {
  const random = dice(seed)
  const odd = random() < exotic
  const actor = actorOf(person, random, domain)
  const { id, atUs, type, defect, about } = entry
  const usual = dataOf(type, atUs, random, odd)
  const data = odd ? usual : (about ?? usual)
  return render({ id, atUs, type, ...actor, data }, odd ? random : undefined, defect, sizes)
}

/** The number of an entry of the traffic, from 0, and its person. */
export interface Doing {
  readonly entry: Entry
  readonly number: number
  readonly person: number
}

export interface Traffic {
  /** Yields the entries since the last call, in order, for all milliseconds before `ms`. */
  until(ms: number, take: (doing: Doing) => void): void
  /** Finds an entry already yielded. Ids encode numbers, so no map is needed. */
  find(id: string): Entry | undefined
}

export function openTraffic(settings: TrafficSettings): Traffic {
  const { seed, domain, sinceMs, entriesPerHour, exotic } = settings
  const ids = uuidStream(seed, 'traffic')
  const entrySeed = streamSeed(seed, 'entry')
  const typeSeed = streamSeed(seed, 'type')
  const minuteSeed = streamSeed(seed, 'minute')
  let nextMinute = Math.floor(sinceMs / MINUTE_MS) * MINUTE_MS
  let drafts: Draft[] = []
  let at = 0
  const made: Entry[] = []
  /** one string per person, not per entry */
  const users: string[] = []

  const doingOf = ({ atUs, person }: Draft): Doing => {
    const number = made.length
    const type = types[drawType(chanceOf(typeSeed, number))] ?? ''
    const facts = { id: ids.at(number), atUs, type, ...settings.fate(number, Math.floor(atUs / 1000)) }
    const user = (users[person] ??= userOf(person, domain))
    const make = (): Buffer => {
      const { about } = entry
      return compose(mix(entrySeed, number), domain, exotic, { ...facts, about }, person, settings.sizes())
    }
    const entry: Entry = new Entry({ ...facts, user, origin: 'traffic' }, make)
    made.push(entry)
    return { entry, number, person }
  }

  const until = (ms: number, take: (doing: Doing) => void) => {
    if (entriesPerHour <= 0) return
    while (true) {
      for (let draft = drafts[at]; draft; draft = drafts[++at]) {
        if (draft.atUs >= ms * 1000) return
        if (draft.atUs >= sinceMs * 1000) take(doingOf(draft))
      }
      if (nextMinute >= ms) return
      drafts = minuteOf(nextMinute, settings, minuteSeed)
      at = 0
      nextMinute += MINUTE_MS
    }
  }
  const find = (id: string) => {
    const number = ids.indexOf(id)
    return number === undefined ? undefined : made[number]
  }
  return { until, find }
}
