// Plain text columns. Control characters in foreign text cannot affect the terminal.
import { printable } from '../../core/printable.ts'

/** Colours a padded cell, depending on its text. */
export type Paint = (padded: string, text: string) => string

const unpainted: Paint = (padded) => padded

/** Two spaces between columns, no trailing spaces. */
export function columns(rows: readonly (readonly string[])[], paint = unpainted): string {
  const cells = rows.map((row) => row.map(printable))
  const widths: number[] = []
  for (const row of cells)
    for (const [i, text] of row.entries()) widths[i] = Math.max(widths[i] ?? 0, text.length)
  return cells
    .map((row) => row.map((text, i) => paint(text.padEnd(widths[i] ?? 0), text)).join('  '))
    .map((line) => `${line.trimEnd()}\n`)
    .join('')
}
