// The word that somebody probably meant.

/** Insertions, removals, replacements and swaps of neighbours that lead from one word to the other. */
function distance(a: string, b: string): number {
  const rows = [Array.from({ length: b.length + 1 }, (_, j) => j)]
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1
      let least = Math.min(
        (rows[i - 1]?.[j] ?? 0) + 1,
        (row[j - 1] ?? 0) + 1,
        (rows[i - 1]?.[j - 1] ?? 0) + same,
      )
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        least = Math.min(least, (rows[i - 2]?.[j - 2] ?? 0) + 1)
      row.push(least)
    }
    rows.push(row)
  }
  return rows[a.length]?.[b.length] ?? 0
}

const plain = (text: string): string => text.toLowerCase().replaceAll(/[-_]/g, '')

/** Hyphens, case and underscores do not count; what begins alike is one step away. */
function farness(word: string, known: string): number {
  const steps = distance(word, known)
  const isBeginning =
    Math.min(word.length, known.length) >= 3 && (word.startsWith(known) || known.startsWith(word))
  return isBeginning ? Math.min(steps, 1) : steps
}

/** The nearest of `words`, when it is near enough to be meant. */
export function nearest(word: string, words: readonly string[]): string | undefined {
  const wanted = plain(word)
  const ranked = words
    .map((known) => ({ known, far: farness(wanted, plain(known)) }))
    .sort((a, b) => a.far - b.far)
  const best = ranked[0]
  return best && best.far <= Math.max(1, Math.floor(wanted.length / 3)) ? best.known : undefined
}
