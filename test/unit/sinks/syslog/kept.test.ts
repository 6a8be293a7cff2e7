// What a stream keeps to send again: how much of it, and at what cost.
import { expect, test } from 'vitest'
import type { Lines } from '../../../../src/contracts/sink.ts'
import { noEntry } from '../../../fakes/lines.ts'
import { SentLines } from '../../../../src/sinks/syslog/stream.ts'

const MOST_BYTES = 1_000_000

/** Counts how much of it was read to copy. */
class Looked extends Uint8Array {
  looked = 0

  override subarray(start = 0, end = this.length): Uint8Array<ArrayBuffer> {
    this.looked += end - start
    return new Uint8Array(this.buffer, start, end - start)
  }
}

function linesOf(sizes: readonly number[], fill = 1): Lines & { readonly bytes: Looked } {
  let end = 0
  const ends = Uint32Array.from(sizes, (size) => (end += size))
  const bytes = new Looked(end)
  bytes.fill(fill)
  return { bytes, ends, count: sizes.length, seqs: new Float64Array(sizes.length), entry: noEntry }
}

async function keptIn(kept: SentLines): Promise<number[]> {
  const found: number[] = []
  await kept.sendAgain(
    async (bytes) => void found.push(bytes[0] as number, bytes.length),
    () => 0,
  )
  return found
}

test('a line over the limit is not copied only to be dropped, and lines before it are dropped as usual', async () => {
  const kept = new SentLines(30_000, MOST_BYTES)
  kept.add(linesOf([500_000], 1), 0)
  const huge = linesOf([5_000_000], 2)
  kept.add(huge, 0)
  expect([huge.bytes.looked, kept.bytes]).toEqual([0, 0])
  expect(await keptIn(kept)).toEqual([])
})

test('of a batch over the limit only its end is copied: whole lines that fit', async () => {
  const kept = new SentLines(30_000, MOST_BYTES)
  kept.add(linesOf([500_000], 1), 0)
  const batch = linesOf([900_000, 400_000, 400_000], 2)
  kept.add(batch, 0)
  expect([batch.bytes.looked, kept.bytes]).toEqual([800_000, 800_000])
  expect(await keptIn(kept)).toEqual([2, 400_000, 2, 400_000])
})

test('lines that fit push out no more than they must', async () => {
  const kept = new SentLines(30_000, MOST_BYTES)
  for (const fill of [1, 2, 3]) kept.add(linesOf([400_000], fill), 0)
  expect(await keptIn(kept)).toEqual([2, 400_000, 3, 400_000])
})
