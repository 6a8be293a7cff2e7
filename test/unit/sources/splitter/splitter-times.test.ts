// Times that microseconds in a number do not represent: keys and positions need them exact.
import { expect, test } from 'vitest'
import { splitOne } from '../../../../src/sources/splitter/splitter.ts'
import { options } from './splitter-fixtures.ts'

test.each(['9999-12-31T23:59:59.999999', '0001-01-01T00:00:00', '9999-12-31T00:00:00Z'])(
  'a time placeholder that is no whole number of microseconds is quarantined as no_time: %s',
  (timestamp) => {
    const text = JSON.stringify({ id: 'a', timestamp, type: 'auth:login' })
    const { entries, quarantined } = splitOne(Buffer.from(text), { ...options, wrapper: 'log' })
    expect(entries.count).toBe(0)
    expect(quarantined.map(({ reason, bytes }) => [reason, Buffer.from(bytes).toString()])).toEqual([
      ['no_time', text],
    ])
  },
)
