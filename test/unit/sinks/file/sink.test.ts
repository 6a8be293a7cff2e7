// The file sink on a disk that forgets what was not synced.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Random } from '../../../../src/core/clock.ts'
import type { Disk } from '../../../../src/contracts/platform.ts'
import { ConnectorError } from '../../../../src/core/errors.ts'
import type { Lines, Sink } from '../../../../src/contracts/sink.ts'
import { sinkKinds } from '../../../../src/sinks/index.ts'
import { type CrashKind, DiskCrash, FakeDisk } from '../../../fakes/disk.ts'
import { linesOf, runOf, someEntries } from '../../../fakes/lines.ts'
import { LogLines, sinkDeps } from '../../../fakes/sink-deps.ts'
import { withMethods } from '../../../fakes/with-methods.ts'

const PATH = '/out/entries.ndjson'
const never = new AbortController().signal

function open(disk: Disk, rotate?: { max_bytes: string; keep: number }, log = new LogLines()): Sink {
  const options = sinkKinds.file.options.parse({ path: PATH, ...(rotate ? { rotate } : {}) })
  return sinkKinds.file.open('archive', options, sinkDeps({ disk, log }))
}

const batchOf = (sink: Sink, count: number, from: number): Lines =>
  linesOf(runOf(someEntries(count, from)), sink.frame)
const text = (lines: Lines) => Buffer.from(lines.bytes).toString()

async function deliver(sink: Sink, lines: Lines): Promise<string> {
  const detail = (await sink.prepare?.(lines, never)) ?? ''
  await sink.deliver({ lines, detail, possibleDuplicate: false }, never)
  return detail
}

/** All that is in the file and those rotated away, oldest first. */
function whole(disk: FakeDisk): string {
  const numbered = disk
    .paths()
    .filter((path) => path.startsWith(`${PATH}.`))
    .sort((a, b) => Number(b.slice(PATH.length + 1)) - Number(a.slice(PATH.length + 1)))
  return [...numbered, PATH].map((path) => disk.content(path)?.toString() ?? '').join('')
}

function seeded(seed: number): Random {
  let state = seed >>> 0
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state / 2 ** 32
  }
}

test('a delivered batch survives a power cut at once', async () => {
  const disk = new FakeDisk()
  const sink = open(disk)
  const lines = batchOf(sink, 5, 1)
  await deliver(sink, lines)
  disk.crash('power')
  expect(disk.content(PATH)?.toString()).toBe(text(lines))
})

/** Like the dispatcher, with a journal that never forgets: in-flight record before the batch, the next one with the acknowledgement. */
async function runDispatcher(disk: FakeDisk, batches: readonly number[], rotate: boolean, crashes: Crash[]) {
  const limits = rotate ? { max_bytes: '600B', keep: 1000 } : undefined
  const log = new LogLines()
  const journal = { acknowledged: 0, inFlight: undefined as { detail: string } | undefined }
  const ends = batches.map((_, i) => batches.slice(0, i + 1).reduce((a, b) => a + b, 0))
  const nextOf = (sink: Sink, i: number) => batchOf(sink, batches[i] ?? 0, (ends[i - 1] ?? 0) + 1)
  while (journal.acknowledged < batches.length) {
    disk.restart()
    const crash = crashes.shift()
    if (crash) disk.crashAfter(crash.after, crash.kind)
    const sink = open(disk, limits, log)
    try {
      let possibleDuplicate = journal.inFlight !== undefined
      while (journal.acknowledged < batches.length) {
        const lines = nextOf(sink, journal.acknowledged)
        journal.inFlight ??= { detail: (await sink.prepare?.(lines, never)) ?? '' }
        const { acknowledged } = await sink.deliver(
          { lines, detail: journal.inFlight.detail, possibleDuplicate },
          never,
        )
        expect(acknowledged).toBe(lines.count)
        possibleDuplicate = false
        const next = journal.acknowledged + 1
        const detail = next < batches.length ? await sink.prepare?.(nextOf(sink, next), never) : undefined
        journal.acknowledged = next
        journal.inFlight = detail === undefined ? undefined : { detail }
      }
    } catch (error) {
      if (!(error instanceof DiskCrash)) throw error
      if (!disk.isDown) throw error
    }
  }
  // What we cut ourselves is not reported.
  expect(log.lines.filter((line) => line.includes('was cut'))).toEqual([])
  const sink = open(disk)
  return text(batchOf(sink, ends.at(-1) ?? 0, 1))
}

