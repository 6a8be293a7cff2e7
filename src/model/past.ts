// The words of all that reads a span of the past, whatever it reads it for.

/** What the past is read for: what it shows goes into the journal, to one sink again, or nowhere: it is only told. */
export type PastUse = 'keep' | 'send' | 'tell'

/** What one that is not under way lacks: it is not in the configuration any more. `sources`: its sink is, and does not name its source there. */
export type Lacking = 'source' | 'sink' | 'sources'

/** Why one that reads the past is not under way. */
export const lackingText: Readonly<Record<Lacking, string>> = {
  source: 'its source is not in the configuration of the daemon any more',
  sink: 'its sink is not in the configuration of the daemon any more',
  sources: "its source is not among the sink's `sources` any more",
}

/** What holds a walk over the past up for now: one begun before it, its share of the request budget, the end of a 429, room in the journal or in memory, what it lacks. */
export type WaitsFor = 'turn' | 'budget' | 'limit' | 'room' | 'memory' | Lacking

/** By the entries' own time, µs: included, excluded. */
export interface PastSpan {
  readonly fromUs: number
  readonly toUs: number
}

/** A part of a span that the API did not tell whole: it answered 400, or nothing readable while it told others. */
export interface Unread extends PastSpan {
  readonly why: 'refused' | 'unreadable'
}
