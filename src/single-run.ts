// How far `run --once` is: whether its parts still move, cannot, or are done.
import type { StatusReport } from './ops/status.ts'
import type { Reader } from './access.ts'
import type { Board } from './ops/board.ts'
import type { Coming, Shipping } from './shipping.ts'

/** `stuck`: only held parts remain, waiting would not help. */
export type SingleRun = 'working' | 'stuck' | 'done'

export function singleRunOf(
  readers: readonly Reader[],
  shippings: readonly Shipping[],
  { workspaces, sinks, journal }: Pick<StatusReport, 'workspaces' | 'sinks' | 'journal'>,
): SingleRun {
  const reading = readers.filter((reader) => !reader.finished)
  const stateOf = ({ source: { origin } }: Reader) =>
    workspaces
      .find(({ name }) => name === origin.workspace)
      ?.sources.find(({ name }) => name === origin.source)?.state
  const isHeld = (reader: Reader) => stateOf(reader) === 'held'
  // What is delivered may still have to be testified, once nothing more comes.
  const unfinished = shippings.filter(({ shipper }) => reading.every(isHeld) && shipper.unfinished === true)
  const names = new Set(unfinished.map(({ sink }) => sink.name))
  const owing = sinks.filter((sink) => sink.owed_entries > 0 || names.has(sink.name))
  if (reading.length === 0 && owing.length === 0) return 'done'
  // Reading that waits for room moves when a sink does.
  const blocked = (reader: Reader) =>
    isHeld(reader) || (journal.paused && stateOf(reader) === 'paused' && owing.length > 0)
  const stuck = reading.every(blocked) && owing.every((sink) => sink.state === 'held')
  return stuck ? 'stuck' : 'working'
}

/** What of a single run's reading is still to come. */
export function comingOnce(readers: readonly Reader[], board: Pick<Board, 'reading'>): Coming {
  const isHeld = ({ source }: Reader) => board.reading(source.origin)?.isHeld() === true
  return {
    nothingMoreComes: () => readers.every(({ finished }) => finished),
    nothingDue: () => readers.every((reader) => reader.finished || isHeld(reader)),
  }
}
