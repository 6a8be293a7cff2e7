// Small shared rules: backoff, secrets, units, the writer, errors.
import { inspect } from 'node:util'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { backoffMs } from '../../../src/core/backoff.ts'
import { ConnectorError, actionOf, errorCodes, isAbort } from '../../../src/core/errors.ts'
import { Secret, SecretLook } from '../../../src/core/secret.ts'
import { duration, durationMs, secret, size, sizeBytes } from '../../../src/core/units.ts'
import { ByteWriter } from '../../../src/core/bytes.ts'

describe('backoff', () => {
  it('is between half and all of the doubled base, and never over the cap', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 100_000 }),
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        (attempt, chance) => {
          const wait = backoffMs(attempt, { baseMs: 1_000, capMs: 60_000 }, () => chance)
          const full = Math.min(60_000, 1_000 * 2 ** Math.min(attempt - 1, 40))
          expect(wait).toBeGreaterThanOrEqual(Math.floor(full / 2))
          expect(wait).toBeLessThanOrEqual(full)
        },
      ),
    )
  })
})

describe('secrets', () => {
  const value = 'key-that-nobody-may-see'

  it('a secret prints as ***, however it is printed', () => {
    const it = new Secret(value)
    const printed = [
      String(it),
      JSON.stringify({ it }),
      inspect(it),
      inspect({ deep: { it } }, { depth: 9, showHidden: true }),
      [it].join(),
    ]
    for (const text of printed) {
      expect(text).toContain('***')
      expect(text).not.toContain(value)
    }
    expect(it.reveal()).toBe(value)
  })

  it('a secret read again says whether it changed; an empty or unreadable source keeps the old one', () => {
    let source: () => string = () => 'one'
    const it = new Secret('one', () => source())
    const look = new SecretLook([it], { elapsed: () => 0 })
    expect(look.refresh()).toBe(false)
    source = () => 'two'
    expect([look.refresh(), it.reveal(), it.unread]).toEqual([true, 'two', undefined])
    source = () => ''
    expect([look.refresh(), it.reveal()]).toEqual([false, 'two'])
    expect(it.unread).toMatch(/empty/)
    source = () => {
      throw new Error('ENOENT')
    }
    expect([look.refresh(), it.reveal()]).toEqual([false, 'two'])
    expect(it.unread).toBe('ENOENT')
    source = () => 'two'
    expect([look.refresh(), it.unread]).toEqual([false, undefined])
  })

  it.each([
    'new ',
    ' new',
    'new key',
    'new\u00a0',
    'new\r\nkey',
    'new\nkey',
    'new\n',
    '\ttab',
    'nul\0',
    'clé',
    'bell\x07',
    '\ufeffkey',
    '\ufffd',
  ])(
    'a value that a start refuses as a secret is refused by a rotation too, which keeps the old one: %j',
    (fresh) => {
      const it = new Secret('one', () => fresh)
      expect([new SecretLook([it], { elapsed: () => 0 }).refresh(), it.reveal()]).toEqual([false, 'one'])
      const { error } = secret().safeParse(fresh)
      expect(it.unread).toBe(`it ${error?.issues[0]?.message ?? ''}`)
      expect(it.unread).toContain('contains white space or characters that are not allowed in a header')
    },
  )

  it('a secret without a source never changes', () => {
    const it = new Secret(value)
    const look = new SecretLook([it], { elapsed: () => 0 })
    expect([look.refresh(), it.reveal()]).toEqual([false, value])
    it.follow(() => 'fresh')
    expect([look.refresh(), it.reveal()]).toEqual([true, 'fresh'])
  })
})

describe('secrets that belong together', () => {
  const start = { id: 'id-1', secret: 'secret-1' }

  function pair() {
    const there: { id: string; secret: string | undefined } = { ...start }
    const id = new Secret(start.id, () => there.id)
    const secret = new Secret(start.secret, () => {
      if (there.secret === undefined) throw new Error('ENOENT')
      return there.secret
    })
    let nowMs = 0
    const look = new SecretLook([id, secret], { elapsed: () => nowMs })
    const after = (ms: number) => {
      nowMs += ms
      return [look.look(), id.reveal(), secret.reveal()]
    }
    return { there, look, after }
  }

  it('are checked once a second, however often they are used', () => {
    const { there, after } = pair()
    expect(after(0)).toEqual([false, 'id-1', 'secret-1'])
    Object.assign(there, { id: 'id-2', secret: 'secret-2' })
    expect(after(999)).toEqual([false, 'id-1', 'secret-1'])
    expect(after(1)).toEqual([true, 'id-2', 'secret-2'])
  })

  it('never change halfway while they are written one after the other', () => {
    const { there, after } = pair()
    after(0)
    there.id = 'id-2'
    expect(after(1000)).toEqual([false, 'id-1', 'secret-1'])
    there.secret = 'secret-2'
    expect(after(1000)).toEqual([true, 'id-2', 'secret-2'])
  })

  it.each([undefined, ''])('stay unchanged while one of them is missing or empty: %j', (secret) => {
    const { there, look, after } = pair()
    Object.assign(there, { id: 'id-2', secret })
    for (let i = 0; i < 3; i++) expect(after(1000)).toEqual([false, 'id-1', 'secret-1'])
    expect(look.refresh()).toBe(false)
    there.secret = 'secret-2'
    expect(after(1000)).toEqual([true, 'id-2', 'secret-2'])
  })

  it('change in one alone if that lasts, or if the old pair is refused', () => {
    const settled = pair()
    settled.there.secret = 'secret-2'
    expect(settled.after(1000)).toEqual([false, 'id-1', 'secret-1'])
    expect(settled.after(1000)).toEqual([true, 'id-1', 'secret-2'])
    const refused = pair()
    refused.there.secret = 'secret-2'
    expect([refused.look.refresh(), ...refused.after(1000)]).toEqual([true, false, 'id-1', 'secret-2'])
  })
})

