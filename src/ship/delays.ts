// How long entries were on their way, from their own time to a receiver's acceptance: told as a mean and a count for each of the histogram's buckets, one call a bucket and not an entry.
import type { SinkWatch } from '../model/watch.ts'
import { deliveryBucketsSeconds } from '../model/watch.ts'

/** Which of the histogram's buckets a delay falls into; the last one has no bound. */
function bucketOf(delayMs: number): number {
  let bucket: number = deliveryBucketsSeconds.length
  while (bucket > 0 && delayMs <= (deliveryBucketsSeconds[bucket - 1] as number) * 1000) bucket--
  return bucket
}

class Means {
  readonly #counts = new Uint32Array(deliveryBucketsSeconds.length + 1)
  readonly #sumsMs = new Float64Array(deliveryBucketsSeconds.length + 1)

  add(bucket: number, ms: number): void {
    this.#counts[bucket] = (this.#counts[bucket] as number) + 1
    this.#sumsMs[bucket] = (this.#sumsMs[bucket] as number) + ms
  }

  forEach(use: (meanMs: number, count: number) => void): void {
    this.#counts.forEach((count, bucket) => {
      if (count > 0) use((this.#sumsMs[bucket] as number) / count, count)
    })
  }
}

/** The receiver has accepted entries of these own times (µs) just now. */
export function tellAccepted(watch: SinkWatch, nowMs: number, times: Float64Array): void {
  const delays = new Means()
  // By index: an iterator makes an object of each time.
  for (let i = 0; i < times.length; i++) {
    const delayMs = Math.max(0, nowMs - (times[i] as number) / 1000)
    delays.add(bucketOf(delayMs), delayMs)
  }
  delays.forEach((meanMs, count) => watch.delivered(meanMs, count))
  watch.success()
}

/** The delays of entries that are accepted later than they are counted: their own times stay known, as means, until then. */
export class Delays {
  readonly #times = new Means()

  add(atUs: number, nowMs: number): void {
    const atMs = atUs / 1000
    this.#times.add(bucketOf(nowMs - atMs), atMs)
  }

  /** Tells the delays of all that were added: they are accepted now. */
  tell(watch: SinkWatch, nowMs: number): void {
    this.#times.forEach((meanAtMs, count) => watch.delivered(Math.max(0, nowMs - meanAtMs), count))
  }
}
