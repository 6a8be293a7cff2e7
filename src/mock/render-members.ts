// An object's members as JSON: mostly compact, now and then with white space, line breaks, escapes or another order.
import type { Random } from '../model/clock.ts'

/** Names, and JSON texts of the values. */
export type Fields = readonly (readonly [name: string, json: string])[]

function joined(fields: Fields, comma: string, colon: string): string {
  return fields.map(([name, json]) => `"${name}"${colon}${json}`).join(comma)
}

const compact = (fields: Fields) => `{${joined(fields, ',', ':')}}`

const layouts: readonly ((fields: Fields) => string)[] = [
  (fields) => `{${joined(fields, ', ', ': ')}}`,
  (fields) => `{\n  ${joined(fields, ',\n  ', ': ')}\n}`,
  (fields) => `{\r\n\t${joined(fields, ' ,\r\n\t', ' :\t')} }`,
  (fields) => compact([...fields].reverse()),
  (fields) => compact(fields.map(([name, json]) => [name.replaceAll('_', '\\u005f'), json])),
]

/** `odd` undefined: plainly. */
export function renderMembers(fields: Fields, odd: Random | undefined): string {
  const layout = odd && layouts[Math.floor(odd() * layouts.length)]
  return layout ? layout(fields) : compact(fields)
}
