// Somebody else's text as a terminal may have it.

/** Control and format characters out of somebody else's text: a terminal would obey them. */
export function plain(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '?')
}
