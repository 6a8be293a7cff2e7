// A file sink's file that another program truncated: reported with the number of lost bytes, in this process and over an orderly stop; the sink's own changes are not reported.
import { expect, test } from 'vitest'
import type { Lines, Sink } from '../../../../src/contracts/sink.ts'
import { sinkKinds } from '../../../../src/sinks/index.ts'
import { FakeDisk } from '../../../fakes/disk.ts'
import { linesOf, runOf, someEntries } from '../../../fakes/lines.ts'
import { sinkDeps, StepClock } from '../../../fakes/sink-deps.ts'

const PATH = '/out/entries.ndjson'
const never = new AbortController().signal
const hour = 3_600_000

const batchOf = (sink: Sink, count: number, from: number): Lines =>
  linesOf(runOf(someEntries(count, from)), sink.frame)
const text = (lines: Lines) => Buffer.from(lines.bytes).toString()

function setup() {
  const disk = new FakeDisk()
  const clock = new StepClock()
  const reported: string[] = []
  const removed: string[] = []
  const state = new Map<string, string>()
  const deps = sinkDeps({
    ...{ disk, clock },
    warn: (code, message) => (code === 'file_cut' ? reported : removed).push(message),
    state: {
      get: async (name) => state.get(name),
      put: async (name, value) => void state.set(name, value),
    },
  })
  /** As the next process opens it. */
  const open = (rotate?: object): Sink => {
    const options = sinkKinds.file.options.parse({ path: PATH, ...(rotate ? { rotate } : {}) })
    return sinkKinds.file.open('archive', options, deps)
  }
  const cut = async (bytes: number) => {
    const file = await disk.open(PATH)
    await file.truncate((await file.size()) - bytes)
    await file.close()
  }
  const content = () => disk.content(PATH)?.toString() ?? ''
  return { ...{ disk, clock, reported, removed, open, cut, content }, lines: deps.log.lines }
}

async function deliver(sink: Sink, lines: Lines, possibleDuplicate = false): Promise<string> {
  const detail = (await sink.prepare?.(lines, never)) ?? ''
  await sink.deliver({ lines, detail, possibleDuplicate }, never)
  return detail
}

test('a file that is shorter at the next batch is reported each time, with the number of lost bytes; lines continue at its end', async () => {
  const { open, cut, content, reported, lines } = setup()
  const sink = open()
  await deliver(sink, batchOf(sink, 3, 1))
  await cut(30)
  const left = content()
  await deliver(sink, batchOf(sink, 2, 4))
  await deliver(sink, batchOf(sink, 2, 6))
  expect(content()).toBe(`${left}\n${text(batchOf(sink, 4, 4))}`)
  expect(lines).toEqual([expect.stringMatching(/^The file of this sink was truncated: .*"bytes":30\b/)])
  expect(reported).toEqual([expect.stringMatching(/^archive: .*entries\.ndjson was truncated .*30 bytes/)])
  await cut(7)
  await deliver(sink, batchOf(sink, 2, 8))
  expect(reported).toEqual([expect.anything(), expect.stringContaining('7 bytes')])
})

test('a copytruncate is reported with what it took', async () => {
  const { open, disk, cut, content, reported, removed } = setup()
  const sink = open()
  await deliver(sink, batchOf(sink, 3, 1))
  const length = disk.content(PATH)?.length ?? 0
  disk.put(`${PATH}.1`, content())
  await cut(length)
  await deliver(sink, batchOf(sink, 2, 4))
  expect(reported).toEqual([expect.stringContaining(`${length} bytes`)])
  expect([removed, content()]).toEqual([[], text(batchOf(sink, 2, 4))])
})

test('a truncation while the sink was closed is reported by the next process, once, and not by the one after a kill', async () => {
  const { open, cut, reported } = setup()
  const first = open()
  await deliver(first, batchOf(first, 3, 1))
  await first.close()
  await open().close()
  await cut(30)
  const next = open()
  await deliver(next, batchOf(next, 1, 4))
  expect(reported).toEqual([expect.stringContaining('30 bytes')])
  const afterKill = open()
  await deliver(afterKill, batchOf(afterKill, 1, 5))
  expect(reported).toHaveLength(1)
})

