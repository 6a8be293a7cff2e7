// An entry as a syslog message, and what separates messages on a stream.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { ChunkSlice } from '../../../../src/contracts/journal.ts'
import type { Format } from '../../../../src/contracts/sink.ts'
import { ByteWriter } from '../../../../src/core/bytes.ts'
import { messagesIn, syslogFrame } from '../../../../src/sinks/syslog/frame.ts'
import type { HeaderOptions } from '../../../../src/sinks/syslog/header.ts'
import { linesOf, type MadeEntry, rawFormat, runOf } from '../../../fakes/lines.ts'
import { framesOf, type Message, parse3164, parse5424 } from '../../../fakes/syslog-parser.ts'

const plain: HeaderOptions = {
  rfc: 5424,
  facility: 'local0',
  app_name: 'auditferry',
  hostname: undefined,
  enterprise_id: 32473,
  max_message_bytes: 8192,
  oversize: 'split',
  hostOf: () => 'api.example.com',
}
const id = '018f3a4e-0000-4000-8000-000000000001'
const textFormat =
  (text: string | Uint8Array): Format =>
  (_run, _index, out) =>
    out.copy(Buffer.from(text))

function linesWith(
  options: Partial<HeaderOptions>,
  made: readonly MadeEntry[],
  format = rawFormat,
  more: object = {},
) {
  return linesOf(runOf(made, more), syslogFrame({ ...plain, ...options }), format)
}

function messagesWith(options: Partial<HeaderOptions>, entry: MadeEntry, format?: Format): Message[] {
  const { bytes } = linesWith(options, [entry], format)
  return framesOf(Buffer.from(bytes)).map(options.rfc === 3164 ? parse3164 : parse5424)
}

const whole = (options: Partial<HeaderOptions>, entry: MadeEntry, format?: Format): Message => {
  const [message, ...more] = messagesWith(options, entry, format)
  expect(more.map(({ text }) => text.toString())).toEqual([])
  return message as Message
}
const large = (bytes: number, more: object = {}) =>
  JSON.stringify({ id, timestamp: '2026-11-21T10:00:00.123456', ...more, response: 'x'.repeat(bytes) })

describe('RFC 5424', () => {
  test('a message is the entry as it came, behind its own time to the microsecond and its identifiers', () => {
    const raw = `{"id":"${id}", "note":"zoë 😀"}`
    const entry = { id, raw, time: '2026-11-21T10:00:00.000007', version: 2 }
    const { bytes } = linesWith({}, [entry], rawFormat, { replay: true })
    const head = `<133>1 2026-11-21T10:00:00.000007Z api.example.com auditferry - audit [auditferry@32473 workspace="acme" source="audit" id="${id}" replay="true" version="2"] `
    expect(Buffer.from(bytes).toString()).toBe(`${Buffer.byteLength(head + raw)} ${head}${raw}`)
  })

  test('options name the facility, the application, the host and the enterprise', () => {
    const given = { facility: 'audit', app_name: 'wörk space', hostname: 'h ä', enterprise_id: 9 } as const
    expect(whole(given, { id })).toMatchObject({
      ...{ facility: 13, severity: 5, appName: 'w_rk_space', hostname: 'h__' },
      data: { '': 'auditferry@9' },
    })
  })

  test('no name of the configuration can end the structured data', () => {
    const stream = { workspace: 'a"] b', source: 'c\\"' } as unknown as ChunkSlice['stream']
    const [frame] = framesOf(Buffer.from(linesWith({}, [{ id }], rawFormat, { stream }).bytes))
    expect(parse5424(frame ?? Buffer.alloc(0)).data).toMatchObject({ workspace: 'a___b', source: 'c__', id })
  })

  test.each([
    ['i'.repeat(128), 'i'.repeat(128)],
    ['i'.repeat(129), 'i'.repeat(128)],
    [`i${'é'.repeat(64)}`, `i${'é'.repeat(63)}`],
    [`i${'😀'.repeat(32)}`, `i${'😀'.repeat(31)}`],
    ['a\u0000b\u001fc\u007fd e', 'a_b_c_d e'],
  ])(
    'of an id at most 128 bytes are in the header, no half character and no control character',
    (own, reported) => {
      const { data, text } = whole({}, { id: own, raw: JSON.stringify({ id: own }) })
      expect(data['id']).toBe(reported)
      expect(JSON.parse(text.toString())).toEqual({ id: own })
    },
  )

  test('header fields are cut to what the RFC allows', () => {
    const long = 'n'.repeat(1000)
    const { hostname, appName } = whole({ hostname: long, app_name: long }, { id })
    expect([hostname.length, appName.length]).toEqual([255, 48])
  })

  test('a time outside four digits of year is nil', () => {
    for (const time of ['no time', '0000-00-00T00:00:00'])
      expect(whole({}, { id, time, raw: '{}' }).time).toBe('-')
  })

  test.each([
    ['1969-12-31T23:59:59.999999', '1969-12-31T23:59:59.999999Z'],
    ['2199-12-31T23:59:59.999999', '2199-12-31T23:59:59.999999Z'],
    ['9999-12-31T23:59:59', '9999-12-31T23:59:59.000000Z'],
    ['2026-11-21T12:00:00.5+02:00', '2026-11-21T10:00:00.500000Z'],
  ])('the time %s is written as %s', (time, reported) => {
    expect(whole({}, { id, time }).time).toBe(reported)
  })

  test('many entries of one chunk share what they share and nothing else', () => {
    const made = Array.from({ length: 200 }, (_, i) => ({
      id: `id-${i}`,
      time: new Date(Date.UTC(2026, 10, 21, 10, 0, i * 7, i)).toISOString(),
    }))
    const { bytes } = linesWith({}, made)
    const parsed = framesOf(Buffer.from(bytes)).map(parse5424)
    expect(parsed.map(({ data }) => data['id'])).toEqual(made.map((each) => each.id))
    expect(parsed.map(({ time }) => Date.parse(time))).toEqual(made.map(({ time }) => Date.parse(time)))
  })
})