interface Crash {
  readonly after: number
  readonly kind: CrashKind
}

test('after any number of kills and power cuts, at any byte: no line twice, none missing, in order', async () => {
  const crash = fc.record({
    after: fc.nat(30),
    kind: fc.constantFrom<CrashKind>('kill', 'power'),
  })
  await fc.assert(
    fc.asyncProperty(
      fc.integer(),
      fc.array(fc.integer({ min: 1, max: 6 }), { minLength: 1, maxLength: 8 }),
      fc.boolean(),
      fc.array(crash, { maxLength: 8 }),
      async (seed, batches, rotate, crashes) => {
        const disk = new FakeDisk({ random: seeded(seed) })
        const expected = await runDispatcher(disk, batches, rotate, crashes)
        expect(whole(disk)).toBe(expected)
      },
    ),
    { numRuns: 1000 },
  )
})

test('a power cut just after the last answer loses nothing, rotated or not', async () => {
  for (const rotate of [true, false]) {
    const disk = new FakeDisk()
    const expected = await runDispatcher(disk, [3, 3, 3, 3], rotate, [])
    disk.crash('power')
    expect(whole(disk)).toBe(expected)
  }
})

test('a batch over the size starts a new file; files beyond `keep` are removed', async () => {
  const disk = new FakeDisk()
  const log = new LogLines()
  const sink = open(disk, { max_bytes: '700B', keep: 2 }, log)
  for (let i = 0; i < 3; i++) await deliver(sink, batchOf(sink, 5, 1 + i * 5))
  expect(log.lines).toEqual([])
  for (let i = 3; i < 8; i++) await deliver(sink, batchOf(sink, 5, 1 + i * 5))
  expect(disk.paths()).toEqual([PATH, `${PATH}.1`, `${PATH}.2`])
  expect(disk.content(PATH)?.toString()).toBe(text(batchOf(sink, 5, 36)))
  expect(disk.content(`${PATH}.2`)?.toString()).toBe(text(batchOf(sink, 5, 26)))
  const removed = `The oldest rotated file was removed (rotate.keep) {"file":"${PATH}.2","keep":2}`
  expect(log.lines).toEqual(Array<string>(5).fill(removed))
})

test('a rotation is synced before a batch is written behind it, also if another program has started the new file', async () => {
  const disk = new FakeDisk()
  const calls: string[] = []
  const reported = withMethods<Disk>(disk, {
    rename: async (from, to) => {
      calls.push('rename')
      await disk.rename(from, to)
      disk.put(from, 'theirs\n')
    },
    syncFolder: (folder) => (calls.push('sync'), disk.syncFolder(folder)),
  })
  const sink = open(reported, { max_bytes: '300B', keep: 2 })
  await deliver(sink, batchOf(sink, 2, 1))
  calls.length = 0
  await sink.prepare?.(batchOf(sink, 2, 3), never)
  expect(calls).toEqual(['rename', 'sync'])
})

test('after a failed sync the next try writes again, and a power cut loses nothing', async () => {
  const disk = new FakeDisk()
  const sink = open(disk)
  const lines = batchOf(sink, 3, 1)
  const detail = (await sink.prepare?.(lines, never)) ?? ''
  disk.fail('sync', 'unreachable')
  await expect(sink.deliver({ lines, detail, possibleDuplicate: false }, never)).rejects.toMatchObject({
    code: 'unreachable',
  })
  await sink.deliver({ lines, detail, possibleDuplicate: true }, never)
  disk.crash('power')
  expect(disk.content(PATH)?.toString()).toBe(text(lines))
})