describe('units', () => {
  it.each([
    ['500ms', 500],
    ['30s', 30_000],
    ['5m', 300_000],
    ['1.5h', 5_400_000],
    ['35d', 3_024_000_000],
    ['0s', 0],
  ])('%s is %i ms', (text, ms) => {
    expect(duration().parse(text)).toBe(ms)
    expect(durationMs(text)).toBe(ms)
  })

  it.each([
    ['1B', 1],
    ['256MiB', 268_435_456],
    ['2GiB', 2_147_483_648],
    ['1.5KiB', 1_536],
    ['1kB', 1_000],
    ['3MB', 3_000_000],
  ])('%s is %i bytes', (text, bytes) => {
    expect(size().parse(text)).toBe(bytes)
    expect(sizeBytes(text)).toBe(bytes)
  })

  it.each(['30', '30 s', '-5m', '5 minutes', '1h30m', '', '1e3s', 's'])('%j is no duration', (text) => {
    expect(duration().safeParse(text).success).toBe(false)
  })

  it.each(['30', '2 GiB', '2gib', '-1B', '2G', ''])('%j is no size', (text) => {
    expect(size().safeParse(text).success).toBe(false)
  })

  it('the error of a secret does not contain the secret, and an empty one is refused', () => {
    expect(secret().parse('x')).toBeInstanceOf(Secret)
    expect(secret().safeParse('').success).toBe(false)
  })
})

describe('the writer', () => {
  it('everything written is one block of bytes, however small the buffer was at first', () => {
    const piece = fc.oneof(
      fc.string({ maxLength: 200 }),
      fc.uint8Array({ maxLength: 300 }),
      fc.integer({ min: 0, max: 255 }),
    )
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 64 }), fc.array(piece, { maxLength: 30 }), (capacity, pieces) => {
        const out = new ByteWriter(capacity)
        for (const each of pieces) {
          if (typeof each === 'string') out.text(each)
          else if (typeof each === 'number') out.byte(each)
          else out.copy(each)
        }
        const expected = Buffer.concat(
          pieces.map((each) =>
            typeof each === 'string'
              ? Buffer.from(each)
              : typeof each === 'number'
                ? Buffer.of(each)
                : Buffer.from(each),
          ),
        )
        expect(Buffer.compare(out.view(), expected)).toBe(0)
      }),
    )
  })

  it('a range of a source is copied, and no byte around it', () => {
    for (const length of [3, 63, 64, 200]) {
      const source = Buffer.from(Array.from({ length: length + 20 }, (_, i) => i % 251))
      const out = new ByteWriter(1)
      out.copy(source, 10, 10 + length)
      expect(out.view().equals(source.subarray(10, 10 + length))).toBe(true)
    }
  })

  it('a cleared writer starts empty', () => {
    const out = new ByteWriter(4)
    out.text('before')
    out.clear()
    out.text('after')
    expect(out.view().toString()).toBe('after')
  })
})

describe('errors', () => {
  it('every code has its action, and only a stop stops', () => {
    for (const code of errorCodes) expect(new ConnectorError(code, 'x').action).toBe(actionOf(code))
    expect(errorCodes.filter((code) => actionOf(code) === 'stop')).toEqual(['aborted'])
  })

  it('an error that a signal throws is an abort, a timeout is not', () => {
    expect(isAbort(new ConnectorError('aborted', 'x'))).toBe(true)
    expect(isAbort(AbortSignal.abort().reason)).toBe(true)
    expect(isAbort(new ConnectorError('timeout', 'x'))).toBe(false)
    expect(isAbort('AbortError')).toBe(false)
  })
})
