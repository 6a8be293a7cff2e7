// When parts of an answer are kept (invariant 4): groups go out one behind, and a large one before anything of the next is in memory.
import { expect, test } from 'vitest'
import { Entries } from '../../../../src/contracts/entries.ts'
import type { HttpReply } from '../../../../src/contracts/platform.ts'
import { OneBehind } from '../../../../src/sources/http/groups.ts'
import type { Group } from '../../../../src/sources/splitter/entries-builder.ts'
import { MINUTE, START, openHarness } from '../../app/audit-harness.ts'
import { openHistoryHarness } from '../history/harness.ts'

const MIB = 1024 * 1024

function groupOf(bytes: number): Group {
  const columns = new Uint32Array(8)
  return {
    entries: new Entries(Buffer.alloc(bytes), 1, columns, new Float64Array(1), ['t']),
    quarantined: [],
  }
}

const sizesOf = (groups: readonly Group[]) => groups.map(({ entries }) => entries.bytes.length)

test('groups go out one behind, so that the last is left for the cursor', () => {
  const behind = new OneBehind()
  expect(behind.last).toBeUndefined()
  expect(sizesOf(behind.next(groupOf(1)))).toEqual([])
  expect(sizesOf(behind.next(groupOf(4 * MIB)))).toEqual([1])
  expect(sizesOf(behind.next(groupOf(2)))).toEqual([4 * MIB])
  expect(behind.last?.entries.bytes.length).toBe(2)
})

test('a large group waits for none, behind the ones that waited before it', () => {
  const behind = new OneBehind()
  const large = 4 * MIB + 1
  behind.next(groupOf(1))
  expect(sizesOf(behind.next(groupOf(large)))).toEqual([1, large])
  expect(behind.last === undefined).toBe(true)
  expect(sizesOf(behind.next(groupOf(large)))).toEqual([large])
})

/** Two entries of 5 MiB each; `between` runs once the second has begun. */
async function* twoLarge(open: string, fields: string, between: () => Promise<void>, close: string) {
  const text = 'x'.repeat(5 * MIB)
  yield Buffer.from(`${open}{"number":1,${fields.replace('?', '1')},"text":"${text}"},`)
  yield Buffer.from('{"number":')
  await between()
  yield Buffer.from(`2,${fields.replace('?', '2')},"text":"${text}"}${close}`)
}

const reply = (body: AsyncIterable<Uint8Array>): HttpReply => ({
  ...{ status: 200, headers: { 'content-type': 'application/json' } },
  body,
})

test('a large entry of the audit log is kept before the next one is read', async () => {
  const seen: string[][] = []
  const fields = '"id":"?","timestamp":"2026-11-17T09:59:00","type":"auth:login"'
  const harness = await openHarness({
    wrap: (send) => (request, signal) =>
      request.url.includes('from=')
        ? Promise.resolve(reply(twoLarge('[', fields, async () => void seen.push(await harness.ids()), ']')))
        : send(request, signal),
  })
  const [first] = harness.add(1, START - MINUTE)
  await harness.step()
  await harness.step()
  expect(seen).toEqual([[first, '1']])
  expect(await harness.ids()).toEqual([first, '1', '2'])
})

test('a large event of the history is kept before the next one is read', async () => {
  const seen: string[][] = []
  const fields = '"unique_usage_id":"?","utc_time":"2026-11-17 09:59:00"'
  const harness = await openHistoryHarness({ source: { start: { kind: 'span', ms: 5 * MINUTE } } })
  const look = async () => void seen.push(await harness.ids())
  harness.through(() => Promise.resolve(reply(twoLarge('{"events":[', fields, look, ']}'))))
  await harness.step()
  expect(seen).toEqual([['1']])
  expect(await harness.ids()).toEqual(['1', '2'])
})
