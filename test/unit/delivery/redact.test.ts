// What a sink may see of an entry: members left out, hashed or cut, every other byte unchanged. Compared with JSON.parse and with a slow rewriting of the text.
import { createHmac } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { redactBy, type Change, type Rule } from '../../../src/delivery/redact.ts'
import { ByteWriter } from '../../../src/core/bytes.ts'
import { readJson } from '../../fakes/json-reader.ts'

const key = Buffer.from('k'.repeat(32))
const hashed = (text: string | Buffer) =>
  `"hmac-sha256:${createHmac('sha256', key).update(text).digest('hex')}"`
const drop: Change = { with: 'drop' }
const hash: Change = { with: 'hash', key }
const truncate = (bytes: number): Change => ({ with: 'truncate', bytes })

/** The entry as it would go out. */
function redacted(json: string, ...rules: Rule[]): string {
  const raw = Buffer.from(json)
  const out = new ByteWriter(8)
  out.text('before')
  const changed = redactBy(rules)(raw, out)
  const text = out.view().toString('utf8', 'before'.length)
  expect(changed ? text : `${text}${json}`).toBe(text === '' ? json : text)
  expect(raw.toString()).toBe(json)
  return changed ? text : json
}

const rule = (change: Change, ...fields: string[]): Rule => ({ fields, change })

describe('drop', () => {
  test.each([
    ['{"q":1}', '{}'],
    ['{ "q" : 1 }', '{}'],
    ['{"q":1,"a":2}', '{"a":2}'],
    ['{"a":2,"q":1}', '{"a":2}'],
    ['{ "a" : 2 , "q":1 , "b":[3] }', '{ "a" : 2 , "b":[3] }'],
    ['{ "q":1 , "a":2 }', '{ "a":2 }'],
    ['{"q":1,"q":2,"a":3,"q":{"q":4},"q":5}', '{"a":3}'],
    ['{"q":1,"q":2}', '{}'],
    ['{"\\u0071":1,"a":2,"\\u0071":3}', '{"a":2}'],
    ['{"a":{"q":1}}', '{"a":{"q":1}}'],
    ['{"Q":1,"q ":2}', '{"Q":1,"q ":2}'],
    ['{}', '{}'],
  ])('%s becomes %s', (json, wanted) => {
    expect(redacted(json, rule(drop, 'q'))).toBe(wanted)
  })
})

describe('hash', () => {
  test('a value becomes the HMAC-SHA-256 of its text under the key, as RFC 4231 has it', () => {
    const rfcKey = Buffer.from('Jefe')
    const out = new ByteWriter()
    redactBy([rule({ with: 'hash', key: rfcKey }, 'query')])(
      Buffer.from('{"query": "what do ya want for nothing?" }'),
      out,
    )
    expect(out.view().toString()).toBe(
      '{"query": "hmac-sha256:5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843" }',
    )
  })

  test('equal texts have equal hashes however they are written, and other keys give other hashes', () => {
    const plain = redacted('{"q":"é\\n😀"}', rule(hash, 'q'))
    expect(redacted('{"\\u0071":"\\u00e9\\u000a\\ud83d\\ude00"}', rule(hash, 'q')).slice(-80)).toBe(
      plain.slice(-80),
    )
    expect(plain).toBe(`{"q":${hashed('é\n😀')}}`)
    const other = redacted('{"q":"é\\n😀"}', rule({ with: 'hash', key: Buffer.from('x'.repeat(32)) }, 'q'))
    expect(other).not.toBe(plain)
  })

  test('a value that is no string is hashed as it is written', () => {
    for (const value of ['12', '1.50', '{ "a": [1, "é"] }', '[]', 'null', 'true'])
      expect(redacted(`{"q": ${value} ,"b":1}`, rule(hash, 'q'))).toBe(`{"q": ${hashed(value)} ,"b":1}`)
  })
})

