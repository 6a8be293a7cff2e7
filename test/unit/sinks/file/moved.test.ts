// A possible duplicate whose file was moved away: that very file counts, not one that looks like it, and every other file opened on the way is closed.
import { expect, test } from 'vitest'
import type { Lines, Sink } from '../../../../src/contracts/sink.ts'
import { sinkKinds } from '../../../../src/sinks/index.ts'
import { FakeDisk } from '../../../fakes/disk.ts'
import { linesOf, runOf } from '../../../fakes/lines.ts'
import { sinkDeps } from '../../../fakes/sink-deps.ts'

const PATH = '/out/entries.ndjson'
const MOVED = '/out/moved'
const never = new AbortController().signal

const open = (disk: FakeDisk): Sink =>
  sinkKinds.file.open('archive', sinkKinds.file.options.parse({ path: PATH }), sinkDeps({ disk }))
const batchOf = (sink: Sink, nth: number): Lines =>
  linesOf(runOf(['a', 'b'].map((half) => ({ id: `entry-${nth}-${half}` }))), sink.frame)
const text = (lines: Lines) => Buffer.from(lines.bytes).toString()

/** One batch is complete, so much of a second one, and the file is moved away. */
async function moved(written: (whole: string) => string, copies: readonly string[] = []) {
  const disk = new FakeDisk()
  const sink = open(disk)
  const [first, second] = [batchOf(sink, 1), batchOf(sink, 2)]
  await sink.deliver(
    { lines: first, detail: (await sink.prepare?.(first, never)) ?? '', possibleDuplicate: false },
    never,
  )
  const detail = (await sink.prepare?.(second, never)) ?? ''
  await sink.close()
  await append(disk, PATH, written(text(second)))
  for (const copy of copies) disk.put(copy, disk.content(PATH)?.toString() ?? '')
  await disk.rename(PATH, MOVED)
  const again = async () => {
    const next = open(disk)
    await next.deliver({ lines: second, detail, possibleDuplicate: true }, never)
    await next.close()
    return (path: string) => disk.content(path)?.toString()
  }
  return { disk, again, whole: text(first) + text(second), second: text(second) }
}

async function append(disk: FakeDisk, path: string, more: string) {
  const file = await disk.open(path)
  await file.write(Buffer.from(more), await file.size())
  await file.sync()
  await file.close()
}

test('a copy of the file is not mistaken for it', async () => {
  const { disk, again, whole } = await moved((batch) => batch.slice(0, 20), ['/out/copy'])
  const copied = disk.content('/out/copy')?.toString()
  const content = await again()
  expect(content(MOVED)).toBe(whole)
  expect(content('/out/copy')).toBe(copied)
  expect(content(PATH) ?? '').toBe('')
})

test('a complete batch is not written again, whatever was appended behind it', async () => {
  const { again, whole } = await moved((batch) => `${batch}theirs\n`)
  const content = await again()
  expect(content(MOVED)).toBe(`${whole}theirs\n`)
  expect(content(PATH) ?? '').toBe('')
})

test('a file in which the batch was not begun stays unchanged, and every inspected file is closed', async () => {
  const { disk, again, second } = await moved(() => '')
  const before = disk.content(MOVED)?.toString()
  const content = await again()
  expect([content(MOVED), content(PATH)]).toEqual([before, second])
  expect(disk.openFiles).toBe(0)
})
