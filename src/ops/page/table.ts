// A table that stays one for a screen reader when a narrow screen shows each row as a card: hence the roles.

interface Column {
  readonly label: string
  /** to the right, under one another */
  readonly number?: boolean
}

export interface Row {
  /** What the row is about, the same from one page to the next. */
  readonly key: string
  /** HTML, as everything here that comes in */
  readonly name: string
  readonly cells: readonly string[]
  /** Lines of their own below the row: a fault, how far it came. */
  readonly notes?: readonly (Note | undefined)[]
}

interface Note {
  readonly kind: 'fault' | 'progress' | 'limit'
  readonly html: string
}

interface Table {
  readonly caption: string
  /** The first is the name's. */
  readonly columns: readonly Column[]
  readonly rows: readonly Row[]
}

const kindOf = ({ number }: Column): string => (number ? ' class="number"' : '')

function noteHtml(note: Note | undefined, key: string, columns: number): string {
  if (!note) return ''
  return `<tr role="row" class="note ${note.kind}" data-key="${key} ${note.kind}"><td role="cell" colspan="${columns}">${note.html}</td></tr>`
}

function rowHtml({ key, name, cells, notes = [] }: Row, columns: readonly Column[]): string {
  const [, ...others] = columns
  const inner = others.map(
    (column, i) =>
      `<td role="cell"${kindOf(column)} data-label="${column.label}"><span>${cells[i] ?? ''}</span></td>`,
  )
  const below = notes.map((note) => noteHtml(note, key, columns.length)).join('')
  return `<tr role="row" data-key="${key}"><th role="rowheader" scope="row">${name}</th>${inner.join('')}</tr>${below}`
}

export function tableHtml({ caption, columns, rows }: Table): string {
  const head = columns.map(
    (column) => `<th role="columnheader" scope="col"${kindOf(column)}>${column.label}</th>`,
  )
  return `<table role="table"><caption class="hidden">${caption}</caption>
<thead role="rowgroup"><tr role="row">${head.join('')}</tr></thead>
<tbody role="rowgroup">${rows.map((row) => rowHtml(row, columns)).join('\n')}</tbody></table>`
}
