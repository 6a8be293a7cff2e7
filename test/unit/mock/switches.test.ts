// Switches and faults: read from text, refused with a reason, and listed in the mock's README.
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import {
  faultNames,
  faults,
  readFault,
  readSwitch,
  switches,
  switchNames,
} from '../../../src/mock/switches.ts'

/** As the README writes them: the default is bold, or after the kind of value. */
function valuesOf(name: (typeof switchNames)[number]): string {
  const { values, default: own }: { values: readonly string[] | string; default: string | number } =
    switches[name]
  if (values === 'number') return `a number; ${own}`
  if (typeof values !== 'string')
    return values.map((value) => (value === own ? `**${value}**` : value)).join(', ')
  const ms = Number(own)
  const fits = (unit: number) => ms > 0 && ms % unit === 0
  if (fits(3_600_000)) return `a duration; ${ms / 3_600_000}h`
  return fits(60_000) ? `a duration; ${ms / 60_000}m` : `a duration; ${ms / 1000}s`
}

describe('switches and faults', () => {
  it('read words, numbers and durations', () => {
    expect(readSwitch('from=inclusive')).toEqual({ from: 'inclusive' })
    expect(readSwitch('late_by=5m')).toEqual({ late_by: 300_000 })
    expect(readSwitch('clock_skew_ms=-1500')).toEqual({ clock_skew_ms: -1500 })
    expect(readFault('cut=0.25')).toEqual({ cut: 0.25 })
  })

  it('refuse unknown names and values, and say what is expected', () => {
    expect(() => readSwitch('form=inclusive')).toThrow(/no such switch; there are from, /)
    expect(() => readSwitch('from=both')).toThrow(/exclusive, inclusive/)
    expect(() => readSwitch('late_by=300')).toThrow(/30s/)
    expect(() => readSwitch('page_cap=')).toThrow(/whole number/)
    expect(() => readSwitch('toString=1')).toThrow(/no such switch/)
    expect(() => readFault('fire=1')).toThrow(/no such fault/)
    for (const rate of ['', '2', '-1', 'often']) expect(() => readFault(`cut=${rate}`)).toThrow(/0 to 1/)
  })

  it('each default is one of the allowed values', () => {
    for (const name of switchNames) {
      const { values, default: own } = switches[name]
      if (typeof values === 'string') expect(own).toEqual(expect.any(Number))
      else expect(values).toContain(own)
    }
  })

  it('are all in the README with their description', () => {
    const readme = readFileSync(new URL('../../../src/mock/README.md', import.meta.url), 'utf8').replace(
      / +/g,
      ' ',
    )
    for (const name of switchNames)
      expect(readme).toContain(`| \`${name}\` | ${switches[name].says} | ${valuesOf(name)} |`)
    for (const name of faultNames) expect(readme).toContain(`| \`${name}\` | ${faults[name].says} |`)
  })
})
