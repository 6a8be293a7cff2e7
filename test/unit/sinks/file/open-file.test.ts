// The file that a file sink keeps open from batch to batch: opened once, closed when it is no longer the one at its path, closed at the end; and what a check may do to it.
import { expect, test } from 'vitest'
import type { Disk, DiskFile } from '../../../../src/contracts/platform.ts'
import type { Lines, Sink } from '../../../../src/contracts/sink.ts'
import { sinkKinds } from '../../../../src/sinks/index.ts'
import { FakeDisk } from '../../../fakes/disk.ts'
import { linesOf, runOf } from '../../../fakes/lines.ts'
import { LogLines, sinkDeps } from '../../../fakes/sink-deps.ts'
import { withMethods } from '../../../fakes/with-methods.ts'

const PATH = '/out/entries.ndjson'
const never = new AbortController().signal

function open(disk: Disk, more: object = {}, log = new LogLines()): Sink {
  const options = sinkKinds.file.options.parse({ path: PATH, ...more })
  return sinkKinds.file.open('archive', options, sinkDeps({ disk, log }))
}

const batchOf = (sink: Sink, nth: number): Lines => linesOf(runOf([{ id: `entry-${nth}` }]), sink.frame)
const text = (lines: Lines) => Buffer.from(lines.bytes).toString()

async function deliver(sink: Sink, nth: number): Promise<string> {
  const lines = batchOf(sink, nth)
  const detail = (await sink.prepare?.(lines, never)) ?? ''
  await sink.deliver({ lines, detail, possibleDuplicate: false }, never)
  return text(lines)
}

/** Counts the files that are open, and how often one was opened. */
function counted(disk: FakeDisk) {
  const state = { open: 0, opened: 0 }
  const counting = withMethods<Disk>(disk, {
    async open(path) {
      const file = await disk.open(path)
      state.open++
      state.opened++
      return withMethods<DiskFile>(file, {
        async close() {
          state.open--
          await file.close()
        },
      })
    },
  })
  return { state, counting }
}

test('one file is opened once for all its batches, and closed with the sink', async () => {
  const { state, counting } = counted(new FakeDisk())
  const sink = open(counting)
  for (let nth = 0; nth < 4; nth++) await deliver(sink, nth)
  expect(state).toEqual({ open: 1, opened: 1 })
  await sink.close()
  expect(state.open).toBe(0)
})

test('a file that is moved away, or rotated, is closed', async () => {
  const disk = new FakeDisk()
  const { state, counting } = counted(disk)
  const sink = open(counting, { rotate: { max_bytes: '100B', keep: 5 } })
  for (let nth = 0; nth < 4; nth++) await deliver(sink, nth)
  expect(state).toEqual({ open: 1, opened: 4 })
  await disk.rename(PATH, '/out/moved')
  await deliver(sink, 4)
  expect(state.open).toBe(1)
})

test('a file that could not be examined is reopened: the open one may have been moved', async () => {
  const disk = new FakeDisk()
  const { state, counting } = counted(disk)
  let away = false
  const sink = open(
    withMethods<Disk>(counting, {
      look: (path) => (away ? Promise.reject(new Error('the mount is away')) : disk.look(path)),
    }),
  )
  const first = await deliver(sink, 0)
  away = true
  await expect(deliver(sink, 1)).rejects.toThrow('the mount is away')
  expect(state).toEqual({ open: 0, opened: 1 })
  away = false
  const second = await deliver(sink, 1)
  expect(state).toEqual({ open: 1, opened: 2 })
  expect(disk.content(PATH)?.toString()).toBe(first + second)
})

test('after a file was moved away, the new one survives a power cut as soon as it has a batch', async () => {
  const disk = new FakeDisk()
  const sink = open(disk)
  await deliver(sink, 0)
  await disk.rename(PATH, '/out/moved')
  const second = await deliver(sink, 1)
  disk.crash('power')
  expect(disk.content(PATH)?.toString()).toBe(second)
})

test('only a writer behind our end is reported as another program, once', async () => {
  const disk = new FakeDisk()
  const log = new LogLines()
  const sink = open(disk, {}, log)
  const reported = () => log.lines.filter((line) => line.includes('Another program')).length
  await deliver(sink, 0)
  await deliver(sink, 1)
  await disk.rename(PATH, '/out/moved')
  await deliver(sink, 2)
  const cut = await disk.open(PATH)
  await cut.truncate(0)
  await cut.close()
  await deliver(sink, 2)
  expect(reported()).toBe(0)
  for (let nth = 3; nth < 5; nth++) {
    const file = await disk.open(PATH)
    await file.write(Buffer.from('theirs\n'), await file.size())
    await file.close()
    await deliver(sink, nth)
  }
  expect(reported()).toBe(1)
})

test('a check changes nothing in an existing file, and leaves none where there was none', async () => {
  const disk = new FakeDisk()
  const { state, counting } = counted(disk)
  const sink = open(counting)
  const good = [{ what: PATH, ok: true, message: 'can be written' }]
  expect(await sink.check(never)).toEqual(good)
  expect(disk.paths()).toEqual([])
  const line = await deliver(sink, 0)
  expect(await sink.check(never)).toEqual(good)
  expect(disk.paths()).toEqual([PATH])
  expect(disk.content(PATH)?.toString()).toBe(line)
  await sink.close()
  expect(state.open).toBe(0)
})

test('a check of a read-only file fails, though others may be created beside it', async () => {
  const disk = new FakeDisk()
  const sink = open(disk)
  await deliver(sink, 0)
  disk.protect(PATH)
  expect(await sink.check(never)).toMatchObject([{ what: PATH, ok: false }])
})
