// One indexer behind the HEC fake: its channels with their ids, and its queue. All of it is memory, and dies with it.
import type { HecSettings } from './hec-options.ts'

interface Channel {
  next: number
  /** when each id turns true; a reported id is gone */
  readonly readyAt: Map<number, number>
  usedAt: number
}

export class Indexer {
  #channels = new Map<string, Channel>()
  #queue: { readonly leavesAt: number; readonly events: number }[] = []

  /** A restart loses every id; each channel counts from 0 again. */
  forget(): void {
    this.#channels = new Map()
    this.#queue = []
  }

  /** Why a request is refused; a channel only if acknowledgements are on. */
  full(channel: string | undefined, settings: HecSettings, now: number): 26 | 27 | undefined {
    if (this.#queued(now) >= settings.maxQueuedEvents) return 26
    if (channel === undefined) return undefined
    const known = this.#find(channel, settings, now)
    if (!known && this.#channels.size >= settings.maxChannels) return 27
    const inAll = [...this.#channels.values()].reduce((sum, { readyAt }) => sum + readyAt.size, 0)
    const pending = known?.readyAt.size ?? 0
    return pending >= settings.maxPendingAcks || inAll >= settings.maxPendingAcksInAll ? 27 : undefined
  }

  /** The answer of a success, once the request has been taken. */
  crowded(channel: string | undefined, settings: HecSettings, now: number): 24 | 25 | undefined {
    if (this.#queued(now) >= settings.warnQueuedEvents) return 24
    const pending = channel === undefined ? 0 : (this.#channels.get(channel)?.readyAt.size ?? 0)
    return pending >= settings.warnPendingAcks ? 25 : undefined
  }

  queue(events: number, leavesAt: number, { maxQueuedEvents, warnQueuedEvents }: HecSettings): void {
    if (Math.min(maxQueuedEvents, warnQueuedEvents) < Infinity) this.#queue.push({ leavesAt, events })
  }

  /** The id of a request that was taken: from 0, one after the other. */
  number(channel: string, readyAt: number, settings: HecSettings, now: number): number {
    const known = this.#find(channel, settings, now) ?? { next: 0, readyAt: new Map(), usedAt: now }
    this.#channels.set(channel, known)
    known.usedAt = now
    known.readyAt.set(known.next, readyAt)
    return known.next++
  }

  /** Each id to a boolean, never an error: unknown ids, unknown channels and unindexed ones are all false. */
  ask(
    channel: string,
    ids: readonly number[],
    settings: HecSettings,
    now: number,
    tell: boolean,
  ): Record<string, boolean> {
    const known = this.#find(channel, settings, now)
    if (known) known.usedAt = now
    const reported: Record<string, boolean> = {}
    const ready = ids.filter((id) => (known?.readyAt.get(id) ?? Infinity) <= now)
    for (const id of ids) reported[String(id)] = ready.includes(id)
    // True is reported once: a client that loses that answer gets false forever after.
    if (tell) for (const id of ready) known?.readyAt.delete(id)
    return reported
  }

  #queued(now: number): number {
    this.#queue = this.#queue.filter(({ leavesAt }) => leavesAt > now)
    return this.#queue.reduce((sum, { events }) => sum + events, 0)
  }

  #find(id: string, { idleCleanup, idleCleanupMs }: HecSettings, now: number): Channel | undefined {
    if (idleCleanup)
      for (const [each, { usedAt }] of this.#channels)
        if (now - usedAt >= idleCleanupMs) this.#channels.delete(each)
    return this.#channels.get(id)
  }
}
