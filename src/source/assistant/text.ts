// The assistant's answer as text, in whatever shape its body comes: JSON, server-sent events, a JSON object a line, or plain text.

/**
 * Names under which a reply may hold its text. The specification shows neither body (§4.4): this is how the reader copes, and
 * what is called otherwise is given as it came.
 */
const textNames = ['response', 'text', 'content', 'answer', 'completion', 'output', 'message', 'delta']

/** First bytes of a stream of server-sent events: a field or a comment. */
const eventStart = /^(?:data|event|id|retry)?:/

/** The text, piece by piece; `body` is bounded by whoever reads it. A JSON reply that was not asked for as a stream is one piece. */
export async function* assistantText(
  body: AsyncIterable<Uint8Array>,
  stream: boolean,
): AsyncGenerator<string> {
  const utf8 = new TextDecoder()
  let held = ''
  let read: ((text: string, over: boolean) => Iterable<string>) | undefined
  for await (const bytes of body) {
    held += utf8.decode(bytes, { stream: true })
    read ??= readerOf(held, stream)
    if (!read) continue
    yield* read(held, false)
    held = ''
  }
  held += utf8.decode()
  yield* (read ?? plain)(held, true)
}

/** Undefined as long as too little came to tell. */
function readerOf(begin: string, stream: boolean) {
  const text = begin.trimStart()
  if (text.startsWith('{') || text.startsWith('[') || text.startsWith('"')) return stream ? lines() : whole()
  if (eventStart.test(text)) return events()
  return text.length < 'retry:'.length ? undefined : plain
}

function* plain(text: string): Generator<string> {
  if (text !== '') yield text
}

function whole() {
  let all = ''
  return function* (text: string, over: boolean): Generator<string> {
    all += text
    if (over && all !== '') yield textOf(all) ?? all
  }
}

/** Whole lines of what came so far; the last one when it is over. */
function lineCutter() {
  let rest = ''
  return (text: string, over: boolean): string[] => {
    const cut = (rest + text).split(/\r\n|\n|\r(?!$)/)
    rest = over ? '' : (cut.pop() ?? '')
    return cut
  }
}

/** A JSON value a line; where a line is none, all from there on is one value, or text. */
function lines() {
  const cutter = lineCutter()
  let broken: string[] | undefined
  return function* (text: string, over: boolean): Generator<string> {
    for (const line of cutter(text, over)) {
      const said = broken || line.trim() === '' ? undefined : textOf(line)
      if (said !== undefined) yield said
      else if (broken || line.trim() !== '') (broken ??= []).push(line)
    }
    if (over && broken) {
      const all = broken.join('\n')
      yield textOf(all) ?? all
    }
  }
}

function events() {
  const cutter = lineCutter()
  let data: string[] = []
  return function* (text: string, over: boolean): Generator<string> {
    for (const line of [...cutter(text, over), ...(over ? [''] : [])]) {
      if (line.startsWith('data:')) data.push(line.slice(line.startsWith('data: ') ? 6 : 5))
      else if (line === '' && data.length > 0) {
        const said = data.join('\n')
        data = []
        if (said !== '[DONE]') yield textOf(said) ?? said
      }
    }
  }
}

/** What a JSON value calls its text; its own JSON where it calls nothing so. Undefined: it is no JSON. */
function textOf(json: string): string | undefined {
  try {
    return textIn(JSON.parse(json) as unknown, 4) ?? json
  } catch {
    return undefined
  }
}

function textIn(value: unknown, depth: number): string | undefined {
  if (typeof value === 'string') return value
  if (typeof value !== 'object' || value === null || depth === 0) return undefined
  for (const name of textNames) {
    const found = textIn((value as Record<string, unknown>)[name], depth - 1)
    if (found !== undefined) return found
  }
  return undefined
}