/** Like the dispatcher, over a mount that goes away in the middle: failures are retried as possible duplicates. */
async function shipOver(disk: FakeDisk, sink: Sink, batches: readonly number[], faults: Fault[]) {
  const tryUntilDone = async (work: (tries: number) => Promise<unknown>) => {
    for (let tries = 0; ; tries++) {
      const fault = faults.shift()
      if (fault) disk.fail(fault, 'unreachable')
      try {
        return await work(tries)
      } catch (error) {
        expect(error).toMatchObject({ code: 'unreachable', action: 'retry' })
      }
    }
  }
  let from = 1
  for (const count of batches) {
    const lines = batchOf(sink, count, from)
    let detail = ''
    await tryUntilDone(async () => (detail = (await sink.prepare?.(lines, never)) ?? ''))
    await tryUntilDone((tries) => sink.deliver({ lines, detail, possibleDuplicate: tries > 0 }, never))
    from += count
  }
}

const faultyCalls = ['open', 'read', 'write', 'truncate', 'sync', 'syncFolder', 'rename', 'look'] as const
type Fault = (typeof faultyCalls)[number] | undefined

test('whatever fails while a mount is away: no line twice, none missing, and nothing covered by a failed sync is trusted', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer(),
      fc.array(fc.integer({ min: 1, max: 6 }), { minLength: 1, maxLength: 8 }),
      fc.boolean(),
      fc.array(fc.constantFrom<Fault>(undefined, 'sync', ...faultyCalls), { maxLength: 20 }),
      async (seed, batches, rotates, faults) => {
        const disk = new FakeDisk({ random: seeded(seed) })
        disk.put(PATH, '{"torn":')
        const sink = open(disk, rotates ? { max_bytes: '600B', keep: 1000 } : undefined)
        await shipOver(disk, sink, batches, [...faults])
        disk.crash('power')
        const sum = batches.reduce((a, b) => a + b, 0)
        expect(whole(disk)).toBe('{"torn":\n' + text(batchOf(sink, sum, 1)))
      },
    ),
    { numRuns: 500 },
  )
})

test('a full disk throws disk_full and leaves no torn line; with room again the batch is written once', async () => {
  const disk = new FakeDisk({ capacityBytes: 500 })
  const sink = open(disk)
  await deliver(sink, batchOf(sink, 2, 1))
  const before = text(batchOf(sink, 2, 1))
  const lines = batchOf(sink, 4, 3)
  const detail = (await sink.prepare?.(lines, never)) ?? ''
  await expect(sink.deliver({ lines, detail, possibleDuplicate: false }, never)).rejects.toMatchObject({
    code: 'disk_full',
  })
  expect(disk.content(PATH)?.toString()).toBe(before)
  disk.capacityBytes = 5000
  await sink.deliver({ lines, detail, possibleDuplicate: true }, never)
  expect(disk.content(PATH)?.toString()).toBe(before + text(lines))
})

test('another program’s last line without its end gets one, and is kept', async () => {
  const disk = new FakeDisk()
  disk.put(PATH, '{"torn":')
  const sink = open(disk)
  const lines = batchOf(sink, 2, 1)
  await deliver(sink, lines)
  expect(disk.content(PATH)?.toString()).toBe('{"torn":\n' + text(lines))
})

test('a missing or shortened file is reported, and the possible duplicate goes to its end', async () => {
  for (const stranger of [undefined, 'short']) {
    const disk = new FakeDisk()
    const log = new LogLines()
    const first = open(disk)
    await deliver(first, batchOf(first, 3, 1))
    const lines = batchOf(first, 3, 4)
    const detail = (await first.prepare?.(lines, never)) ?? ''
    await first.close()
    await disk.remove(PATH)
    if (stranger !== undefined) disk.put(PATH, stranger)
    const second = open(disk, undefined, log)
    await second.deliver({ lines, detail, possibleDuplicate: true }, never)
    expect(disk.content(PATH)?.toString()).toBe((stranger === undefined ? '' : 'short\n') + text(lines))
    expect(log.lines).toEqual([expect.stringMatching(/changed since the last delivery/)])
  }
})

