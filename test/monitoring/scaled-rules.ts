// The project's own rules with time compressed: a minute becomes a second, in `for`, in ranges and in numbers that are seconds.
import { parse, stringify } from 'yaml'

const SCALE = 60

const unitSeconds: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600, d: 86_400 }

interface Rule {
  readonly alert?: string
  readonly record?: string
  readonly expr: string
  readonly for?: string
}

interface Rules {
  readonly groups: readonly { readonly name: string; readonly rules: readonly Rule[] }[]
}

function shorter(duration: string): string {
  const [, count = '', unit = ''] = /^(\d+)([smhd])$/.exec(duration) ?? []
  const seconds = (Number(count) * (unitSeconds[unit] ?? NaN)) / SCALE
  if (!(seconds >= 1)) throw new Error(`${duration} cannot be made ${SCALE} times shorter`)
  return `${Math.round(seconds)}s`
}

/** Text in quotes stays; a number from 60 on is seconds, as the head of rules.yaml says. */
function shorterIn(expr: string): string {
  return expr.replaceAll(/"[^"]*"|\[(\d+[smhd])\]|\b\d+(?:\.\d+)?\b/g, (found, range: string | undefined) => {
    if (range !== undefined) return `[${shorter(range)}]`
    return found.startsWith('"') || Number(found) < 60 ? found : String(Number(found) / SCALE)
  })
}

export function scaledRules(text: string): string {
  const { groups } = parse(text) as Rules
  const scaled = groups.map(({ rules, ...group }) => ({
    ...group,
    rules: rules.map((rule) => ({
      ...rule,
      expr: shorterIn(rule.expr),
      ...(rule.for === undefined ? {} : { for: shorter(rule.for) }),
    })),
  }))
  // Not folded: a test reads it.
  return stringify({ groups: scaled }, { lineWidth: 0 })
}