describe('RFC 3164', () => {
  test('the time is in UTC with a padded day, the tag is made of safe characters', () => {
    const entry = { id, raw: '{}', time: '2026-11-01T09:05:03.999999' }
    const { bytes } = linesWith({ rfc: 3164, app_name: 'my app:[1]' }, [entry])
    expect(Buffer.from(bytes).toString()).toBe('51 <133>Nov  1 09:05:03 api.example.com my_app__1_: {}')
  })

  test('an IPv6 address is no host there, since a colon ends it: the workspace’s name replaces it', () => {
    const hostOf = () => '2001:db8::1'
    const { bytes } = linesWith({ rfc: 3164, hostOf }, [{ id, raw: '{}', time: '2026-11-01T09:05:03' }])
    expect(Buffer.from(bytes).toString()).toContain('Nov  1 09:05:03 acme auditferry: {}')
    expect(whole({ hostOf }, { id, raw: '{}' }).hostname).toBe('2001:db8::1')
  })

  test('an entry without a time has the time at which it came in', () => {
    expect(whole({ rfc: 3164 }, { id, time: 'never', raw: '{}' }).time).toBe('Nov 21 10:00:01')
  })

  test('parts of an entry are marked in the text', () => {
    const raw = large(3000)
    const parts = messagesWith({ rfc: 3164, max_message_bytes: 1024 }, { id, raw })
    const marked = parts.map(({ text }) => /^\[part (\d)\/(\d) id=(\S+)\] (.*)$/.exec(text.toString()))
    expect(marked.map((each) => each?.slice(1, 4))).toEqual(
      parts.map((_, i) => [`${i + 1}`, `${parts.length}`, id]),
    )
    expect(marked.map((each) => each?.[4]).join('')).toBe(raw)
  })
})

describe('a line in CEF', () => {
  test.each([
    ['0', 6],
    ['3', 6],
    ['5', 5],
    ['8', 4],
    ['10', 2],
    ['11', 5],
    ['High', 5],
    ['', 5],
  ])('with severity %s goes out with severity %d', (cef, severity) => {
    const line = `CEF:0|v\\|1|p|1|class|a \\\\|${cef}|msg=x|9|`
    expect(whole({}, { id }, textFormat(line)).severity).toBe(severity)
  })

  test('no other line decides its own severity', () => {
    for (const line of ['{"a":"CEF:0|v|p|1|c|n|10|"}', ' CEF:0|v|p|1|c|n|10|', 'CEF:0|v|p|1|c|n|10'])
      expect(whole({}, { id }, textFormat(line)).severity).toBe(5)
  })
})

