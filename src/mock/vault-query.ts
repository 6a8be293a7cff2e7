// Query parameters of the vault's listings, read strictly: what is not of its documented kind is invalid input.
const INT64 = 2n ** 63n

/** What a parameter holds that is not what it should be. */
const invalid = { isInvalid: true } as const
type Invalid = typeof invalid

/** A parameter that is there but empty counts as left out. */
function given(query: URLSearchParams, name: string): string | undefined {
  const value = query.get(name)
  return value === null || value === '' ? undefined : value
}

export function numberIn(
  query: URLSearchParams,
  name: string,
  least: number,
  most: number,
  usual: number,
): number | Invalid {
  const value = given(query, name)
  if (value === undefined) return usual
  if (!/^\d{1,9}$/.test(value)) return invalid
  return Number(value) < least || Number(value) > most ? invalid : Number(value)
}

/** UTC epoch seconds, int64 (spec §4.3). */
export function secondsIn(query: URLSearchParams, name: string): number | undefined | Invalid {
  const value = given(query, name)
  if (value === undefined) return undefined
  if (!/^-?\d{1,19}$/.test(value)) return invalid
  const seconds = BigInt(value)
  return seconds >= INT64 || seconds < -INT64 ? invalid : Number(seconds)
}

export function wordIn<T extends string>(
  query: URLSearchParams,
  name: string,
  words: readonly T[],
  usual: T,
): T | Invalid {
  const value = given(query, name)
  return value === undefined ? usual : (words.find((word) => word === value) ?? invalid)
}

export function flagIn(query: URLSearchParams, name: string): boolean | undefined | Invalid {
  const value = given(query, name)
  if (value === undefined) return undefined
  return value === 'true' || value === 'false' ? value === 'true' : invalid
}

/** At most `most` characters, as people count them. */
export function textIn(query: URLSearchParams, name: string, most: number): string | undefined | Invalid {
  const value = given(query, name)
  return value !== undefined && Array.from(value).length > most ? invalid : value
}

/** Undefined when one of the values is invalid. */
export function allValid<T extends Record<string, unknown>>(
  values: T,
): { [K in keyof T]: Exclude<T[K], Invalid> } | undefined {
  if (Object.values(values).some((value) => value === invalid)) return undefined
  return values as { [K in keyof T]: Exclude<T[K], Invalid> }
}

/** By code points of the lower-case text, then as they are: the same on every machine. */
export function byText(a: string, b: string): number {
  const [x, y] = [a.toLowerCase(), b.toLowerCase()]
  if (x !== y) return x < y ? -1 : 1
  return a < b ? -1 : a > b ? 1 : 0
}

export function holds(text: string, part: string | undefined): boolean {
  return part === undefined || text.toLowerCase().includes(part.toLowerCase())
}
