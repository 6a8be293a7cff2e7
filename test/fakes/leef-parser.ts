// Reads one line of LEEF 2.0 by the vendor's rules, as strictly as possible; knows nothing of how ours is written.

export interface LeefEvent {
  readonly vendor: string
  readonly product: string
  readonly version: string
  readonly eventId: string
  readonly attributes: ReadonlyMap<string, string>
}

const ipv4 = /^(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?!$)|$)){4}$/

/** What QRadar knows and how it must look. Without `devTimeFormat` the time is epoch milliseconds. */
const predefined: Readonly<Record<string, (value: string) => boolean>> = {
  sev: (value) => /^(?:[1-9]|10)$/.test(value),
  devTime: (value) => /^-?\d+$/.test(value),
  src: (value) => ipv4.test(value) || /^[0-9a-fA-F:.]*:[0-9a-fA-F:.]*$/.test(value),
  usrName: (value) => value.length <= 255,
}

/** Throws on whatever a strict reader would stumble over. There is no escape: the first separator is the separator. */
export function parseLeef(line: string): LeefEvent {
  const parts = line.split('|')
  const [leef, vendor, product, version, eventId, delimiter] = parts
  if (leef !== 'LEEF:2.0') throw new Error('not LEEF 2.0')
  if (!vendor || !product || !version || !eventId || delimiter === undefined || parts.length < 7)
    throw new Error('an empty header field, or none')
  const hex = /^0?x([0-9a-fA-F]{2,4})$/.exec(delimiter)
  const separator = hex ? String.fromCharCode(parseInt(hex[1] ?? '', 16)) : delimiter
  if (separator.length !== 1) throw new Error('a delimiter that is no character')
  if (/[\p{Cc}\p{Cs}\u2028\u2029]/u.test(line.replaceAll(separator, '')))
    throw new Error('a character that may end or hide a line')
  const head = parts.slice(0, 6).join('|')
  if (head.includes(separator)) throw new Error('the delimiter stands in the header')
  const attributes = new Map<string, string>()
  for (const attribute of line.slice(head.length + 1).split(separator)) {
    const equals = attribute.indexOf('=')
    const [key, value] = [attribute.slice(0, equals), attribute.slice(equals + 1)]
    if (equals < 0 || !/^[A-Za-z0-9]+$/.test(key)) throw new Error('an attribute without a key')
    if (value === '') throw new Error(`the key ${key} has no value`)
    if (attributes.has(key)) throw new Error(`the key ${key} stands twice`)
    if (predefined[key]?.(value) === false) throw new Error(`${key} may not hold this`)
    attributes.set(key, value)
  }
  return { vendor, product, version, eventId, attributes }
}