describe('truncate', () => {
  test.each([
    [5, '"hello"', '"hello"'],
    [4, '"hello"', '"hell…[truncated 1 bytes]"'],
    [0, '"hello"', '"…[truncated 5 bytes]"'],
    [0, '""', '""'],
    [1, '"é"', '"…[truncated 2 bytes]"'],
    [2, '"é"', '"é"'],
    [3, '"aé€"', '"aé…[truncated 3 bytes]"'],
    [5, '"a😀b"', '"a😀…[truncated 1 bytes]"'],
    [4, '"a😀b"', '"a…[truncated 5 bytes]"'],
    [2, '"\\u00e9"', '"\\u00e9"'],
    [1, '"\\n\\"x"', '"\\n…[truncated 2 bytes]"'],
    [2, '"\\n\\"x"', '"\\n\\"…[truncated 1 bytes]"'],
    [3, '"\\ud83d\\ude00"', '"…[truncated 4 bytes]"'],
    [4, '"\\ud83d\\ude00x"', '"\\ud83d\\ude00…[truncated 1 bytes]"'],
    [3, '"\\ud83dx"', '"\\ud83d…[truncated 1 bytes]"'],
    [3, '"\\ude00\\ud83d"', '"\\ude00…[truncated 3 bytes]"'],
    [3, '"\\ud83d\\u0041"', '"\\ud83d…[truncated 1 bytes]"'],
    [3, '"\\udc00\\udc00"', '"\\udc00…[truncated 3 bytes]"'],
    [3, '12345', '"123…[truncated 2 bytes]"'],
    [5, '12345', '12345'],
    [6, '{"a":"é"}', '"{\\"a\\":\\"…[truncated 4 bytes]"'],
    [7, '{"a":"é"}', '"{\\"a\\":\\"…[truncated 4 bytes]"'],
    [3, 'null', '"nul…[truncated 1 bytes]"'],
  ])('%i bytes of %s: %s', (bytes, value, wanted) => {
    expect(redacted(`{"a":1,"q":${value}, "z":2}`, rule(truncate(bytes), 'q'))).toBe(
      `{"a":1,"q":${wanted}, "z":2}`,
    )
  })
})

test('an entry without any of the fields is not touched', () => {
  const out = new ByteWriter()
  expect(redactBy([rule(drop, 'query', 'response')])(Buffer.from('{"a":1}'), out)).toBe(false)
  expect(out.length).toBe(0)
})

test('names with escapes, quotes and any letters are found, and similar names are not', () => {
  for (const name of ['a\\b', '"', '😀', 'Client Matter #', 'é\n', '', '\\u0071']) {
    const unicode = Array.from({ length: name.length }, (_, i) =>
      name.charCodeAt(i).toString(16).padStart(4, '0'),
    )
    for (const written of [JSON.stringify(name), `"${unicode.map((unit) => `\\u${unit}`).join('')}"`])
      expect(redacted(`{${written}:1}`, rule(drop, name))).toBe('{}')
  }
  expect(redacted('{"a\\b":1}', rule(drop, 'a\\b'))).toBe('{"a\\b":1}')
})

test('many members of one name, each cut, take no longer than the entry is long', () => {
  const many = Array.from({ length: 100_000 }, () => '"q":"xxxxxxxx"').join(',')
  const startedAt = performance.now()
  expect(redacted(`{${many}}`, rule(truncate(2), 'q')).match(/…\[truncated 6 bytes\]/g)).toHaveLength(100_000)
  expect(performance.now() - startedAt).toBeLessThan(5_000)
})

const space = fc.constantFrom('', '', ' ', '\t ', '   ')
const anyText = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 12 }),
  fc.constantFrom(
    '"',
    '\\',
    '},{"',
    'é€😀',
    '\\"'.repeat(40),
    'x'.repeat(80),
    '😀'.repeat(20),
    '\u0000\u001f',
  ),
)
const escapedWhole = (text: string) =>
  `"${Array.from({ length: text.length }, (_, i) => `\\u${text.charCodeAt(i).toString(16).padStart(4, '0')}`).join('')}"`