test('another, longer file at the path is not cut', async () => {
  const disk = new FakeDisk()
  const sink = open(disk)
  await deliver(sink, batchOf(sink, 1, 1))
  const lines = batchOf(sink, 2, 2)
  const detail = (await sink.prepare?.(lines, never)) ?? ''
  await sink.close()
  const stranger = 'x'.repeat(2000) + '\n'
  disk.put(PATH, stranger)
  const next = open(disk)
  await next.deliver({ lines, detail, possibleDuplicate: true }, never)
  await next.deliver({ lines, detail, possibleDuplicate: true }, never)
  expect(disk.content(PATH)?.toString()).toBe(stranger + text(lines))
})

test('a file moved away between two batches is left alone, and a new one started', async () => {
  const disk = new FakeDisk()
  const sink = open(disk)
  await deliver(sink, batchOf(sink, 2, 1))
  await disk.rename(PATH, '/out/moved')
  await deliver(sink, batchOf(sink, 2, 3))
  expect(disk.content('/out/moved')?.toString()).toBe(text(batchOf(sink, 2, 1)))
  expect(disk.content(PATH)?.toString()).toBe(text(batchOf(sink, 2, 3)))
})

test('a batch cut in a file that was moved to path.1 is finished there', async () => {
  const disk = new FakeDisk()
  const sink = open(disk)
  await deliver(sink, batchOf(sink, 2, 1))
  const lines = batchOf(sink, 2, 3)
  const detail = (await sink.prepare?.(lines, never)) ?? ''
  await sink.close()
  await disk.rename(PATH, `${PATH}.1`)
  await sink.deliver({ lines, detail, possibleDuplicate: true }, never)
  expect(disk.content(`${PATH}.1`)?.toString()).toBe(text(batchOf(sink, 4, 1)))
  expect(disk.content(PATH)).toBeUndefined()
})

test.each([
  ['in its middle', (lines: Lines) => Math.floor(lines.bytes.length / 2)],
  ['when it was complete', (lines: Lines) => lines.bytes.length],
])('a batch that a kill cut %s is found in its file under its new name', async (_, written) => {
  const disk = new FakeDisk()
  const sink = open(disk)
  await deliver(sink, batchOf(sink, 2, 1))
  const lines = batchOf(sink, 2, 3)
  const detail = (await sink.prepare?.(lines, never)) ?? ''
  await sink.close()
  const file = await disk.open(PATH)
  await file.write(lines.bytes.subarray(0, written(lines)), await file.size())
  await file.close()
  await disk.rename(PATH, `${PATH}-20261124`)
  await sink.deliver({ lines, detail, possibleDuplicate: true }, never)
  expect(disk.content(`${PATH}-20261124`)?.toString()).toBe(text(batchOf(sink, 4, 1)))
  expect(disk.content(PATH)).toBeUndefined()
  await deliver(sink, batchOf(sink, 1, 5))
  expect(disk.content(PATH)?.toString()).toBe(text(batchOf(sink, 1, 5)))
})

