// A RELP server's answers, cut anywhere, and the frames that it gets.
import {
  array,
  assert,
  constantFrom,
  integer,
  nat,
  oneof,
  property,
  record,
  string,
  tuple,
  uint8Array,
} from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ConnectorError } from '../../../../src/core/errors.ts'
import { ByteWriter } from '../../../../src/core/bytes.ts'
import { codeOf, EMPTY, offers, putFrame, ReplyParser } from '../../../../src/sinks/syslog/relp-replies.ts'

interface Frame {
  txnr: number
  command: string
  data: string
}

/** What a parser returns for these chunks, and the error it ended with. */
function parsed(chunks: readonly Uint8Array[]): { frames: Frame[]; error: unknown } {
  const parser = new ReplyParser('logs.test:2514')
  const frames: Frame[] = []
  try {
    for (const chunk of chunks)
      parser.push(chunk, (txnr, command, bytes, start, end) =>
        frames.push({ txnr, command, data: Buffer.from(bytes.subarray(start, end)).toString('latin1') }),
      )
  } catch (error) {
    return { frames, error }
  }
  return { frames, error: undefined }
}

const bytesOf = (text: string) => Buffer.from(text, 'latin1')
const of = (text: string) => parsed([bytesOf(text)])

/** `bytes` cut at the given places. */
function cut(bytes: Buffer, places: readonly number[]): Buffer[] {
  const at = [...new Set(places.map((place) => place % (bytes.length + 1)))].sort((a, b) => a - b)
  return [...at, bytes.length].map((end, i) => bytes.subarray(i === 0 ? 0 : at[i - 1], end))
}

const written = ({ txnr, command, data }: Frame) =>
  data === '' ? `${txnr} ${command} 0\n` : `${txnr} ${command} ${data.length} ${data}\n`

const latin1 = uint8Array({ maxLength: 120 }).map((bytes) => Buffer.from(bytes).toString('latin1'))
const frame = record({
  txnr: oneof(nat(20), integer({ min: 0, max: 999_999_999 })),
  command: oneof(constantFrom('rsp', 'serverclose', 'rspx', 'abort'), string({ unit: constantFrom('a', 'z', 'A', 'Z', 'm'), minLength: 1, maxLength: 32 })), // prettier-ignore
  data: oneof(constantFrom('200 OK', '500 no', '', '200 OK\nrelp_version=0\n7 rsp 6 200 OK\n'), latin1),
})

