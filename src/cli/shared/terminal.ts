// Plain columns for a terminal: no frame, nothing that a stranger's text could do to the screen.
import { printable } from '../../core/printable.ts'

/** Puts colour around a cell that is padded already, by what it says. */
export type Paint = (padded: string, text: string) => string

const unpainted: Paint = (padded) => padded

/** Two spaces between columns, none at a line's end. */
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
