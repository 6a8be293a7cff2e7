// What a stream keeps to send again: for how long, how much, in whole lines, and what an orderly end removes from it.
import { describe, expect, test } from 'vitest'
import type { Lines } from '../../../../src/contracts/sink.ts'
import { SentLines } from '../../../../src/sinks/syslog/stream.ts'

const LINGER = 30_000

const linesOf = (...texts: readonly string[]): Lines => {
  const ends: number[] = []
  for (const { length } of texts) ends.push((ends.at(-1) ?? 0) + length)
  return { bytes: Buffer.from(texts.join('')), ends, count: texts.length } as unknown as Lines
}

/** All of it, as it goes out at `now`. */
async function sent(kept: SentLines, now = 0): Promise<string[]> {
  const pieces: string[] = []
  await kept.sendAgain(
    async (bytes) => void pieces.push(Buffer.from(bytes).toString()),
    () => now,
  )
  return pieces
}

describe('what was sent', () => {
  test('is kept as a copy, the oldest first, and dropped once the peer had it for longer than the linger', async () => {
    const kept = new SentLines(LINGER)
    const lines = linesOf('one', 'two')
    kept.add(lines, 0)
    kept.add(linesOf('three'), 1_000)
    lines.bytes.fill(0)
    expect([await sent(kept), kept.bytes]).toEqual([['onetwo', 'three'], 11])
    const again = new SentLines(LINGER)
    again.add(linesOf('one'), 0)
    again.add(linesOf('three'), 1_000)
    again.expire(LINGER)
    expect(again.bytes).toBe(8)
    again.expire(LINGER + 1)
    expect([await sent(again), again.bytes]).toEqual([['three'], 5])
    again.clear()
    expect([await sent(again), again.bytes]).toEqual([[], 0])
  })

  test('is not kept without a linger, nor if there is nothing', async () => {
    const off = new SentLines(0)
    off.add(linesOf('one'), 0)
    const none = new SentLines(LINGER)
    none.add(linesOf(), 0)
    none.add(linesOf('', ''), 0)
    expect([await sent(off), off.bytes, await sent(none), none.bytes]).toEqual([[], 0, [], 0])
  })

  test('is kept in whole lines, up to 64 KiB of them together', async () => {
    const kept = new SentLines(LINGER)
    const [small, large] = ['s'.repeat(32 * 1024), 'l'.repeat(70 * 1024)]
    kept.add(linesOf(small, small, small, large, small, small), 0)
    expect((await sent(kept)).map(({ length }) => length / 1024)).toEqual([64, 32, 70, 64])
    const over = new SentLines(LINGER)
    over.add(linesOf(small, `${small}x`), 0)
    expect(await sent(over)).toHaveLength(2)
  })

  test('is dropped for later lines, the oldest first, as far as there is no room for both', async () => {
    const kept = new SentLines(LINGER, 10)
    kept.add(linesOf('aaaa'), 0)
    kept.add(linesOf('bbbb'), 0)
    kept.add(linesOf('cc'), 0)
    expect(await sent(kept)).toEqual(['aaaa', 'bbbb', 'cc'])
    kept.add(linesOf('d'), 0)
    expect([await sent(kept), kept.bytes]).toEqual([['bbbb', 'cc', 'd'], 7])
  })

  test('is kept by its end, if a batch is larger than all that may be kept', async () => {
    const kept = new SentLines(LINGER, 100 * 1024)
    const part = (letter: string) => letter.repeat(50 * 1024)
    kept.add(linesOf('before'), 0)
    kept.add(linesOf(...['a', 'b', 'c', 'd'].map(part)), 0)
    expect(await sent(kept)).toEqual([part('c'), part('d')])
  })
})

describe('a possible loss', () => {
  test('does not age until it was sent once more; then its linger restarts', async () => {
    const kept = new SentLines(LINGER)
    kept.add(linesOf('one'), 0)
    kept.doubt(10_000, false)
    kept.expire(10 * LINGER)
    expect(kept.bytes).toBe(3)
    expect(await sent(kept, 10 * LINGER)).toEqual(['one'])
    kept.expire(11 * LINGER)
    expect(kept.bytes).toBe(3)
    kept.expire(11 * LINGER + 1)
    expect(kept.bytes).toBe(0)
  })

  test('continues to age behind an orderly end, so that it is not sent again forever', async () => {
    const kept = new SentLines(LINGER)
    kept.add(linesOf('one'), 5_000)
    kept.doubt(25_000, true)
    // Not sent yet, and the next peer closes in an orderly way: it had nothing of it.
    kept.doubt(27_000, false)
    await sent(kept, 100_000)
    kept.expire(100_000 + 10_000)
    expect(kept.bytes).toBe(3)
    kept.expire(100_000 + 10_001)
    expect(kept.bytes).toBe(0)
  })

  test('restarts its age if a peer that had it breaks off', async () => {
    const kept = new SentLines(LINGER)
    kept.add(linesOf('one'), 0)
    kept.doubt(20_000, true)
    await sent(kept, 50_000)
    kept.doubt(51_000, false)
    await sent(kept, 60_000)
    kept.expire(60_000 + LINGER)
    expect(kept.bytes).toBe(3)
  })

  test('is none if its linger was over when the peer left', async () => {
    const kept = new SentLines(LINGER)
    kept.add(linesOf('one'), 0)
    kept.add(linesOf('two'), 20_000)
    kept.doubt(LINGER + 1, false)
    expect(await sent(kept)).toEqual(['two'])
  })

  test('stays one if it could not be sent, and all behind it', async () => {
    const kept = new SentLines(LINGER)
    kept.add(linesOf('one'), 0)
    kept.add(linesOf('two'), 0)
    kept.doubt(1_000, false)
    let sends = 0
    const half = kept.sendAgain(
      () => (++sends === 2 ? Promise.reject(new Error('gone')) : Promise.resolve()),
      () => 2_000,
    )
    await expect(half).rejects.toThrow('gone')
    kept.expire(2_000 + LINGER + 1)
    expect(await sent(kept)).toEqual(['two'])
  })
})
