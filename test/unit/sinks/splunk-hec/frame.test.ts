// An entry as Splunk’s collector takes it.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Format } from '../../../../src/contracts/sink.ts'
import { epochSeconds } from '../../../../src/core/time.ts'
import { ByteWriter } from '../../../../src/core/bytes.ts'
import { type FrameOptions, hecFrame } from '../../../../src/sinks/splunk-hec/body.ts'
import { entriesOf, type MadeEntry, rawFormat, runOf } from '../../../fakes/lines.ts'
import { Entries } from '../../../../src/contracts/entries.ts'

const hostOf = (workspace: string) => `${workspace}.example.com`

function framed(
  entry: MadeEntry,
  options: Partial<FrameOptions> = {},
  more = {},
  format = rawFormat,
): string {
  const out = new ByteWriter(8)
  hecFrame({ hostOf, ...options })(runOf([entry], more), 0, out, format)
  return out.view().toString()
}

test('an event has the raw entry byte for byte, time to the microsecond, and flat fields', () => {
  const raw = '{"id":"a-1", "n":1.50,"big":12345678901234567890}'
  expect(framed({ id: 'a-1', time: '2026-11-21T10:00:00.000001', raw })).toBe(
    '{"time":1795255200.000001,"host":"acme.example.com","source":"auditferry:acme",' +
      `"sourcetype":"auditferry:audit","event":${raw},` +
      '"fields":{"workspace":"acme","auditferry_source":"audit","entry_id":"a-1"}}',
  )
})

test('the options are in every event', () => {
  const line = framed({ id: 'a' }, { index: 'main', source: 's"1', sourcetype: 't', host: 'h' })
  expect(line).toContain(',"host":"h","source":"s\\"1","sourcetype":"t","index":"main","event":{')
})

test('a version and a replay are fields', () => {
  expect(framed({ id: 'a', version: 2 }, {}, { replay: true })).toContain(
    '"entry_id":"a","version":2,"replay":true}}',
  )
})

test('a line of another format than JSON is a JSON string', () => {
  const line = 'CEF:0|x|"quoted"\t\\ zoë'
  const format: Format = (_run, _index, out) => out.text(line)
  const event = (JSON.parse(framed({ id: 'a' }, {}, {}, format)) as { event: unknown }).event
  expect(event).toBe(line)
})

test('any instant is written as epochSeconds writes it', () => {
  const edges = [
    -1,
    -500_000,
    -1_500_000,
    0,
    1,
    999_999,
    1_000_000,
    1e9 * 1e6 - 1,
    1e9 * 1e6,
    9999999999999999,
    253402300799999999,
  ]
  const out = new ByteWriter(8)
  const frame = hecFrame({ hostOf })
  const timed = (us: number) => {
    const { bytes, columns, types } = entriesOf([{ id: 'a' }])
    const entries = new Entries(bytes, 1, columns, Float64Array.of(us), types)
    out.clear()
    frame(runOf([], { entries }), 0, out, rawFormat)
    return /^\{"time":(-?[\d.]+),/.exec(out.view().toString())?.[1]
  }
  for (const us of edges) expect(timed(us)).toBe(epochSeconds(us))
  fc.assert(
    fc.property(fc.maxSafeInteger(), (us) => {
      expect(timed(us)).toBe(epochSeconds(us))
    }),
  )
  expect(timed(NaN)).toBeUndefined()
})

test('any id stays inside its field', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 20 }), (text) => {
      const id = text.toWellFormed()
      const event = JSON.parse(framed({ id, raw: '{}' })) as { fields: Record<string, string> }
      expect(event.fields['entry_id']).toBe(id)
      expect(Object.keys(event)).toEqual(['time', 'host', 'source', 'sourcetype', 'event', 'fields'])
    }),
  )
})