const writtenOf = (text: string) => fc.constantFrom(JSON.stringify(text), escapedWhole(text))
const value = fc.oneof(
  anyText.chain(writtenOf),
  fc.json({ maxDepth: 3 }),
  fc.constantFrom('0', '-1.5e+300', '12345678901234567890', 'true', 'null', '[ 1 , {"query":2} ]'),
)
const named = fc.oneof(
  fc.constantFrom('query', 'response', 'cm_id', 'user', 'metadata'),
  fc.string({ maxLength: 4 }),
)
const member = fc.record({
  name: named.chain((name) => writtenOf(name).map((written) => ({ name, written }))),
  value,
  gaps: fc.tuple(space, space, space, space),
})
const change = fc.oneof(
  fc.constant(drop),
  fc.constant(hash),
  fc.integer({ min: 0, max: 90 }).map((bytes) => truncate(bytes)),
)
const rules = fc
  .uniqueArray(named, { minLength: 1, maxLength: 5 })
  .chain((names) => fc.tuple(...names.map((name) => change.map((one) => rule(one, name)))))

/** One character as it is written: a pair of escapes, an escape, or itself. */
const unit = /\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|[^]/gu

function slowTruncate(written: string, bytes: number): string {
  const isText = written.startsWith('"')
  const units = isText ? (written.slice(1, -1).match(unit) ?? []) : Array.from(written)
  const size = (one: string) => Buffer.byteLength(isText ? (JSON.parse(`"${one}"`) as string) : one)
  const whole = units.reduce((sum, one) => sum + size(one), 0)
  if (whole <= bytes) return written
  let kept = 0
  let count = 0
  while (kept + size(units[count] ?? '') <= bytes) kept += size(units[count++] ?? '')
  const stays = units.slice(0, count).join('')
  return `"${isText ? stays : JSON.stringify(stays).slice(1, -1)}…[truncated ${whole - kept} bytes]"`
}

function slowValue(change: Change, written: string): string | undefined {
  if (change.with === 'drop') return undefined
  if (change.with === 'truncate') return slowTruncate(written, change.bytes)
  return hashed(written.startsWith('"') ? Buffer.from(JSON.parse(written) as string) : written)
}

describe('any entry under any rules', () => {
  test('is rewritten as a slow rewriting of its text does it: duplicates, escapes and white space included', () => {
    fc.assert(
      fc.property(fc.array(member, { maxLength: 10 }), rules, (members, under) => {
        // Half of a pair is no UTF-8: an entry has it only as an escape.
        fc.pre(members.every(({ name, value }) => (name.written + value).isWellFormed()))
        const write = (of: typeof members) =>
          `{${of.map(({ name, value, gaps: [a, b, c, d] }) => `${a}${name.written}${b}:${c}${value}${d}`).join(',')}}`
        const wanted = members.flatMap((one) => {
          const found = under.find(({ fields }) => fields.includes(one.name.name))
          const value = found ? slowValue(found.change, one.value) : one.value
          return value === undefined ? [] : [{ ...one, value }]
        })
        expect(redacted(write(members), ...under)).toBe(write(wanted))
      }),
      { numRuns: 2000 },
    )
  })

  test('parses to the original with only the named members changed', () => {
    const plain = fc.dictionary(
      fc.oneof(fc.constantFrom('query', 'response', 'user'), fc.string({ unit: 'grapheme', maxLength: 5 })),
      fc.jsonValue({ maxDepth: 3 }),
      { maxKeys: 8 },
    )
    fc.assert(
      fc.property(plain, rules, (entry, under) => {
        const json = JSON.stringify(entry)
        fc.pre(json.isWellFormed() && !json.includes('"__proto__"'))
        const before = JSON.parse(json) as Record<string, unknown>
        const after = JSON.parse(redacted(json, ...under)) as Record<string, unknown>
        readJson(redacted(json, ...under))
        const ruled = new Map(under.map(({ fields: [field = ''], change }) => [field, change]))
        for (const [field, value] of Object.entries(before)) {
          const change = ruled.get(field)
          if (!change) expect(after[field]).toEqual(value)
          else if (change.with === 'drop') expect(field in after).toBe(false)
          else if (change.with === 'hash') expect(after[field]).toMatch(/^hmac-sha256:[0-9a-f]{64}$/)
          else if (after[field] !== value && typeof value === 'string') {
            const kept = String(after[field]).replace(/…\[truncated \d+ bytes\]$/, '')
            expect(value.startsWith(kept) && Buffer.byteLength(kept) <= change.bytes).toBe(true)
          }
        }
        expect(Object.keys(after)).toEqual(
          Object.keys(before).filter((field) => ruled.get(field)?.with !== 'drop'),
        )
      }),
      { numRuns: 1000 },
    )
  })
})