describe('a rotated file that is read-only since', () => {
  /** As a kill left it: so many bytes of the last batch are in the file, which has another name now. */
  const rotated = async (name: string, written: (whole: number) => number) => {
    const disk = new FakeDisk()
    const sink = open(disk)
    await deliver(sink, batchOf(sink, 2, 1))
    const lines = batchOf(sink, 2, 3)
    const detail = (await sink.prepare?.(lines, never)) ?? ''
    await sink.close()
    const file = await disk.open(PATH)
    await file.write(lines.bytes.subarray(0, written(lines.bytes.length)), await file.size())
    await file.close()
    await disk.rename(PATH, name)
    await disk.syncFolder('/out')
    disk.protect(name)
    const again = () => sink.deliver({ lines, detail, possibleDuplicate: true }, never)
    return { disk, sink, lines, again, name }
  }
  const names = [`${PATH}.1`, `${PATH}-20261124.gz.tmp`]

  test.each(names)('%s: a complete batch in it is verified, and delivery continues', async (name) => {
    const { disk, sink, again } = await rotated(name, (whole) => whole)
    await again()
    disk.crash('power')
    expect(disk.content(name)?.toString()).toBe(text(batchOf(sink, 4, 1)))
    expect([disk.paths(), disk.openFiles]).toEqual([[name], 0])
  })

  test.each(names)(
    '%s: a batch cut in it blocks the sink, with its name, until it can be finished there',
    async (name) => {
      const { disk, sink, lines, again } = await rotated(name, (whole) => Math.floor(whole / 2))
      const before = disk.content(name)?.toString()
      for (let i = 0; i < 2; i++)
        await expect(again()).rejects.toMatchObject({
          code: 'misconfigured',
          message: expect.stringMatching(
            /^\/out\/entries.ndjson\S+ may only be read \(EACCES\).*from byte \d+ on/,
          ) as string,
        })
      expect([disk.content(name)?.toString(), disk.paths(), disk.openFiles]).toEqual([before, [name], 0])
      disk.protect(name, false)
      await again()
      expect(disk.content(name)?.toString()).toBe(text(batchOf(sink, 4, 1)))
      expect(lines.count).toBe(2)
    },
  )

  test.each(names)('%s: a batch not begun in it goes to the current file', async (name) => {
    const { disk, lines, again } = await rotated(name, () => 0)
    await again()
    expect(disk.content(PATH)?.toString()).toBe(text(lines))
  })

  test('a batch whose sync failed is not assumed to be there', async () => {
    const disk = new FakeDisk()
    const sink = open(disk)
    const lines = batchOf(sink, 2, 1)
    const detail = (await sink.prepare?.(lines, never)) ?? ''
    disk.fail('sync', 'unreachable')
    await expect(sink.deliver({ lines, detail, possibleDuplicate: false }, never)).rejects.toThrow()
    await disk.rename(PATH, `${PATH}.1`)
    disk.protect(`${PATH}.1`)
    const again = () => sink.deliver({ lines, detail, possibleDuplicate: true }, never)
    await expect(again()).rejects.toThrow('may only be read')
    disk.protect(`${PATH}.1`, false)
    await again()
    await disk.syncFolder('/out')
    disk.crash('power')
    expect(disk.content(`${PATH}.1`)?.toString()).toBe(text(lines))
  })

  test('a complete batch that could not be synced is not assumed to be there', async () => {
    const { disk, again, name } = await rotated(`${PATH}.1`, (whole) => whole)
    disk.fail('sync', 'unreachable')
    await expect(again()).rejects.toMatchObject({ code: 'unreachable' })
    await expect(again()).rejects.toThrow('may only be read')
    disk.protect(name, false)
    await again()
  })

  test('another file at path.1 blocks nothing, readable or not', async () => {
    const disk = new FakeDisk()
    disk.put(`${PATH}.1`, 'theirs')
    disk.protect(`${PATH}.1`)
    const openToRead = () => Promise.reject(new ConnectorError('misconfigured', 'as told'))
    const sink = open(withMethods(disk, { openToRead }))
    const lines = batchOf(sink, 2, 1)
    const detail = (await sink.prepare?.(lines, never)) ?? ''
    await sink.close()
    await disk.remove(PATH)
    await sink.deliver({ lines, detail, possibleDuplicate: true }, never)
    expect(disk.content(PATH)?.toString()).toBe(text(lines))
  })
})

