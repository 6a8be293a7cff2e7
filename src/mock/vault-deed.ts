// What somebody does to the vault: when, who, and which ids come of it.
import { mix } from './random.ts'
import { uuidStream } from './uuids.ts'

/** What somebody does to the vault: when, who, and where the ids of what comes of it are from. */
export interface Deed {
  readonly atUs: number
  readonly user: string
  /** for choices within it; of each deed another */
  readonly seed: number
  /** fresh ids, the same for the same deed */
  id(kind: 'project' | 'file', index: number): string
}

/** Deeds of one origin (the start, the traffic, the API), numbered: the ids of one never depend on another. */
export function deedsOf(seed: number, origin: string) {
  const streams = {
    project: uuidStream(seed, `${origin} project`),
    file: uuidStream(seed, `${origin} file`),
  }
  const ids = 64
  return (number: number, atUs: number, user: string): Deed => ({
    atUs,
    user,
    seed: mix(mix(seed, origin.length), number),
    id: (kind, index) => streams[kind].at(number * ids + index),
  })
}
