// Times mean the same in every time zone of the machine.
import { afterAll, expect, test } from 'vitest'
import { parseInstantText } from '../../../src/core/time.ts'

const before = process.env['TZ']
afterAll(() => {
  if (before === undefined) delete process.env['TZ']
  else process.env['TZ'] = before
})

test.each(['UTC', 'Asia/Kolkata', 'America/New_York', 'Pacific/Chatham'])(
  'a time without a zone is UTC in every time zone of the machine: %s',
  (zone) => {
    process.env['TZ'] = zone
    expect(new Date(2026, 0, 1).getTimezoneOffset() === 0).toBe(zone === 'UTC')
    expect(parseInstantText('2026-01-31T04:05:06.789012')).toBe(
      Date.UTC(2026, 0, 31, 4, 5, 6) * 1000 + 789_012,
    )
    expect(parseInstantText('2026-07-31 04:05:06')).toBe(Date.UTC(2026, 6, 31, 4, 5, 6) * 1000)
    expect(parseInstantText('2026-01-31T04:05:06+05:30')).toBe(Date.UTC(2026, 0, 30, 22, 35, 6) * 1000)
  },
)