describe('an entry that is too large', () => {
  test('is split into numbered parts with its id, which together are the entry', () => {
    const raw = large(30_000)
    const parts = messagesWith({ max_message_bytes: 1024 }, { id, raw })
    expect(parts.map(({ data }) => data['part'])).toEqual(parts.map((_, i) => `${i + 1}/${parts.length}`))
    expect(new Set(parts.map(({ data }) => data['id']))).toEqual(new Set([id]))
    expect(Buffer.concat(parts.map(({ text }) => text)).toString()).toBe(raw)
  })

  test('the limit counts final bytes: one byte less and it is split', () => {
    const raw = large(2000)
    const [frame] = framesOf(Buffer.from(linesWith({}, [{ id, raw }]).bytes))
    const size = frame?.length ?? 0
    expect(messagesWith({ max_message_bytes: size }, { id, raw })).toHaveLength(1)
    expect(messagesWith({ max_message_bytes: size - 1 }, { id, raw })).toHaveLength(2)
  })

  test('loses its largest fields under compact, and names them', () => {
    const raw = large(9000, { prompt: 'y'.repeat(100) })
    const { data, text } = whole({ oversize: 'compact', max_message_bytes: 2048 }, { id, raw })
    expect(data).toMatchObject({ id })
    expect(JSON.parse(text.toString())).toMatchObject({
      ...{ id, prompt: 'y'.repeat(100) },
      auditferry_dropped: [{ field: 'response' }],
    })
  })

  test('is compacted inside another format too, though that grows with it', () => {
    const twice: Format = ({ entries }, index, out) => {
      out.copy(entries.raw(index))
      out.copy(entries.raw(index))
    }
    const raw = JSON.stringify({
      id,
      ...Object.fromEntries(Array.from({ length: 8 }, (_, i) => [`f${i}`, 'z'.repeat(300)])),
    })
    const { text } = whole({ oversize: 'compact', max_message_bytes: 1500 }, { id, raw }, twice)
    expect(text.toString()).toContain('auditferry_dropped')
  })

  test('whose headers would exceed its content, 64 MiB and more of messages, becomes a dead letter: that much is never in memory', () => {
    const options = { max_message_bytes: 480, hostname: 'h'.repeat(200) }
    const sizeOf = (bytes: number) => linesWith(options, [{ id }], textFormat('x'.repeat(bytes))).bytes.length
    expect(sizeOf(100_000)).toBeGreaterThan(400_000)
    expect(sizeOf(16 * 2 ** 20)).toBe(0)
  })

  test('is split if leaving out fields is not enough', () => {
    const raw = JSON.stringify({ id: 'i'.repeat(5000) })
    const parts = messagesWith({ oversize: 'compact', max_message_bytes: 1024 }, { id, raw })
    expect(Buffer.concat(parts.map(({ text }) => text)).toString()).toBe(raw)
  })

  test('writes nothing under dead_letter; entries that fit beside it are sent', () => {
    const made = [{ id: 'a' }, { id, raw: large(9000) }, { id: 'c' }]
    const { bytes, ends } = linesWith({ oversize: 'dead_letter' }, made)
    expect(ends[1]).toBe(ends[0])
    expect(framesOf(Buffer.from(bytes)).map((frame) => parse5424(frame).data['id'])).toEqual(['a', 'c'])
  })

  test('writes nothing if the header alone leaves no room', () => {
    const options = { hostname: 'h'.repeat(255), max_message_bytes: 480 }
    expect(linesWith(options, [{ id, raw: large(9000) }]).bytes).toHaveLength(0)
  })

  test('in many parts takes no more memory than they need', () => {
    const out = new ByteWriter(256)
    const frame = syslogFrame({ ...plain, hostname: 'h'.repeat(200), max_message_bytes: 480 })
    frame(runOf([{ id, raw: large(1_100_000) }]), 0, out, rawFormat)
    expect(out.length).toBeGreaterThan(4_000_000)
    expect(out.bytes.length).toBeLessThan(out.length * 1.02)
  })

  test('has no control character under compact either', () => {
    const padded: Format = (run, index, out) => {
      out.copy(Buffer.from('\n<13>1 forged\r\0\x1b '))
      out.copy(run.entries.raw(index))
    }
    const options = { oversize: 'compact', max_message_bytes: 2048 } as const
    const { text } = whole(options, { id, raw: large(9000) }, padded)
    expect(text.toString()).toMatch(/^ <13>1 forged {4}\{.*auditferry_dropped.*\}$/)
  })

  test('leaves nothing of its size behind in the next', () => {
    const frame = syslogFrame(plain)
    const small = runOf([{ id }])
    const before = linesOf(small, frame).bytes
    linesOf(runOf([{ id, raw: large(3_000_000) }]), frame)
    expect(Buffer.from(linesOf(small, frame).bytes).equals(Buffer.from(before))).toBe(true)
  })
})