test('after a kill the possible duplicate shows how long the file was', async () => {
  const { open, cut, content, reported } = setup()
  const first = open()
  await deliver(first, batchOf(first, 3, 1))
  const lines = batchOf(first, 2, 4)
  const detail = (await first.prepare?.(lines, never)) ?? ''
  await cut(30)
  const left = content()
  const next = open()
  await next.deliver({ lines, detail, possibleDuplicate: true }, never)
  await deliver(next, batchOf(next, 1, 6))
  expect(reported).toEqual([expect.stringContaining('30 bytes')])
  expect(content()).toBe(`${left}\n${text(batchOf(next, 3, 4))}`)
})

test('a batch that keeps failing behind a truncation reports it once', async () => {
  const { open, disk, cut, reported } = setup()
  const first = open()
  await deliver(first, batchOf(first, 3, 1))
  const lines = batchOf(first, 2, 4)
  const detail = (await first.prepare?.(lines, never)) ?? ''
  await cut(30)
  const next = open()
  for (let nth = 0; nth < 3; nth++) {
    disk.fail('sync', nth === 1 ? 'disk_full' : 'unreachable')
    await next.deliver({ lines, detail, possibleDuplicate: true }, never).catch(() => undefined)
  }
  await next.deliver({ lines, detail, possibleDuplicate: true }, never)
  await deliver(next, batchOf(next, 1, 6))
  expect(reported).toHaveLength(1)
})

test('a rotation, ours or another program’s, is not reported, nor a file that grew', async () => {
  const { open, disk, reported, removed } = setup()
  const sink = open({ max_bytes: '100B', keep: 3 })
  for (let from = 1; from < 8; from++) await deliver(sink, batchOf(sink, 1, from))
  await sink.close()
  const next = open()
  await deliver(next, batchOf(next, 3, 8))
  await next.close()
  await disk.rename(PATH, '/out/entries-20261121.ndjson')
  const last = open()
  await deliver(last, batchOf(last, 1, 11))
  const file = await disk.open(PATH)
  await file.write(Buffer.from('theirs\n'), await file.size())
  await file.close()
  await deliver(last, batchOf(last, 1, 12))
  expect([reported, removed]).toEqual([[], []])
})

test.each(['disk_full', 'unreachable'] as const)(
  'a torn batch that the sink cuts back itself is not reported: %s, and after a kill',
  async (code) => {
    const { open, disk, reported } = setup()
    const sink = open()
    await deliver(sink, batchOf(sink, 3, 1))
    const lines = batchOf(sink, 2, 4)
    const detail = (await sink.prepare?.(lines, never)) ?? ''
    disk.fail('sync', code)
    await expect(sink.deliver({ lines, detail, possibleDuplicate: false }, never)).rejects.toThrow(
      'sync failed',
    )
    await sink.close()
    const shorter = linesOf(runOf(someEntries(2, 4).map((entry) => ({ ...entry, raw: '{}' }))), sink.frame)
    const next = open()
    await next.deliver({ lines: shorter, detail, possibleDuplicate: true }, never)
    await deliver(next, batchOf(next, 1, 6))
    expect(reported).toEqual([])
  },
)

test('a reported truncation is not reported again after a kill, however much more it took than was written since', async () => {
  const { open, cut, content, reported } = setup()
  const first = open()
  await deliver(first, batchOf(first, 9, 1))
  await first.close()
  await cut(content().length - 10)
  const next = open()
  await deliver(next, batchOf(next, 1, 10))
  const afterKill = open()
  await deliver(afterKill, batchOf(afterKill, 1, 11))
  expect(reported).toHaveLength(1)
})

test('the suggested replay ends with the last write before the truncation or removal', async () => {
  const { open, disk, cut, clock, reported, removed, lines } = setup()
  const sink = open()
  await deliver(sink, batchOf(sink, 3, 1))
  clock.pass(hour)
  await deliver(sink, batchOf(sink, 3, 4))
  clock.pass(hour)
  await cut(30)
  await deliver(sink, batchOf(sink, 3, 7))
  expect(reported).toEqual([
    expect.stringContaining('auditferry replay --sink archive --from <time> --to 2026-11-21T13:00:01Z'),
  ])
  clock.pass(hour)
  await disk.remove(PATH)
  await deliver(sink, batchOf(sink, 3, 10))
  expect(removed).toEqual([
    expect.stringContaining('auditferry replay --sink archive --from <time> --to 2026-11-21T14:00:01Z'),
  ])
  expect(lines).toEqual([
    expect.stringContaining('"replayTo":"2026-11-21T13:00:01Z"'),
    expect.stringContaining('"replayTo":"2026-11-21T14:00:01Z"'),
  ])
})
