// What the formats have in common, and the two that keep the entry’s bytes.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { formatNamed, formatNames, type FormatName } from '../../../src/formats/index.ts'
import type { ChunkSlice } from '../../../src/contracts/journal.ts'
import { ByteWriter } from '../../../src/core/bytes.ts'
import { runOf } from '../../fakes/lines.ts'

function lineOf(name: FormatName, run: ChunkSlice, index = 0): string {
  const out = new ByteWriter(4)
  formatNamed(name)(run, index, out)
  return out.view().toString('utf8')
}

test('raw is the entry byte for byte, white space and big numbers and all', () => {
  const raw = '{ "id":"a",\t"n":12345678901234567890123, "n":1e400,"s":"\\u00e9\\/é" }'
  expect(lineOf('raw', runOf([{ id: 'x' }, { id: 'a', raw }]), 1)).toBe(raw)
})

test('an envelope has workspace, source, id, time and ingested_at in this order, then the raw entry', () => {
  const run = runOf([{ id: 'a-1', time: '2026-11-21T10:00:00.123456', raw: '{"id":"a-1", "n":1.50}' }])
  expect(lineOf('envelope', run)).toBe(
    '{"workspace":"acme","source":"audit","id":"a-1","time":"2026-11-21T10:00:00.123456",' +
      '"ingested_at":"2026-11-21T10:00:01.005Z","entry":{"id":"a-1", "n":1.50}}',
  )
})

test('an envelope has a version from 2 on, and a replay', () => {
  const made = [{ id: 'a', version: 0 }, { id: 'a', version: 3 }] // prettier-ignore
  const [first, third] = [
    lineOf('envelope', runOf(made)),
    lineOf('envelope', runOf(made, { replay: true }), 1),
  ]
  expect(first).not.toMatch(/"version"|"replay"/)
  expect(third).toContain('Z","version":3,"replay":true,"entry":{')
})

test('one envelope format serves chunks of several streams and instants', () => {
  const out = new ByteWriter()
  const format = formatNamed('envelope')
  const slices = [
    runOf([{ id: 'a' }]),
    runOf([{ id: 'b' }], { stream: { workspace: 'other', source: 'history.usage' }, appendedAt: 0 }),
  ]
  const lines = [...slices, ...slices].map((run) => {
    out.clear()
    format(run, 0, out)
    const { workspace, source, ingested_at } = JSON.parse(out.view().toString()) as Record<string, string>
    return [workspace, source, ingested_at].join(' ')
  })
  expect(lines[1]).toBe('other history.usage 1970-01-01T00:00:00.000Z')
  expect(lines[2]).toBe(lines[0])
})

test('any id survives an envelope, and the line stays one line', () => {
  const text = fc.string({ unit: 'binary', maxLength: 30 }).map((each) => each.toWellFormed())
  fc.assert(
    fc.property(text, fc.string({ unit: 'binary', maxLength: 20 }), (id, more) => {
      const time = more.toWellFormed()
      const line = lineOf('envelope', runOf([{ id, time, raw: '{}' }]))
      const parsed = JSON.parse(line) as Record<string, unknown>
      expect([parsed['id'], parsed['time'], parsed['entry']]).toEqual([id, time, {}])
      expect(line).not.toMatch(/[\n\r]/)
    }),
  )
})

test('every format is named once', () => {
  expect(formatNames).toEqual(['raw', 'envelope', 'cef', 'leef'])
})