describe('a batch that a kill cut, in a renamed file beside others', () => {
  const refused = () => Promise.reject(new ConnectorError('unreachable', 'as told'))
  const cut = async (methods: (disk: FakeDisk) => Partial<Disk>) => {
    const disk = new FakeDisk()
    const sink = open(withMethods<Disk>(disk, methods(disk)))
    const lines = batchOf(sink, 2, 1)
    const detail = (await sink.prepare?.(lines, never)) ?? ''
    await sink.close()
    disk.put('/out/theirs', 'theirs')
    const file = await disk.open(PATH)
    await file.write(lines.bytes.subarray(0, 20), 0)
    await file.close()
    await disk.rename(PATH, '/out/ours')
    await sink.deliver({ lines, detail, possibleDuplicate: true }, never)
    const at = (path: string) => disk.content(path)?.toString()
    return { ours: at('/out/ours'), today: at(PATH), whole: text(lines) }
  }

  test('is found behind one that cannot be examined', async () => {
    const asked: string[] = []
    const look = (disk: FakeDisk) => (path: string) => {
      asked.push(path)
      return path === '/out/theirs' ? refused() : disk.look(path)
    }
    const { ours, today, whole } = await cut((disk) => ({ look: look(disk) }))
    expect(asked.indexOf('/out/theirs')).toBeLessThan(asked.indexOf('/out/ours'))
    expect([ours, today]).toEqual([whole, undefined])
  })

  test('goes to the current file if the folder may not be listed', async () => {
    const { today, whole } = await cut(() => ({ list: refused }))
    expect(today).toBe(whole)
  })
})

test.each(['', 'somebody else’s, and no line of ours\n'])(
  'a renamed file that has our number by now is not ours: %j',
  async (theirs) => {
    const disk = new FakeDisk()
    const sink = open(disk)
    const lines = batchOf(sink, 2, 1)
    const detail = (await sink.prepare?.(lines, never)) ?? ''
    await sink.close()
    const file = await disk.open(PATH)
    await file.write(Buffer.from(theirs), 0)
    await file.close()
    await disk.rename(PATH, '/out/theirs')
    await sink.deliver({ lines, detail, possibleDuplicate: true }, never)
    expect(disk.content('/out/theirs')?.toString()).toBe(theirs)
    expect(disk.content(PATH)?.toString()).toBe(text(lines))
  },
)

test('a restored copy of the file is recognized by the bytes before the batch', async () => {
  const disk = new FakeDisk()
  const sink = open(disk)
  await deliver(sink, batchOf(sink, 4, 1))
  const before = disk.content(PATH)?.toString() ?? ''
  const lines = batchOf(sink, 2, 5)
  const detail = (await sink.prepare?.(lines, never)) ?? ''
  await sink.close()
  disk.put(PATH, before + text(lines).slice(0, 20))
  await sink.deliver({ lines, detail, possibleDuplicate: true }, never)
  expect(disk.content(PATH)?.toString()).toBe(before + text(lines))
})

test('bytes of other settings behind the offset are replaced', async () => {
  const disk = new FakeDisk()
  const sink = open(disk)
  const lines = batchOf(sink, 3, 1)
  const detail = await deliver(sink, lines)
  const other = linesOf(runOf(someEntries(3).map((entry) => ({ ...entry, raw: '{"other":1}' }))), sink.frame)
  await sink.deliver({ lines: other, detail, possibleDuplicate: true }, never)
  expect(disk.content(PATH)?.toString()).toBe(text(other))
})

test('no file stays open once the sink is closed, whatever failed', async () => {
  for (const call of ['write', 'sync', 'truncate', 'syncFolder', 'open', 'read'] as const) {
    const disk = new FakeDisk()
    const sink = open(disk)
    const lines = batchOf(sink, 2, 1)
    disk.fail(call, 'unreachable')
    const detail = await sink.prepare?.(lines, never).catch(() => 'none')
    await sink.deliver({ lines, detail: detail ?? '', possibleDuplicate: true }, never).catch(() => undefined)
    await sink.close()
    expect([call, disk.openFiles]).toEqual([call, 0])
  }
})

test('check reports whether the file can be written, and leaves nothing behind', async () => {
  const disk = new FakeDisk()
  const sink = open(disk)
  expect(await sink.check(never)).toMatchObject([{ ok: true }])
  expect(disk.paths()).toEqual([])
  disk.fail('open', 'misconfigured')
  expect(await sink.check(never)).toMatchObject([{ ok: false, message: 'open failed, as told' }])
})

