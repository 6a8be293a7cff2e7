// Reads what is asked of the assistant (spec §2.7): JSON or a form, checked against the documented limits.
import { assistantModels, PROMPT_CHARACTERS, PROMPT_CHARACTERS_WITH_FILE } from '../model/assistant-limits.ts'
import type { Call } from './area.ts'
import { fieldsOf, readForm } from './multipart.ts'
import type { Part } from './multipart.ts'
import { documented } from './replies.ts'

export interface Prompt {
  readonly prompt: string
  readonly stream: boolean
  /** empty when not given, as are the next two */
  readonly mode: string
  readonly model: string
  /** its name */
  readonly file: string
}

const models: readonly string[] = assistantModels
const NO_PROMPT = documented.assistant[400]

interface Given {
  readonly prompt: unknown
  readonly stream: unknown
  readonly mode: unknown
  readonly model: unknown
  readonly file: string
}

function fromJson(body: Uint8Array): Given | undefined {
  try {
    const value: unknown = JSON.parse(Buffer.from(body).toString())
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
    const { prompt, stream, mode, model } = value as Record<string, unknown>
    return { prompt, stream, mode, model, file: '' }
  } catch {
    return undefined
  }
}

function fromForm(parts: readonly Part[], fileField: string): Given {
  const one = (name: string) => fieldsOf(parts, name)[0]
  const stream = one('stream')
  const file = parts.find(({ name, fileName }) => name === fileField && fileName !== undefined)
  return {
    prompt: one('prompt'),
    stream: stream === 'true' ? true : stream === 'false' ? false : stream,
    mode: one('mode'),
    model: one('model'),
    file: file?.fileName ?? '',
  }
}

/** A body of a kind that is not accepted is as good as none: nothing says another status for it. */
function givenOf({ headers, body, switches }: Call): Given | undefined {
  const type = headers['content-type'] ?? ''
  const { assistant_accepts: accepts } = switches
  if (/^application\/json\b/i.test(type)) return accepts === 'form' ? undefined : fromJson(body)
  const parts = accepts === 'json' ? undefined : readForm(type, body)
  return parts && fromForm(parts, switches.assistant_file_field)
}

function word(value: unknown): string | undefined {
  if (value === undefined || value === null) return ''
  return typeof value === 'string' ? value : undefined
}

/** What is asked; a text when it is refused: the message of the 400. */
export function readPrompt(call: Call): Prompt | string {
  const given = givenOf(call)
  if (!given || typeof given.prompt !== 'string' || given.prompt === '') return NO_PROMPT
  const { prompt, stream = false, file } = given
  const most = file === '' ? PROMPT_CHARACTERS : PROMPT_CHARACTERS_WITH_FILE
  if (Array.from(prompt).length > most)
    return `Prompt exceeds ${most} characters${file === '' ? '' : ' with a file attached'}`
  if (typeof stream !== 'boolean') return 'Invalid stream parameter'
  const [mode, model] = [word(given.mode), word(given.model)]
  // Other values than `draft` are not shown (§2.7): any word may be one.
  if (mode === undefined || !/^\w{0,40}$/.test(mode)) return 'Invalid mode parameter'
  if (model === undefined || (model !== '' && !models.includes(model))) return 'Invalid model parameter'
  return { prompt, stream, mode, model, file }
}
