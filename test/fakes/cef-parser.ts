// Reads one line of CEF by the vendor's rules, as strictly as possible; knows nothing of how ours is written.

export interface CefEvent {
  readonly vendor: string
  readonly product: string
  readonly version: string
  readonly classId: string
  readonly name: string
  readonly severity: number
  readonly extension: ReadonlyMap<string, string>
}

const custom = (key: string, count: number, check: RegExp | number): [string, RegExp | number][] =>
  Array.from({ length: count }, (_, i) => [`${key}${i + 1}`, check])

const ipv4 = /^(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?!$)|$)){4}$/
const long = /^-?\d{1,19}$/

/** Of the dictionary: the keys that an audit trail may need, with their type or most characters. Infinity: a receiver may cut. */
const dictionary = new Map<string, RegExp | number>([
  ['rt', /^-?\d+$/],
  ['externalId', Infinity],
  ['deviceExternalId', 255],
  ['cat', 1023],
  ['act', 63],
  ['outcome', 63],
  ['suser', 1023],
  ['src', ipv4],
  ['c6a2', /^[0-9a-fA-F:.]{2,45}$/],
  ['c6a2Label', 1023],
  ['requestClientApplication', 1023],
  ['request', 1023],
  ...custom('cs', 6, Infinity),
  ...custom('cn', 3, long),
  ...['cs1Label', 'cs2Label', 'cs3Label', 'cs4Label', 'cs5Label', 'cs6Label'].map((key): [string, number] => [
    key,
    1023,
  ]),
  ...['cn1Label', 'cn2Label', 'cn3Label'].map((key): [string, number] => [key, 1023]),
])

/** Throws on whatever a strict reader would stumble over. */
export function parseCef(line: string): CefEvent {
  if (/[\p{Cc}\p{Cs}\u2028\u2029]/u.test(line)) throw new Error('a character that may end or hide a line')
  const { fields, rest } = header(line)
  const [cef, vendor, product, version, classId, name, severity] = fields
  if (cef !== 'CEF:0') throw new Error('not CEF 0')
  if (!/^(?:\d|10)$/.test(severity ?? '')) throw new Error('severity is not 0 to 10')
  if (!vendor || !product || !version || !classId || !name) throw new Error('an empty header field')
  const extension = extensionOf(rest)
  for (const [key, value] of extension) check(key, value, extension)
  return { vendor, product, version, classId, name, severity: Number(severity), extension }
}

function header(line: string): { fields: string[]; rest: string } {
  const fields: string[] = []
  let field = ''
  for (let at = 0; at < line.length; at++) {
    const unit = line[at] as string
    if (unit === '\\') {
      const next = line[++at]
      if (next !== '\\' && next !== '|') throw new Error('an escape that headers do not know')
      field += next
    } else if (unit === '|') {
      if (fields.push(field) === 7) return { fields, rest: line.slice(at + 1) }
      field = ''
    } else field += unit
  }
  throw new Error('fewer than seven header fields')
}

/** A key is the word before an unescaped equals sign, behind a space; all before that space belongs to the value before. */
function extensionOf(text: string): Map<string, string> {
  const reported = new Map<string, string>()
  let key: string | undefined
  let value = ''
  for (let at = 0; at < text.length; at++) {
    const unit = text[at] as string
    if (unit === '\\') {
      const next = text[++at] ?? ''
      const meant = { '\\': '\\', '=': '=', n: '\n', r: '\r' }[next]
      if (meant === undefined) throw new Error('an escape that extensions do not know')
      value += meant === '\\' || meant === '=' ? `\0${meant}` : meant
    } else if (unit === '=') {
      const next = /(?:^| )([A-Za-z0-9]+)$/.exec(value)
      if (!next) throw new Error('an equals sign without a key')
      if (key !== undefined) put(reported, key, value.slice(0, next.index))
      else if (next.index !== 0 || value.startsWith(' ')) throw new Error('text before the first key')
      key = next[1]
      value = ''
    } else value += unit
  }
  if (key !== undefined) put(reported, key, value)
  return reported
}

/** While reading, a zero marks what was escaped: such a character is no part of a key. */
function put(reported: Map<string, string>, key: string, value: string): void {
  if (reported.has(key)) throw new Error(`the key ${key} stands twice`)
  if (value === '') throw new Error(`the key ${key} has no value`)
  reported.set(key, value.replaceAll('\0', ''))
}

function check(key: string, value: string, extension: ReadonlyMap<string, string>): void {
  const rule = dictionary.get(key)
  if (rule === undefined) throw new Error(`the key ${key} is not in the dictionary`)
  if (typeof rule === 'number' ? value.length > rule : !rule.test(value))
    throw new Error(`${key} may not hold this`)
  if (/^(?:cs|cn|c6a)\d$/.test(key) && !extension.has(`${key}Label`)) throw new Error(`${key} has no label`)
  if (key.endsWith('Label') && !extension.has(key.slice(0, -5))) throw new Error(`${key} labels nothing`)
}