test('a file that shrank or grew between two batches is examined again: no existing byte is overwritten', async () => {
  for (const change of ['', 'x'.repeat(4000) + '\n']) {
    const disk = new FakeDisk()
    const sink = open(disk)
    await deliver(sink, batchOf(sink, 3, 1))
    const handle = await disk.open(PATH)
    await handle.truncate(0)
    await handle.write(Buffer.from(change), 0)
    await handle.close()
    await deliver(sink, batchOf(sink, 2, 4))
    expect(disk.content(PATH)?.toString()).toBe(change + text(batchOf(sink, 2, 4)))
  }
})

test('a file shared with another daemon is reported, once; a truncated file is not taken for that', async () => {
  const disk = new FakeDisk()
  const log = new LogLines()
  const [ours, theirs] = [open(disk, undefined, log), open(disk)]
  await deliver(ours, batchOf(ours, 2, 1))
  const handle = await disk.open(PATH)
  await handle.truncate(0)
  await handle.close()
  await deliver(ours, batchOf(ours, 2, 3))
  expect(log.lines.splice(0)).toEqual([expect.stringMatching(/^The file of this sink was truncated/)])
  for (const from of [5, 9]) {
    await deliver(theirs, batchOf(theirs, 2, from))
    await deliver(ours, batchOf(ours, 2, from + 2))
  }
  expect(log.lines).toEqual([expect.stringMatching(/^Another program writes to the file .*entries\.ndjson/)])
  expect(disk.content(PATH)?.toString()).toBe(text(batchOf(ours, 10, 3)))
})

describe('a file that disappears between two batches', () => {
  const hour = 3_600_000

  function setup() {
    const warned: string[] = []
    const disk = new FakeDisk()
    const deps = sinkDeps({ disk, warn: (_code, message) => warned.push(message) })
    const options = sinkKinds.file.options.parse({ path: PATH })
    const sink = sinkKinds.file.open('archive', options, deps)
    return { ...{ disk, sink, warned }, clock: deps.clock, lines: deps.log.lines }
  }

  test('if removed with its content: reported, and delivery continues in a new file', async () => {
    const { disk, sink, lines, warned } = setup()
    await deliver(sink, batchOf(sink, 3, 1))
    await disk.remove(PATH)
    await deliver(sink, batchOf(sink, 2, 4))
    await deliver(sink, batchOf(sink, 2, 6))
    expect(disk.content(PATH)?.toString()).toBe(text(batchOf(sink, 4, 4)))
    expect(lines).toEqual([
      expect.stringMatching(/^The file of this sink was removed or replaced.*"bytes":\d/),
    ])
    expect(warned).toEqual([expect.stringMatching(/^.*entries\.ndjson was removed or replaced/)])
  })

  test('if replaced by another file: reported', async () => {
    const { disk, sink, lines } = setup()
    await deliver(sink, batchOf(sink, 3, 1))
    disk.put('/out/other', 'a line\n')
    await disk.rename('/out/other', PATH)
    await deliver(sink, batchOf(sink, 2, 4))
    expect(lines).toHaveLength(1)
    expect(disk.content(PATH)?.toString()).toBe('a line\n' + text(batchOf(sink, 2, 4)))
  })

  test('if removed: each removal is reported, except that of an empty file', async () => {
    const { disk, sink, lines } = setup()
    for (const from of [1, 4]) {
      await deliver(sink, batchOf(sink, 3, from))
      await disk.remove(PATH)
    }
    await sink.prepare?.(batchOf(sink, 3, 7), never)
    await disk.remove(PATH)
    await deliver(sink, batchOf(sink, 3, 7))
    expect(lines).toHaveLength(2)
  })

  test.each(['entries.ndjson.1.gz', 'entries-20261121.ndjson.gz'])(
    'if moved away: no loss, also if it is removed or compressed to %s afterwards',
    async (compressed) => {
      const { disk, sink, clock, lines, warned } = setup()
      await deliver(sink, batchOf(sink, 3, 1))
      await disk.rename(PATH, `${PATH}.1`)
      await deliver(sink, batchOf(sink, 2, 4))
      await disk.remove(`${PATH}.1`)
      await deliver(sink, batchOf(sink, 2, 6))
      clock.pass(hour)
      await disk.remove(PATH)
      disk.put(`/out/${compressed}`, 'zipped', clock.now() - 1000)
      await deliver(sink, batchOf(sink, 2, 8))
      expect({ lines, warned }).toEqual({ lines: [], warned: [] })
    },
  )

  test.each(['entries-envelope.ndjson', 'entries.json', 'entriesold.ndjson'])(
    'if removed beside another file that grows meanwhile (%s): reported',
    async (neighbour) => {
      const { disk, sink, clock, lines } = setup()
      await deliver(sink, batchOf(sink, 3, 1))
      await disk.remove(PATH)
      disk.put(`/out/${neighbour}`, 'a line\n', clock.now())
      await deliver(sink, batchOf(sink, 2, 4))
      expect(lines).toHaveLength(1)
    },
  )

  test('if removed now: files compressed long before do not explain it', async () => {
    const { disk, sink, clock, lines } = setup()
    disk.put(`${PATH}.1.gz`, 'zipped', clock.now() - hour)
    await deliver(sink, batchOf(sink, 3, 1))
    await disk.remove(PATH)
    await deliver(sink, batchOf(sink, 2, 4))
    expect(lines).toHaveLength(1)
  })
})

