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

/** The pauses of a daemon are no shorter for it: with a refused key it asks once a minute, and within ten seconds maybe not at all. */
const refused = /code=~"401\|403"\}\[\d+m\]/
const parts = new RegExp(
  `${refused.source}|"[^"]*"|\\[(\\d+[smhd])\\]|offset (\\d+[smhd])|\\b\\d+(?:\\.\\d+)?\\b`,
  'g',
)

/** Text in quotes stays; a number from 60 on is seconds, as the head of rules.yaml says. */
function shorterIn(expr: string): string {
  return expr.replaceAll(parts, (found, range: string | undefined, offset: string | undefined) => {
    if (range !== undefined) return `[${shorter(range)}]`
    if (offset !== undefined) return `offset ${shorter(offset)}`
    const seconds = Number(found)
    return seconds >= 60 ? String(seconds / SCALE) : found
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
