// A sink's share of the process's room: whatever it has of the journal is held there. Who waits for room has nothing in hand meanwhile.
import type { Clock } from '../model/clock.ts'
import type { Batch, TooLarge } from '../model/journal.ts'
import { isLarge } from '../model/large.ts'
import type { Room, WayOut } from '../model/room.ts'
import type { SinkWatch } from '../model/watch.ts'

/** A batch stands in memory as its raw bytes and as its framed lines. */
const FORMS = 2

export interface ShareOptions {
  /** the share: nobody else enters it */
  readonly room: Room
  readonly watch: Pick<SinkWatch, 'state'>
  readonly clock: Pick<Clock, 'sleep'>
}

export interface Held {
  readonly batch: Batch
  /** to be called when it is done with, and before for what of it is let go of */
  readonly giveBack: WayOut
}

/** Up to so many raw bytes, or why there is nothing. Only where `loneBytes` is given an entry may be too large (`LoneLimits`). */
type Read<Nothing> = (mostBytes: number, loneBytes?: number) => Promise<Batch | TooLarge | Nothing>

/** What a batch takes of the room, or would. */
export function roomBytes({ runs }: Batch): number {
  let bytes = 0
  for (const { entries } of runs) for (let i = 0; i < entries.count; i++) bytes += entries.rawBytes(i)
  return FORMS * bytes
}

/** The raw bytes of entries that a share has room for. */
export function rawBytesIn({ capacityBytes }: Room): number {
  return capacityBytes / FORMS
}

/** What is read, where it may stay right now; else no more of it than how much room it wants. */
async function look<Nothing extends number | undefined>(
  room: Room,
  read: Read<Nothing>,
  mostBytes: number,
): Promise<Held | { readonly wantedBytes: number } | Nothing> {
  return room.oneByOne(async () => {
    const found = await read(mostBytes, room.freeBytes / FORMS)
    if (typeof found !== 'object') return found
    if ('rawBytes' in found) return { wantedBytes: FORMS * found.rawBytes }
    const wantedBytes = roomBytes(found)
    const giveBack = room.tryEnter(wantedBytes)
    return giveBack ? { batch: found, giveBack } : { wantedBytes }
  })
}

/** What `read` finds, where there is room for it right now; else undefined. */
export async function takeIfRoom(
  room: Room,
  read: Read<number>,
  mostBytes: number,
): Promise<Held | undefined> {
  // A batch that could not stay is not read to find that out.
  if (room.full) return undefined
  const found = await look(room, read, mostBytes)
  return typeof found === 'object' && 'batch' in found ? found : undefined
}

/**
 * Like `takeIfRoom`, but waits for room and then reads again, up to what it waited for. The caller must hold nothing of the share,
 * or it waits for itself.
 */
export async function takeIntoRoom<Nothing extends number | undefined>(
  { room, watch, clock }: ShareOptions,
  read: Read<Nothing>,
  mostBytes: number,
  signal: AbortSignal,
): Promise<Held | Nothing> {
  const found = await look(room, read, mostBytes)
  if (typeof found !== 'object' || 'batch' in found) return found
  // Nobody is idle who has something to send: the wait is a part of that.
  watch.state('sending')
  const giveBack = await room.enter(found.wantedBytes, signal)
  try {
    // Who made room may have been called back by the end of an answer, which holds what it answered until its turn of the event loop is over.
    if (isLarge(found.wantedBytes / FORMS)) await clock.sleep(0, signal)
    const again = await read(found.wantedBytes / FORMS)
    if (typeof again === 'object') return { batch: whole(again), giveBack }
    giveBack()
    return again
  } catch (error) {
    giveBack()
    throw error
  }
}

function whole(found: Batch | TooLarge): Batch {
  if ('rawBytes' in found) throw new Error('An entry that there was room for was left on the disk')
  return found
}