test('if replaced by a file of the same size: it is another file', async () => {
  const disk = new FakeDisk()
  const sink = open(disk)
  await deliver(sink, batchOf(sink, 3, 1))
  const size = disk.content(PATH)?.length ?? 0
  const stranger = 'x'.repeat(size - 1) + '\n'
  await disk.rename(PATH, '/out/moved')
  disk.put(PATH, stranger)
  await deliver(sink, batchOf(sink, 2, 4))
  expect(disk.content('/out/moved')?.toString()).toBe(text(batchOf(sink, 3, 1)))
  expect(disk.content(PATH)?.toString()).toBe(stranger + text(batchOf(sink, 2, 4)))
})

test('lines of another sink behind a torn batch are not cut: the batch goes to the end', async () => {
  const disk = new FakeDisk()
  const [ours, theirs] = [open(disk), open(disk)]
  await deliver(ours, batchOf(ours, 2, 1))
  const lines = batchOf(ours, 5, 3)
  const detail = (await ours.prepare?.(lines, never)) ?? ''
  const torn = Buffer.from(lines.bytes).subarray(0, 30)
  const handle = await disk.open(PATH)
  await handle.write(torn, await handle.size())
  await handle.close()
  await deliver(theirs, batchOf(theirs, 9, 100))
  const before = disk.content(PATH)?.toString() ?? ''
  const log = new LogLines()
  const again = open(disk, undefined, log)
  await again.deliver({ lines, detail, possibleDuplicate: true }, never)
  expect(disk.content(PATH)?.toString()).toBe(before + text(lines))
  expect(log.lines).toEqual([expect.stringMatching(/^The file changed since the last delivery/)])
})

test('bytes behind a complete batch are not cut', async () => {
  const disk = new FakeDisk()
  const sink = open(disk)
  const lines = batchOf(sink, 3, 1)
  const detail = await deliver(sink, lines)
  await sink.close()
  const behind = text(batchOf(sink, 2, 4))
  const handle = await disk.open(PATH)
  await handle.write(Buffer.from(behind), await handle.size())
  await handle.close()
  await open(disk).deliver({ lines, detail, possibleDuplicate: true }, never)
  expect(disk.content(PATH)?.toString()).toBe(text(lines) + behind)
})

test('a disk that is full at a second try leaves no torn line either', async () => {
  const disk = new FakeDisk({ capacityBytes: 500 })
  const sink = open(disk)
  const before = text(batchOf(sink, 2, 1))
  await deliver(sink, batchOf(sink, 2, 1))
  const lines = batchOf(sink, 4, 3)
  const detail = (await sink.prepare?.(lines, never)) ?? ''
  for (const possibleDuplicate of [false, true, true])
    await sink.deliver({ lines, detail, possibleDuplicate }, never).catch(() => undefined)
  expect(disk.content(PATH)?.toString()).toBe(before)
})
