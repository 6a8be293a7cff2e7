// The splitter against JSON.parse, on generated bodies.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseInstantText } from '../../../../src/core/time.ts'
import { entry, everyByte, splitAll, splitOurs } from './splitter-fixtures.ts'

const slices = { numRuns: 300 }
const space = fc.constantFrom('', '', '', ' ', '\n', '\t', '\r\n', '  ')

/** A string as JSON may write it: any character plain or escaped, lone surrogates too. */
const written = (text: fc.Arbitrary<string>) =>
  fc.tuple(text, fc.infiniteStream(fc.nat(5))).map(([value, dice]) => {
    const units = Array.from({ length: value.length }, (_, i) => value[i] ?? '')
    const escape = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
    const plain = (unit: string) =>
      /[\ud800-\udfff]/.test(unit) ? escape(unit) : JSON.stringify(unit).slice(1, -1)
    return `"${units.map((unit) => (dice.next().value === 0 ? escape(unit) : plain(unit))).join('')}"`
  })

const texts = fc.oneof(
  fc.string(),
  fc.string({ unit: 'grapheme' }),
  fc.constantFrom('id', 'timestamp', 'type', '__proto__', '\ud800', 'x'.repeat(200)),
)
const key = written(fc.oneof(fc.constantFrom('id', 'timestamp', 'type', '__proto__', 'data'), texts))
const stamp = fc.constantFrom(
  '2026-11-20T10:00:00.000001',
  '2025-02-28 00:00:00',
  '2026-02-30T00:00:00',
  'soon',
)
const number = fc.oneof(
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((n) => JSON.stringify(n)),
  fc.constantFrom('-0', '0', '12345678901234567890', '1E+5', '-1.50e-007', '1e999'),
)

const { value } = fc.letrec<{ value: string; list: string; object: string }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    written(fc.oneof(texts, stamp)),
    number,
    fc.constantFrom('true', 'false', 'null'),
    tie('list'),
    tie('object'),
  ),
  list: fc.array(fc.tuple(space, tie('value'), space), { maxLength: 4 }).map((items) => {
    return `[${items.map((item) => item.join('')).join(',')}${items.length === 0 ? ' ' : ''}]`
  }),
  object: fc
    .array(fc.tuple(space, key, space, space, tie('value'), space), { maxLength: 6 })
    .map((members) => `{${members.map(([a, k, b, c, v, d]) => `${a}${k}${b}:${c}${v}${d}`).join(',')}}`),
}))

/** Mostly entries: an id, a time and a type among any other members, in any order. */
const element = fc.oneof(
  { weight: 1, arbitrary: value },
  {
    weight: 4,
    arbitrary: fc
      .tuple(
        written(fc.string({ unit: 'grapheme', minLength: 1 })),
        written(stamp),
        written(texts),
        fc.array(fc.tuple(space, key, space, value), { maxLength: 4 }),
        fc.infiniteStream(fc.nat()),
      )
      .map(([id, time, type, members, dice]) => {
        const all = [
          `"id":${id}`,
          `"timestamp" : ${time}`,
          `"type":${type}`,
          ...members.map(([a, k, b, v]) => `${a}${k}${b}:${v}`),
        ].map((text) => ({ text, order: Number(dice.next().value) }))
        return `{${all
          .sort((a, b) => a.order - b.order)
          .map(({ text }) => text)
          .join(',')}}`
      }),
  },
)

const body = fc
  .tuple(space, fc.array(fc.tuple(space, element, space), { maxLength: 6 }), space)
  .map(([before, items, after]) => ({
    text: `${before}[${items.map((item) => item.join('')).join(',')}]${after}`,
    elements: items.map((item) => item[1]),
  }))

const cutsOf = (bytes: Uint8Array, fractions: number[]) =>
  fractions.map((fraction) => Math.floor(fraction * bytes.length)).sort((a, b) => a - b)
const fractions = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 8 })

function isEntry(parsed: unknown): parsed is Record<string, unknown> {
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) return false
  const { id, timestamp } = parsed as Record<string, unknown>
  return (
    typeof id === 'string' &&
    id !== '' &&
    typeof timestamp === 'string' &&
    !Number.isNaN(parseInstantText(timestamp))
  )
}

function accepts(text: string): boolean {
  try {
    return Array.isArray(JSON.parse(text))
  } catch {
    return false
  }
}

