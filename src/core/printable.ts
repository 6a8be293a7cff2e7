// Words of somebody else, such as a receiver's, a key in a bucket or a file's name, as a terminal, a log and a page may have them.

/** Control, format and private characters, line ends, halves of surrogate pairs, and blanks that look like nothing or like ours. */
const unfit = /[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu

const escapeOf = (character: string): string => `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`

/** On one line, with nothing in it that a terminal obeys or that changes the order of what is read. */
export const printable = (text: string): string => text.replace(unfit, escapeOf)

/** A name as part of a sentence: in quotes where it could read as more words of it. */
export function printableName(name: string): string {
  if (/^[\x21-\x7e]+$/.test(name)) return name
  return `"${printable(name).replaceAll('"', '\\"')}"`
}
