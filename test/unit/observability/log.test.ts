// The log has facts and nothing else.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ConnectorError } from '../../../src/core/errors.ts'
import type { LogFields } from '../../../src/core/log.ts'
import { Secret } from '../../../src/core/secret.ts'
import { errorFields, openLog } from '../../../src/observability/log.ts'
import type { LogOptions } from '../../../src/observability/log.ts'

const planted = 'planted-secret-0123456789'

function capture(level: LogOptions['level'] = 'debug', secrets: readonly Secret[] = []) {
  const written: string[] = []
  const to = { write: (line: string) => void written.push(line) }
  const log = openLog({ level, to, secrets: () => secrets })
  const lines = () => written.map((line) => JSON.parse(line) as Record<string, unknown>)
  return { log, written, lines }
}

/** As in the line: JSON.parse would keep the last of two alike. The fields are plain, so none is within another. */
function keysOf(line: string): string[] {
  const keys = [...line.matchAll(/[{,]("(?:[^"\\]|\\.)*"):(?:"(?:[^"\\]|\\.)*"|[^",}]*)(?=[,}])/g)]
  return keys.map(([, key = '""']) => String(JSON.parse(key)))
}

/** What a careless caller could pass past the types. */
const careless = (fields: unknown) => fields as LogFields

describe('the log', () => {
  it('writes one JSON line with level, time, sentence and fields', () => {
    const { log, lines, written } = capture()
    log.info('A page was kept.', { source: 'audit', entries: 12, whole: true, cursor: null, gone: undefined })
    const [{ time, ...line } = {}] = lines()
    expect(line).toEqual({
      level: 'info',
      msg: 'A page was kept.',
      source: 'audit',
      entries: 12,
      whole: true,
      cursor: null,
    })
    expect(new Date(String(time)).toISOString()).toBe(time)
    expect(written[0]).toMatch(/\n$/)
  })

  it('writes nothing below its level', () => {
    const { log, written } = capture('warn')
    log.debug('no')
    log.info('no')
    log.warn('yes')
    log.error('yes')
    expect(written).toHaveLength(2)
  })

  it('adds the fields of `with` to each line', () => {
    const { log, lines } = capture()
    log.with({ workspace: 'acme' }).with({ source: 'audit' }).warn('Held.', { code: 'unauthorized' })
    expect(lines()[0]).toMatchObject({ workspace: 'acme', source: 'audit', code: 'unauthorized' })
  })

  it('no line has a key twice, whatever was bound before and is passed again', () => {
    const { log, written, lines } = capture()
    const bound = log.with({ sink: 'siem', level: 1 }).with({ workspace: 'acme', sink: 'archive' })
    bound.info('Told again.', { sink: 'told', entries: 1 })
    bound.info('As bound.')
    bound.with({ sink: 'deeper' }).info('Bound again.')
    for (const line of written) expect(keysOf(line)).toEqual([...new Set(keysOf(line))])
    expect(lines().map((line) => line['sink'])).toEqual(['told', 'archive', 'deeper'])
    expect(lines().every((line) => line['workspace'] === 'acme' && line['level_'] === 1)).toBe(true)
  })

  it('no line has a key twice, for any fields', () => {
    const key = fc.constantFrom('sink', 'level', 'time', 'msg', 'level_', '__proto__', 'b')
    const fields = fc.dictionary(key, fc.oneof(fc.string(), fc.integer(), fc.constant(undefined)))
    fc.assert(
      fc.property(fields, fields, fields, (first, second, reported) => {
        const { log, written } = capture()
        log.with(first).with(second).info('Any.', reported)
        const [line = ''] = written
        expect(keysOf(line)).toEqual([...new Set(keysOf(line))])
      }),
    )
  })

  it('a secret, an object, a function or a buffer is never written', () => {
    const { log, written, lines } = capture()
    const secret = new Secret(planted)
    const fields = careless({
      secret,
      object: { deep: planted },
      list: [planted],
      bytes: Buffer.from(planted),
      call: () => planted,
      big: 1n,
      sign: Symbol(planted),
      error: new Error(planted),
      boxed: new String(planted),
    })
    log.info('Careless.', fields)
    log.with(fields).error('Careless.', careless(secret))
    log.error('Careless.', careless(Object.assign(new Error(planted), { body: planted })))
    expect(written.join('')).not.toContain(planted)
    expect(lines()[0]).toMatchObject({ secret: '[omitted]', object: '[omitted]', bytes: '[omitted]' })
  })

  it('a known secret is masked within any string, also where the cut would go through it', () => {
    const { log, written } = capture('debug', [new Secret(planted)])
    const text = `${'x'.repeat(1990)}${planted}`
    log.warn(`Refused ${planted}.`, { text, url: `https://h/?token=${planted}` })
    log.with({ text: planted }).info('Bound.')
    expect(written.join('')).not.toContain(planted.slice(0, 8))
  })

  it('a string is cut at 2,000 characters and stays well formed', () => {
    const property = fc.property(fc.string({ unit: 'grapheme', maxLength: 4000 }), (text) => {
      const { log, lines } = capture()
      log.info('Long.', { text })
      const out = String(lines()[0]?.['text'])
      expect(out.length).toBeLessThanOrEqual(2001)
      expect(out.isWellFormed()).toBe(true)
      if (text.length <= 2000) expect(out).toBe(text)
    })
    fc.assert(property)
  })

  it('fields cannot forge level, time or sentence, nor another line', () => {
    const { log, lines, written } = capture()
    log.warn('True.', { level: 'fatal', time: 0, msg: 'a\n{"level":"info"}' })
    expect(lines()[0]).toMatchObject({ level: 'warn', msg: 'True.', level_: 'fatal' })
    expect(written.join('').trim().split('\n')).toHaveLength(1)
  })

  it('numbers that JSON does not know are written as words', () => {
    const { log, lines } = capture()
    log.info('Odd.', { lagMs: NaN, limit: Infinity })
    expect(lines()[0]).toMatchObject({ lagMs: 'NaN', limit: 'Infinity' })
  })
})

describe('an error as fields', () => {
  it('one of ours is its code and message only', () => {
    const cause = new Error(planted)
    const error = new ConnectorError('unreachable', 'archive: the receiver refused the connection', { cause })
    expect(errorFields(error)).toEqual({
      code: 'unreachable',
      reason: 'archive: the receiver refused the connection',
    })
    const { log, written, lines } = capture()
    log.error('Delivery failed.', careless({ error }))
    log.error('Delivery failed.', careless(error))
    expect(written.join('')).not.toContain(planted)
    expect(lines()[0]?.['error']).toBe('unreachable: archive: the receiver refused the connection')
    expect(lines()[1]).toMatchObject({ code: 'unreachable' })
  })

  it('any other is its name and location, for its message may have content', () => {
    let thrown: unknown
    try {
      JSON.parse(`{"prompt": ${planted}`)
    } catch (error) {
      thrown = error
    }
    const fields = errorFields(thrown)
    expect(fields).toMatchObject({ code: 'bug', error: 'SyntaxError' })
    expect(fields['thrownAt']).toContain('log.test.ts')
    expect(JSON.stringify(fields)).not.toContain('planted')
    expect(errorFields(planted)).toEqual({ code: 'bug', error: 'string' })
  })

  it('a message of many lines does not pass as a location', () => {
    const error = new Error(`first\n    at ${planted}\nlast`)
    expect(JSON.stringify(errorFields(error))).not.toContain(planted)
  })
})
