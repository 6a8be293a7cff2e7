// Converts YAML to plain values with the position of each key and value. Bounded in size and depth.
import { isAlias, isMap, isScalar, isSeq, LineCounter, parseDocument, visit } from 'yaml'
import type { Alias, Document, Node, YAMLError } from 'yaml'
import { fileFault, isShowable, type Fault, type Path, type Place } from './faults.ts'

/** Far above any real configuration; nested aliases end here. */
const MOST_NODES = 50_000
const MOST_DEPTH = 40

export interface ConfigDocument {
  readonly value: unknown
  readonly faults: readonly Fault[]
  /** Position of the value under `path`, or of its nearest existing parent. */
  valueAt(path: Path): Place
  keyAt(path: Path): Place
  has(path: Path): boolean
}

export function pathKey(path: Path): string {
  return JSON.stringify(path)
}

// yaml's own messages may quote the text, and so a secret.
const syntaxMessages: Readonly<Partial<Record<YAMLError['code'], string>>> = {
  TAB_AS_INDENT: 'a tab indents here: use spaces',
  BAD_INDENT: 'the indentation fits no line above, or a bracket is not closed: line it up, or close it',
  BLOCK_AS_IMPLICIT_KEY:
    'a mapping begins within a value: start a new line, put quotes around the value, or use the indentation of the keys above',
  MULTILINE_IMPLICIT_KEY:
    'not valid as a key: a space after its colon may be missing, or the indentation be wrong',
  MISSING_CHAR:
    'check this line and the ones above: their indentation, then closing quotes and brackets, commas, and colons with a space after them',
  BAD_DQ_ESCAPE: 'an unknown escape within double quotes: use single quotes, or two backslashes',
  BAD_SCALAR_START: 'a value may not begin with this character unless it is quoted',
  MULTIPLE_DOCS: 'a second document begins here: use one per file',
  TAG_RESOLVE_FAILED: 'a tag (!…) that is unknown: put quotes around the value if it begins with !',
  UNEXPECTED_TOKEN:
    'not valid here: within { } and [ ] put ${…} in quotes; otherwise check the quotes and the indentation of this line and the one above',
}

/** Resolves all aliases in one pass: yaml's `resolve` walks the whole document each time. */
function aliasesOf(document: Document): ReadonlyMap<Alias, Node> {
  const anchors = new Map<string, Node>()
  const aliases = new Map<Alias, Node>()
  visit(document, {
    Alias(_, alias) {
      const node = anchors.get(alias.source)
      if (node) aliases.set(alias, node)
    },
    Value(_, node) {
      if (node.anchor !== undefined) anchors.set(node.anchor, node)
    },
  })
  return aliases
}

interface Walk {
  readonly aliases: ReadonlyMap<Alias, Node>
  readonly places: Map<string, { key: number; value: number }>
  readonly faults: { path: Path; at: number; message: string }[]
  nodes: number
  /** reported once; the rest of the walk only returns */
  isOverLimit: boolean
}

/** Rejects text with invalid UTF-8: a misread name would make a rule match nothing. */
function rejectInvalidUtf8(walk: Walk, text: unknown, path: Path, at: number): void {
  if (typeof text !== 'string' || !text.includes('\ufffd')) return
  const message = 'the file has bytes here that are not UTF-8: save it as UTF-8'
  walk.faults.push({ path, at, message })
}

function valueOf(walk: Walk, given: Node | null, path: Path, keyOffset: number, depth: number): unknown {
  const at = given?.range?.[0] ?? keyOffset
  walk.places.set(pathKey(path), { key: keyOffset, value: at })
  if (walk.isOverLimit) return undefined
  if (++walk.nodes > MOST_NODES || depth > MOST_DEPTH) {
    walk.isOverLimit = true
    // A path deep inside a cycle would not help.
    walk.faults.push({
      path: path.slice(0, 1),
      at,
      message: 'too large or too deep: its aliases may be nested, or lead in a circle',
    })
    return undefined
  }
  const node = isAlias(given) ? walk.aliases.get(given) : given
  if (isAlias(given) && !node)
    walk.faults.push({
      path,
      at,
      message: 'an alias of an unknown anchor: put quotes around the value if it begins with *',
    })
  if (isMap(node)) return mapOf(walk, node.items, path, depth)
  if (isSeq(node))
    return node.items.map((item, i) => valueOf(walk, item as Node, [...path, i], at, depth + 1))
  if (!isScalar(node)) return undefined
  rejectInvalidUtf8(walk, node.value, path, at)
  return node.value
}

