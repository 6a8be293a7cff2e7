// Makes foreign text, such as a receiver's message, a key in a bucket or a file name, safe for a
// terminal, a log and a page.

/**
 * Control, format and private-use characters, line ends, halves of surrogate pairs, and invisible
 * or unusual blanks.
 */
const unprintable = /[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu

const escapeOf = (character: string): string => `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`

/** On one line, without control sequences or characters that change the reading order. */
export const printable = (text: string): string => text.replace(unprintable, escapeOf)

/** A name within a sentence: quoted if it could be read as several words. */
export function printableName(name: string): string {
  if (/^[\x21-\x7e]+$/.test(name)) return name
  return `"${printable(name).replaceAll('"', '\\"')}"`
}
