// `types` patterns: `*` matches any characters, `!` excludes. Linear time, no regular expressions.

function matches(pattern: string, text: string): boolean {
  const pieces = pattern.split('*')
  const first = pieces[0] ?? ''
  if (pieces.length === 1) return pattern === text
  const last = pieces[pieces.length - 1] ?? ''
  if (!text.startsWith(first) || text.length < first.length + last.length) return false
  let at = first.length
  for (const piece of pieces.slice(1, -1)) {
    const found = text.indexOf(piece, at)
    if (found < 0) return false
    at = found + piece.length
  }
  return text.length - last.length >= at && text.endsWith(last)
}

/**
 * The last matching pattern decides; a list that begins with `!` starts from everything. `['*',
 * '!user:*']` is everything except users' own.
 */
export function globFilter(patterns: readonly string[]): (text: string) => boolean {
  const rules = patterns.map((pattern) => ({
    take: !pattern.startsWith('!'),
    pattern: pattern.startsWith('!') ? pattern.slice(1) : pattern,
  }))
  const initial = rules[0]?.take === false
  return (text) => {
    let taken = initial
    for (const rule of rules) if (matches(rule.pattern, text)) taken = rule.take
    return taken
  }
}

/** True if the patterns match everything, even an entry without a type. */
export const takesAll = (patterns: readonly string[]): boolean => patterns.length === 1 && patterns[0] === '*'