const hostile = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.string({ unit: fc.constantFrom('\r', '\n', '\0', '\t', '"', '\\', ']', '=', ' ', '<', '1', '😀', 'é') }),
  fc.constantFrom('\n<13>1 - - - - - - forged', '12 <13>1 - - - - - - forged', '"] forged', '\\"]'),
)
const numbers = { numRuns: 300 }

describe('any content of an entry', () => {
  test('forges no message: an independent parser finds each one, whole, in its place', () => {
    const texts = fc.array(fc.tuple(hostile, hostile), { minLength: 1, maxLength: 6 })
    fc.assert(
      fc.property(texts, hostile, hostile, fc.constantFrom(3164, 5424), (given, host, app, rfc) => {
        const frame = syslogFrame({
          ...plain,
          rfc: rfc,
          hostname: host || 'h',
          app_name: app || 'a',
        })
        const run = runOf(given.map(([ownId]) => ({ id: ownId, raw: '{}' })))
        const { bytes, ends } = linesOf(run, frame, (_run, index, out) =>
          out.copy(Buffer.from(given[index]?.[1] ?? '')),
        )
        const frames = framesOf(Buffer.from(bytes))
        expect(frames).toHaveLength(given.length)
        frames.forEach((each, index) => {
          expect(each.toString('latin1')).not.toMatch(/[\0-\x08\x0a-\x1f]/)
          const { text, data } = rfc === 3164 ? parse3164(each) : parse5424(each)

          expect(text.toString()).toBe(
            Buffer.from((given[index]?.[1] ?? '').replace(/[\0-\x08\x0a-\x1f]/g, ' ')).toString(),
          )
          if (rfc === 5424) expect(Object.keys(data)).toEqual(['', 'workspace', 'source', 'id'])
          const inLine = [...messagesIn(bytes, ends[index - 1] ?? 0, ends[index] as number)]
          expect(inLine.map((message) => Buffer.from(message).equals(each))).toEqual([true])
        })
      }),
      numbers,
    )
  })

  test('no message is over its limit, no cut is inside a character or an escape, and the parts are the entry', () => {
    const character = fc.constantFrom(
      'a',
      '\\',
      '"',
      'é',
      '€',
      '😀',
      '\n',
      '\u0001',
      '\ud83d\ude00'.slice(0, 2),
    )
    const value = fc.string({ unit: character, minLength: 200, maxLength: 2500 })
    const escape = (text: string) =>
      text.replace(/[^ -~]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`)
    fc.assert(
      fc.property(
        value,
        fc.boolean(),
        fc.integer({ min: 480, max: 700 }),
        (text, ascii, max_message_bytes) => {
          const json = JSON.stringify({ id, text })
          const raw = ascii ? escape(json) : json
          const frames = framesOf(Buffer.from(linesWith({ max_message_bytes }, [{ id, raw }]).bytes))
          const texts = frames.map((frame) => parse5424(frame).text)
          expect(Math.max(...frames.map(({ length }) => length))).toBeLessThanOrEqual(max_message_bytes)
          expect(Buffer.concat(texts).toString()).toBe(raw)
          for (const part of texts) {
            expect(Buffer.from(part.toString()).equals(part)).toBe(true)
            expect(part.toString()).toMatch(/^(?:[^\\]|\\u[0-9a-f]{4}|\\[^u])*$/)
            expect(part.toString()).not.toMatch(/\\ud83d$/)
          }
        },
      ),
      numbers,
    )
  })

  test('bytes that are no UTF-8 are cut all the same, and lose nothing', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 400, maxLength: 2000 }), (bytes) => {
        const printable = bytes.map((byte) => (byte < 32 ? 92 : byte))
        const parts = messagesWith({ max_message_bytes: 480 }, { id }, textFormat(printable))
        expect(Buffer.concat(parts.map(({ text }) => text)).equals(Buffer.from(printable))).toBe(true)
      }),
      numbers,
    )
  })
})
