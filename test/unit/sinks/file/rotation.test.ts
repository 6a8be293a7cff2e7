// When a file sink starts a new file, to the byte, and how many old ones stay.
import { expect, test } from 'vitest'
import type { Lines, Sink } from '../../../../src/contracts/sink.ts'
import { sinkKinds } from '../../../../src/sinks/index.ts'
import { FakeDisk } from '../../../fakes/disk.ts'
import { linesOf, runOf } from '../../../fakes/lines.ts'
import { sinkDeps } from '../../../fakes/sink-deps.ts'

const PATH = '/out/entries.ndjson'
const never = new AbortController().signal

function open(disk: FakeDisk, maxBytes: number, keep = 10): Sink {
  const options = sinkKinds.file.options.parse({ path: PATH, rotate: { max_bytes: `${maxBytes}B`, keep } })
  return sinkKinds.file.open('archive', options, sinkDeps({ disk }))
}

async function deliver(sink: Sink, lines: Lines): Promise<void> {
  const detail = (await sink.prepare?.(lines, never)) ?? ''
  await sink.deliver({ lines, detail, possibleDuplicate: false }, never)
}

/** Two lines, as long as any other two. */
const batchOf = (sink: Sink, nth: number): Lines =>
  linesOf(runOf(['a', 'b'].map((half) => ({ id: `entry-${nth}-${half}` }))), sink.frame)

/** The sizes of the files after each batch of two: oldest first. */
async function sizesAfter(maxBytes: number, batches: number, keep = 10) {
  const disk = new FakeDisk()
  const sink = open(disk, maxBytes, keep)
  for (let i = 0; i < batches; i++) await deliver(sink, batchOf(sink, i))
  const names = disk.paths().filter((path) => path.startsWith(PATH))
  await sink.close()
  return names
    .toSorted((a, b) => Number(b.slice(PATH.length + 1)) - Number(a.slice(PATH.length + 1)))
    .map((name) => disk.content(name)?.length)
}

const two = batchOf(open(new FakeDisk(), 1), 0).bytes.length

test('batches that fit share one file, up to its last byte; a batch that would exceed it starts a new one', async () => {
  expect(await sizesAfter(3 * two, 3)).toEqual([3 * two])
  expect(await sizesAfter(3 * two - 1, 3)).toEqual([2 * two, two])
  expect(await sizesAfter(3 * two, 4)).toEqual([3 * two, two])
})

test('a batch that is too large for any file is alone in one, and leaves no empty one behind', async () => {
  expect(await sizesAfter(two - 1, 3)).toEqual([two, two, two])
})

test('the configured number of full files stays, the oldest go', async () => {
  expect(await sizesAfter(two, 5, 2)).toEqual([two, two, two])
  expect(await sizesAfter(two, 5, 1)).toEqual([two, two])
})

test('a stop before the batch writes nothing, and reports the stop', async () => {
  const disk = new FakeDisk()
  const sink = open(disk, 1_000)
  const lines = batchOf(sink, 0)
  const detail = (await sink.prepare?.(lines, never)) ?? ''
  const stopped = sink.deliver({ lines, detail, possibleDuplicate: false }, AbortSignal.abort())
  await expect(stopped).rejects.toMatchObject({ code: 'aborted' })
  expect(disk.content(PATH)?.length ?? 0).toBe(0)
  expect(await sink.deliver({ lines, detail, possibleDuplicate: true }, never)).toMatchObject({
    acknowledged: 2,
  })
  expect(disk.content(PATH)?.length).toBe(lines.bytes.length)
})