describe('replies', () => {
  test('any split of the stream gives the same frames', () => {
    assert(
      property(array(frame, { maxLength: 8 }), array(nat(2000), { maxLength: 12 }), (frames, places) => {
        const bytes = bytesOf(frames.map(written).join(''))
        expect(parsed(cut(bytes, places))).toEqual({ frames, error: undefined })
      }),
    )
  })

  test('any split of a corrupted stream gives the same frames and the same end', () => {
    const spoiling = tuple(
      array(frame, { minLength: 1, maxLength: 5 }),
      nat(1000),
      nat(255),
      array(nat(1000)),
    )
    assert(
      property(spoiling, ([frames, where, byte, places]) => {
        const bytes = bytesOf(frames.map(written).join(''))
        bytes[where % bytes.length] = byte
        const whole = parsed([bytes])
        const pieces = parsed(cut(bytes, places))
        expect(pieces.frames).toEqual(whole.frames)
        expect(pieces.error).toEqual(whole.error)
      }),
      { numRuns: 500 },
    )
  })

  test('hostile bytes end as bad_reply or wait, and never as anything else', () => {
    assert(
      property(array(uint8Array({ maxLength: 40 }), { maxLength: 6 }), (chunks) => {
        const { error } = parsed(chunks)
        if (error !== undefined) expect(error).toMatchObject({ code: 'bad_reply' })
      }),
    )
  })

  test('data of length 0 has no space, and an extra one is accepted', () => {
    expect(of('3 rsp 0\n0 serverclose 0\n4 rsp 0 \n').frames).toEqual([
      { txnr: 3, command: 'rsp', data: '' },
      { txnr: 0, command: 'serverclose', data: '' },
      { txnr: 4, command: 'rsp', data: '' },
    ])
  })

  test.each([
    ['a number of ten digits', '1234567890 rsp 0\n'],
    ['a length of ten digits', '1 rsp 0000000000\n'],
    ['an announced length over the limit', '1 rsp 8193 2'],
    ['a command of 33 letters', `1 ${'a'.repeat(33)}`],
    ['a command with digits', '1 rsp2 0\n'],
    ['no number', 'rsp 0\n'],
    ['no number, but the space behind it', ' rsp 0\n'],
    ['no space behind the number', '1xrsp 0\n'],
    ['no command', '1  0\n'],
    ['no length', '1 rsp \n'],
    ['no LF behind the data', '1 rsp 6 200 OKx'],
    ['no LF behind no data', '1 rsp 0x'],
    ['data behind a length of 0', '1 rsp 0 2'],
    ['no space before the data', '1 rsp 6\n200 OK'],
    ['data at once behind its length', '1 rsp 2OK\n'],
    ['the banner of another protocol', 'HTTP/1.1 400 Bad Request\r\n'],
    ['a TLS alert', '\x15\x03\x03\x00\x02\x02\x46'],
  ])('%s is no RELP, reported as soon as it is seen', (_, text) => {
    expect(of(text).error).toBeInstanceOf(ConnectorError)
    expect(of(text).error).toMatchObject({ code: 'bad_reply' })
    expect((of(text).error as Error).message).toMatch(/^logs\.test:2514: .*is not RELP/)
  })

  test('endless replies are refused within the limit of one frame', () => {
    for (const each of ['9', 'a', ' ', '1 rsp ']) {
      const parser = new ReplyParser('x')
      const pour = () => {
        for (let i = 0; i < 100; i++) parser.push(bytesOf(each), () => undefined)
      }
      expect(pour, each).toThrow('is not RELP')
    }
  })

  test('a frame of exactly the largest length is accepted', () => {
    const frames = [
      { txnr: 999_999_999, command: 'z'.repeat(32), data: 'x'.repeat(8_192) },
      { txnr: 0, command: 'AZaz', data: '' },
    ]
    expect(of(frames.map(written).join(''))).toEqual({ frames, error: undefined })
  })

  test('only rsp is taken for rsp', () => {
    const commands = ['rsp', 'rsq', 'rtp', 'ssp', 'rs', 'rspp', 'RSP']
    expect(
      of(commands.map((command) => `1 ${command} 0\n`).join('')).frames.map(({ command }) => command),
    ).toEqual(commands)
  })

  test('a begun frame is a copy: the bytes that it came in may be overwritten', () => {
    const [first, second] = [bytesOf('1 rsp 6 20'), bytesOf('0 OK\n2 rsp 0\n')]
    const parser = new ReplyParser('x')
    const heard: string[] = []
    parser.push(first, () => heard.push('too early'))
    first.fill(0)
    parser.push(second, (txnr, _, bytes, start, end) =>
      heard.push(`${txnr} ${Buffer.from(bytes.subarray(start, end)).toString()}`),
    )
    expect(heard).toEqual(['1 200 OK', '2 '])
  })

  test('a code is three digits, alone or before a space or LF', () => {
    const code = (text: string) => codeOf(bytesOf(text), 0, text.length)
    expect(['200 OK', '500', '200\n', '999 x', ''].map(code)).toEqual([200, 500, 200, 999, EMPTY])
    expect(codeOf(bytesOf('200 OK'), 0, 2)).toBeUndefined()
    expect(codeOf(bytesOf('2000 OK'), 0, 3)).toBe(200)
    expect(['20', '2000 OK', 'OK', '20x OK', ' 200 OK', '099 x'].map(code)).toEqual(Array(6).fill(undefined))
  })
})

describe('frames', () => {
  const frameOf = (txnr: number, data: string) => {
    const out = new ByteWriter(1)
    putFrame(out, txnr, 'syslog', Buffer.from(data))
    return out.view().toString()
  }

  test('the length counts bytes, and no space follows a length of 0', () => {
    expect(frameOf(1, 'zoë')).toBe('1 syslog 4 zoë\n')
    expect(frameOf(999_999_999, '')).toBe('999999999 syslog 0\n')
    const out = new ByteWriter(1)
    putFrame(out, 1, 'open', offers)
    expect(out.view().toString()).toBe(
      '1 open 56 relp_version=0\nrelp_software=auditferry\ncommands=syslog\n\n',
    )
  })

  test('the other side reads back any message and nothing more', () => {
    assert(
      property(array(tuple(integer({ min: 0, max: 999_999_999 }), latin1), { maxLength: 6 }), (messages) => {
        const out = new ByteWriter(1)
        for (const [txnr, data] of messages) putFrame(out, txnr, 'syslog', bytesOf(data))
        const read = parsed([Buffer.from(out.view())])
        expect(read).toEqual({
          frames: messages.map(([txnr, data]) => ({ txnr, command: 'syslog', data })),
          error: undefined,
        })
      }),
    )
  })
})
