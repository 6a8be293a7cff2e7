// A slice of entries: views, not copies, that return the same however they are cut.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { Entries } from '../../../src/contracts/entries.ts'
import { entriesOf, someEntries } from '../../fakes/lines.ts'

function reported(entries: Entries) {
  return Array.from({ length: entries.count }, (_, i) => [
    entries.id(i),
    entries.time(i),
    entries.at(i),
    entries.type(i),
    entries.version(i),
    Buffer.from(entries.raw(i)).toString(),
    entries.rawBytes(i),
  ])
}

it('an entry has its id, time, type and bytes as they were written', () => {
  const entries = entriesOf([
    { id: 'a', time: '2026-01-31T12:00:00.000001', type: 'auth:login', raw: '{"zoë":1}', version: 2 },
  ])
  expect(reported(entries)).toEqual([
    [
      'a',
      '2026-01-31T12:00:00.000001',
      Date.UTC(2026, 0, 31, 12) * 1000 + 1,
      'auth:login',
      2,
      '{"zoë":1}',
      10,
    ],
  ])
})

it('a slice and a pick return the same entries as before, and share the bytes', () => {
  const entries = entriesOf(someEntries(12))
  const all = reported(entries)
  fc.assert(
    fc.property(fc.nat(12), fc.nat(12), fc.array(fc.nat(11), { maxLength: 15 }), (a, b, indices) => {
      const [from, to] = [Math.min(a, b), Math.max(a, b)]
      const slice = entries.slice(from, to)
      const pick = entries.pick(indices)
      expect(reported(slice)).toEqual(all.slice(from, to))
      expect(reported(pick)).toEqual(indices.map((index) => all[index]))
      expect([slice.bytes, pick.bytes].every((bytes) => bytes === entries.bytes)).toBe(true)
    }),
  )
})

it('a slice of a slice counts from the slice', () => {
  const entries = entriesOf(someEntries(10))
  expect(reported(entries.slice(2, 8).slice(1, 3))).toEqual(reported(entries).slice(3, 5))
})

it('what does not exist is nothing, not an error', () => {
  expect([Entries.none.count, Entries.none.at(0), Entries.none.type(0), Entries.none.id(0)]).toEqual([
    0,
    NaN,
    '',
    '',
  ])
})

it('the entries between two instants are those that a full scan finds, and all of them are the same object', () => {
  const instant = fc.constantFrom(-Infinity, ...Array.from({ length: 9 }, (_, i) => i), Infinity)
  fc.assert(
    fc.property(fc.array(fc.nat(8), { maxLength: 12 }), instant, instant, (times, fromUs, toUs) => {
      const made = entriesOf(someEntries(times.length))
      const entries = new Entries(made.bytes, made.count, made.columns, Float64Array.from(times), made.types)
      const wanted = reported(entries).filter((_, i) => entries.at(i) >= fromUs && entries.at(i) < toUs)
      const between = entries.between(fromUs, toUs)
      expect(reported(between)).toEqual(wanted)
      if (wanted.length === times.length) expect(between).toBe(entries)
    }),
  )
})
