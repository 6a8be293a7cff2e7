// Reads JSON for tests that compare any keys: JSON.parse of current V8 misreads some keys that are written with escapes (nodejs/node#63785).

/** Objects as maps, the last of equal keys counts; numbers as they are written, so that none is rounded. */
export type Json =
  string | boolean | null | readonly Json[] | ReadonlyMap<string, Json> | { readonly number: string }

const token =
  /[ \t\r\n]*(?:("(?:[^"\\\p{Cc}]|\\.|[\x7f-\x9f])*")|(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)|(true|false|null|[[\]{},:]))[ \t\r\n]*/uy

/** Throws if it is no JSON. */
export function readJson(text: string): Json {
  let at = 0

  /** Strings come with their opening quote before them, numbers with a `#`. */
  function next(): string {
    token.lastIndex = at
    const [whole, string, number, other] = token.exec(text) ?? ['']
    if (whole === '') throw new Error(`no JSON at ${at}`)
    at += whole.length
    if (string !== undefined) return `"${JSON.parse(string) as string}`
    return number !== undefined ? `#${number}` : (other ?? '')
  }

  function value(first: string): Json {
    if (first.startsWith('"')) return first.slice(1)
    if (first.startsWith('#')) return { number: first.slice(1) }
    if (first === '[') return list()
    if (first === '{') return object()
    if (first === 'null') return null
    if (first !== 'true' && first !== 'false') throw new Error(`no value before ${at}`)
    return first === 'true'
  }

  function list(): Json {
    const found: Json[] = []
    let one = next()
    if (one === ']') return found
    for (;;) {
      found.push(value(one))
      const then = next()
      if (then === ']') return found
      if (then !== ',') throw new Error(`no comma before ${at}`)
      one = next()
    }
  }

  function object(): Json {
    const found = new Map<string, Json>()
    let key = next()
    if (key === '}') return found
    for (;;) {
      if (!key.startsWith('"') || next() !== ':') throw new Error(`no key before ${at}`)
      found.set(key.slice(1), value(next()))
      const then = next()
      if (then === '}') return found
      if (then !== ',') throw new Error(`no comma before ${at}`)
      key = next()
    }
  }

  const read = value(next())
  if (at !== text.length) throw new Error(`more than one value at ${at}`)
  return read
}