type Pairs = readonly { readonly key: unknown; readonly value: unknown }[]

function mapOf(walk: Walk, pairs: Pairs, path: Path, depth: number): Record<string, unknown> {
  // No prototype: `__proto__` is an ordinary key and rejected as unknown.
  const map = Object.create(null) as Record<string, unknown>
  for (const pair of pairs) {
    const node = pair.key as Node | null
    const at = node?.range?.[0] ?? 0
    const key = isScalar(node) ? String(node.value) : undefined
    if (key === undefined) {
      walk.faults.push({
        path,
        at,
        message: 'a key that is not text: use a word, or put quotes around a value that begins with { or [',
      })
      continue
    }
    const under = [...path, key]
    rejectInvalidUtf8(walk, key, path, at)
    if (key in map) {
      walk.faults.push({
        path: under,
        at,
        message: `${isShowable(key) ? 'the key' : 'a key'} appears twice: keep one`,
      })
      continue
    }
    map[key] = valueOf(walk, pair.value as Node | null, under, at, depth + 1)
  }
  return map
}

/** The first error of each line; later errors without a clear cause are usually consequences. */
function syntaxFaults(document: Document, placeOf: (offset: number) => Place, file: string): Fault[] {
  const byLine = new Map<number, Fault>()
  for (const error of [...document.errors, ...document.warnings].sort((a, b) => a.pos[0] - b.pos[0])) {
    const place = placeOf(error.pos[0])
    if (byLine.has(place.line) || (byLine.size > 0 && error.code === 'UNEXPECTED_TOKEN')) continue
    const message = `not valid YAML: ${syntaxMessages[error.code] ?? 'not understood'}`
    byLine.set(place.line, { file, ...place, path: [], message })
  }
  return [...byLine.values()]
}

/** UTF-16 read as UTF-8: its byte order mark is invalid, and every other byte is zero. */
const isUtf16 = (text: string): boolean => /^\ufffd\ufffd|\0/.test(text)

export function readDocument(file: string, text: string): ConfigDocument {
  // Editors do not count a byte order mark as a column.
  if (!isUtf16(text)) return documentOf(file, text.replace(/^\ufeff/, ''))
  const fault = fileFault(file, 'the file is not UTF-8, perhaps UTF-16: save it as UTF-8')
  return { ...documentOf(file, ''), faults: [fault] }
}

function documentOf(file: string, text: string): ConfigDocument {
  const lineCounter = new LineCounter()
  // `valueOf` finds duplicate keys, since it knows their path.
  const document = parseDocument(text, {
    lineCounter,
    prettyErrors: false,
    uniqueKeys: false,
  })
  const placeOf = (offset: number): Place => {
    const { line, col } = lineCounter.linePos(offset)
    return { line: Math.max(line, 1), column: Math.max(col, 1) }
  }
  const syntax = syntaxFaults(document, placeOf, file)
  const aliases = syntax.length > 0 ? new Map<Alias, Node>() : aliasesOf(document)
  const walk: Walk = { aliases, places: new Map(), faults: [], nodes: 0, isOverLimit: false }
  // Further checks of a broken document would report only consequences.
  const read = syntax.length > 0 ? undefined : valueOf(walk, document.contents, [], 0, 0)
  const nearest = (path: Path): { key: number; value: number } => {
    for (let length = path.length; length > 0; length--) {
      const found = walk.places.get(pathKey(path.slice(0, length)))
      if (found) return found
    }
    return walk.places.get(pathKey([])) ?? { key: 0, value: 0 }
  }
  return {
    value: walk.isOverLimit ? undefined : read,
    faults: [
      ...syntax,
      ...walk.faults.map(({ path, at, message }) => ({ file, ...placeOf(at), path, message })),
    ],
    valueAt: (path) => placeOf(nearest(path).value),
    keyAt: (path) => placeOf(nearest(path).key),
    has: (path) => walk.places.has(pathKey(path)),
  }
}
