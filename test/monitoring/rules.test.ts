// The rules as promtool sees them: well formed, and each alert proven on made-up series (monitoring/*.test.yaml).
import { describe, expect, test } from 'vitest'
import { promtool, promtoolMissing } from './programs.ts'
import { scaledRules } from './scaled-rules.ts'

describe.skipIf(promtoolMissing)('the rules', () => {
  test('are well formed', () => {
    expect(promtool(['check', 'rules', 'monitoring/rules.yaml'])).toBe('')
  })

  test.each(['rules.test.yaml', 'weekend.test.yaml', 'replicas.test.yaml'])(
    'raise what they should, and nothing else: %s',
    (file) => {
      expect(promtool(['test', 'rules', `monitoring/${file}`])).toBe('')
    },
    120_000,
  )
})

test('a minute of the rules becomes a second in every duration', () => {
  const rule = (expr: string) => `groups: [{ name: a, rules: [{ alert: B, for: 15m, expr: '${expr}' }] }]`
  const expr =
    'sum(increase(a_total{code=~"401|90"}[1h])) > 2 * b + 300 and p99_rate5m > 0.99 unless c offset 1h'
  expect(scaledRules(rule(expr))).toContain(
    'sum(increase(a_total{code=~"401|90"}[60s])) > 2 * b + 5 and p99_rate5m > 0.99 unless c offset 60s',
  )
  expect(scaledRules(rule(expr))).toContain('for: 15s')
})