describe('compared with JSON.parse', () => {
  test('ids, times, types and raw bytes are what JSON.parse returns, whatever the cut', () => {
    fc.assert(
      fc.property(body, fractions, fc.boolean(), ({ text, elements }, parts, wrapped) => {
        const whole = wrapped ? `{"x":${elements[0] ?? '1'},"events":${text},"y":[]}` : text
        const bytes = Buffer.from(whole)
        const more = wrapped ? { arrayKey: 'events' } : {}
        const good = elements.filter((raw) => isEntry(JSON.parse(raw)))
        const bad = elements.filter((raw) => !isEntry(JSON.parse(raw)))
        for (const cuts of [[], cutsOf(bytes, parts), everyByte(bytes)]) {
          const { entries, quarantined, error } = splitAll(bytes, more, cuts)
          expect(error).toBeUndefined()
          expect(entries.map((e) => e.raw)).toEqual(good.map((raw) => raw.replace(/[\r\n]/g, '')))
          expect(quarantined.map((q) => Buffer.from(q.bytes).toString()).sort()).toEqual(bad.toSorted())
          entries.forEach((e, i) => {
            const parsed = JSON.parse(good[i] ?? '') as Record<string, unknown>
            expect(JSON.parse(e.raw)).toEqual(parsed)
            const id = parsed['id'] as string
            if (id.isWellFormed()) expect(e.id).toBe(id)
            expect(e.time).toBe(parsed['timestamp'])
            expect(e.at).toBe(parseInstantText(e.time))
            const type = typeof parsed['type'] === 'string' ? parsed['type'] : ''
            expect(e.type).toBe(type.toWellFormed())
          })
        }
      }),
      slices,
    )
  })

  test('a body in one buffer gives the same entries, each decoded text in the spare bytes behind it', () => {
    fc.assert(
      fc.property(body, fc.integer({ min: 1, max: 4 }), ({ text }, maxEntriesPerGroup) => {
        const bytes = Buffer.from(text)
        const { entries } = splitAll(bytes)
        expect(splitOurs(bytes, { maxEntriesPerGroup })).toEqual(entries)
      }),
      slices,
    )
  })

  test('if the spare bytes behind a body are too few, decoded texts take a copy', () => {
    const id = `\\u0041${'x'.repeat(900)}`
    const page = Array.from({ length: 12 }, (_, i) => entry(`${id}${i}`)).join(',')
    const wanted = splitAll(`[${page}]`).entries
    expect(wanted[11]?.id).toBe(`A${'x'.repeat(900)}11`)
    for (const maxEntriesPerGroup of [1, 3, 5, 12])
      expect(splitOurs(Buffer.from(`[${page}]`), { maxEntriesPerGroup })).toEqual(wanted)
  })

  test('a damaged body is accepted exactly when JSON.parse accepts it', () => {
    const replacement = fc.oneof(
      fc.string({
        unit: fc.constantFrom(
          '[',
          ']',
          '{',
          '}',
          ',',
          ':',
          '"',
          '\\',
          '-',
          '.',
          'e',
          '0',
          '1',
          't',
          '\n',
          '\u0000',
          '\u001f',
          'u',
        ),
        minLength: 1,
        maxLength: 1,
      }),
      fc.integer({ min: 0, max: 127 }).map((code) => String.fromCharCode(code)),
    )
    const damage = fc.record({
      at: fc.double({ min: 0, max: 1, noNaN: true }),
      cut: fc.nat(2),
      put: fc.array(replacement, { maxLength: 2 }),
    })
    fc.assert(
      fc.property(
        body,
        fc.array(damage, { minLength: 1, maxLength: 3 }),
        fractions,
        (page, damages, parts) => {
          let { text } = page
          for (const { at, cut, put } of damages) {
            const index = Math.floor(at * text.length)
            text = text.slice(0, index) + put.join('') + text.slice(index + cut)
          }
          if (!text.isWellFormed()) return
          const bytes = Buffer.from(text)
          const wanted = accepts(text)
          for (const cuts of [[], cutsOf(bytes, parts), everyByte(bytes)])
            expect(splitAll(bytes, {}, cuts).error === undefined).toBe(wanted)
        },
      ),
      { numRuns: 1500 },
    )
  })

  test('every single byte of an entry may be replaced by every byte of ASCII', () => {
    const text = `[${entry('a', ',"n":[-1.5e3,true,{"x":"\\u00e9\\\\"}], "z":null')}]`
    for (let i = 0; i < text.length; i++)
      for (let code = 0; code < 128; code++) {
        const damaged = text.slice(0, i) + String.fromCharCode(code) + text.slice(i + 1)
        if ((splitAll(damaged).error === undefined) !== accepts(damaged))
          expect.fail(`byte ${i} replaced by ${code}`)
      }
  })

  test('any bytes at all neither hang nor throw anything but bad_reply', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
        const { error } = splitAll(bytes, {}, everyByte(bytes))
        if (error !== undefined) expect(error).toMatchObject({ code: 'bad_reply' })
      }),
      slices,
    )
  })

  test('one element with invalid UTF-8 is the only one missing', () => {
    fc.assert(
      fc.property(fc.nat(4), fc.nat(30), fc.integer({ min: 0x80, max: 0xff }), (which, where, byte) => {
        const texts = Array.from({ length: 5 }, (_, i) =>
          Buffer.from(entry(`id-${i}`, `,"x":"${'x'.repeat(31)}"`)),
        )
        const victim = texts[which] ?? Buffer.alloc(0)
        victim[victim.length - 3 - where] = byte
        const joined = Buffer.concat(
          texts.flatMap((text, i) => (i === 0 ? [text] : [Buffer.from(','), text])),
        )
        const { entries, quarantined } = splitAll(Buffer.concat([Buffer.from('['), joined, Buffer.from(']')]))
        expect(entries.map((e) => e.id)).toEqual(
          [0, 1, 2, 3, 4].filter((i) => i !== which).map((i) => `id-${i}`),
        )
        expect(quarantined.map((q) => q.reason)).toEqual(['invalid_utf8'])
        expect(Buffer.from(quarantined[0]?.bytes ?? [])).toEqual(victim)
      }),
      slices,
    )
  })
})
