// Standard output as a sink.
import { expect, test } from 'vitest'
import { ConnectorError } from '../../../src/core/errors.ts'
import { sinkKinds } from '../../../src/sinks/index.ts'
import { linesOf, runOf, someEntries } from '../../fakes/lines.ts'
import { sinkDeps } from '../../fakes/sink-deps.ts'

const never = new AbortController().signal

function open(print: (bytes: Uint8Array) => Promise<void>) {
  return sinkKinds.stdout.open('console', {}, sinkDeps({ print }))
}

const failing = (code: string) => open(() => Promise.reject(Object.assign(new Error(code), { code })))

function delivery(count = 3) {
  const sink = open(async () => undefined)
  return { lines: linesOf(runOf(someEntries(count)), sink.frame), detail: '', possibleDuplicate: false }
}

test('every entry is one line, and the batch counts when the reader took it', async () => {
  let printed = ''
  let taken: (() => void) | undefined
  const sink = open((bytes) => {
    printed += Buffer.from(bytes).toString()
    return new Promise((resolve) => (taken = resolve))
  })
  let settled = 0
  const done = sink.deliver(delivery(), never).then((outcome) => (settled = outcome.acknowledged))
  await new Promise((resolve) => setImmediate(resolve))
  expect(settled).toBe(0)
  taken?.()
  expect(await done).toBe(3)
  expect(printed.split('\n')).toHaveLength(4)
  expect(printed.endsWith('}\n')).toBe(true)
})

test.each([
  ['EPIPE', 'misconfigured'],
  ['ERR_STREAM_DESTROYED', 'misconfigured'],
  ['EIO', 'unreachable'],
  ['ENOSPC', 'disk_full'],
  ['EFBIG', 'disk_full'],
])('%s is %s, with what to do next', async (errno, code) => {
  const failure = failing(errno).deliver(delivery(), never)
  await expect(failure).rejects.toMatchObject({ code })
  await expect(failure).rejects.toThrow(errno)
})

test('a line that a full disk cut does not swallow the first one of the next try', async () => {
  let out = ''
  let memory = 40
  const sink = open(async (bytes) => {
    const text = Buffer.from(bytes).toString()
    out += text.slice(0, memory)
    if (text.length > memory) throw Object.assign(new Error('full'), { code: 'ENOSPC' })
  })
  const batch = delivery(2)
  await expect(sink.deliver(batch, never)).rejects.toThrow(ConnectorError)
  memory = 1e9
  await sink.deliver({ ...batch, possibleDuplicate: true }, never)
  const lines = Buffer.from(batch.lines.bytes).toString().trim().split('\n')
  expect(out.split('\n').slice(1)).toEqual([...lines, ''])
})

test('nothing is printed after the stop', async () => {
  const sink = open(() => Promise.reject(new Error('must not print')))
  await expect(sink.deliver(delivery(), AbortSignal.abort())).rejects.toMatchObject({ code: 'aborted' })
})

test('options other than none are refused', () => {
  expect(sinkKinds.stdout.options.safeParse({ path: 'x' }).success).toBe(false)
})
