// The pure parts of the journal: what a sink has
// acknowledged, keys of ids, entries on a slab of their own.
import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { decode, encode, pack } from '../../../../src/journal/rules/chunk.ts'
import { writeKey } from '../../../../src/journal/rules/dedup.ts'
import {
  aheadCount,
  nextFree,
  type Acknowledged,
  withAcked,
} from '../../../../src/journal/rules/acknowledgement.ts'
import { COLUMNS, Entries, ID_END, ID_START, VERSION } from '../../../../src/contracts/entries.ts'
import { entriesOf, spec } from '../../../contract/journal-parts.ts'

describe('acknowledged ranges', () => {
  const ranges = fc.array(
    fc.record({ first: fc.integer({ min: 1, max: 40 }), size: fc.integer({ min: 0, max: 6 }) }),
    { maxLength: 12 },
  )

  it('a number is acknowledged if some range had it, in whatever order, and the rest is a gap', () => {
    fc.assert(
      fc.property(ranges, (list) => {
        const all = new Set<number>()
        let acked: Acknowledged = { position: 0, ahead: [] }
        for (const { first, size } of list) {
          acked = withAcked(acked, { first, last: first + size })
          for (let seq = first; seq <= first + size; seq++) all.add(seq)
        }
        const { position, ahead } = acked
        const isAcked = (seq: number) =>
          seq <= position || ahead.some(({ first, last }) => first <= seq && seq <= last)
        for (let seq = 1; seq <= 50; seq++) expect(isAcked(seq)).toBe(all.has(seq))
        expect(isAcked(position + 1)).toBe(false)
        expect(position + aheadCount(acked)).toBe(all.size)
        const gap = nextFree(acked, 1, 50)
        expect(gap.first).toBe(position + 1)
        for (let seq = gap.first; seq <= gap.last; seq++) expect(isAcked(seq)).toBe(false)
        expect(gap.last === 50 || isAcked(gap.last + 1)).toBe(true)
      }),
    )
  })
})

describe('dedup keys', () => {
  const keyOf = (id: string) => {
    const out = Buffer.alloc(20)
    writeKey(Buffer.from(` ${id} `), 1, 1 + id.length, out, 2)
    return out.subarray(2, 18).toString('hex')
  }

  it('a canonical UUID is its own 16 bytes', () => {
    fc.assert(fc.property(fc.uuid(), (id) => keyOf(id) === id.replaceAll('-', '')))
  })

  it('any other id is hashed, however much it looks like a UUID', () => {
    const id = '0123abcd-0000-4000-8000-00000000000f'
    for (const other of [
      id.toUpperCase(),
      id.replaceAll('-', ''),
      id.replace('a', 'g'),
      id.replace('-', '0'),
      `${id}0`,
      '',
    ])
      expect(keyOf(other)).toBe(createHash('sha256').update(other).digest('hex').slice(0, 32))
  })
})

describe('chunks', () => {
  const reported = (entries: Entries, i: number) => [
    ...[
      Buffer.from(entries.raw(i)).toString(),
      entries.id(i),
      entries.time(i),
      entries.at(i),
      entries.type(i),
    ],
  ]

  it('any selection of entries survives encoding and decoding', () => {
    const specs = fc.uniqueArray(fc.nat(99), { minLength: 1, maxLength: 20 })
    fc.assert(
      fc.property(specs, fc.func(fc.boolean()), (numbers, choose) => {
        const entries = entriesOf(numbers.map((n) => spec(n, { type: `t${n % 3}`, body: 'x'.repeat(n) })))
        const picked = Uint32Array.from(numbers.map((_, i) => i).filter((i) => choose(i)))
        const packed = pack(entries, picked, undefined)
        const back = decode(packed.count, encode(packed))
        picked.forEach((index, i) => expect(back && reported(back, i)).toEqual(reported(entries, index)))
      }),
    )
  })

  it('packing a slice leaves out the rest of its slab and keeps ids that were decoded elsewhere', () => {
    const whole = entriesOf([spec(1, { body: 'x'.repeat(9000) }), spec(2), spec(3)])
    const bytes = Buffer.concat([whole.bytes, Buffer.from('decoded id')])
    const columns = whole.columns.slice()
    columns[COLUMNS + ID_START] = whole.bytes.length
    columns[COLUMNS + ID_END] = bytes.length
    const entries = new Entries(bytes, whole.count, columns, whole.times, whole.types)
    const packed = pack(entries.slice(1, 3), undefined, undefined)
    expect(packed.bytes.length).toBe(whole.rawBytes(1) + whole.rawBytes(2) + 'decoded id'.length)
    expect([packed.id(0), packed.id(1)]).toEqual(['decoded id', whole.id(2)])
    expect(reported(packed, 0)).toEqual(reported(entries, 1))
  })

  it('a page of only new entries keeps its slab without a copy', () => {
    const entries = entriesOf([spec(1), spec(2)])
    expect(pack(entries, undefined, undefined)).toBe(entries)
    const changed = pack(entries, undefined, Uint32Array.of(0, 2))
    expect([changed.column(0, VERSION), changed.column(1, VERSION), entries.column(1, VERSION)]).toEqual([
      0, 2, 0,
    ])
  })

  it('columns and counts that do not match are not decoded', () => {
    const pieces = encode(entriesOf([spec(1), spec(2)]))
    expect(decode(3, pieces)).toBeUndefined()
    expect(decode(2, { ...pieces, columns: pieces.columns.subarray(4) })).toBeUndefined()
  })
})
