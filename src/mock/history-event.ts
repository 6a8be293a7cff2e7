// The content of history events (spec §2.3, §2.4), derived from the audit entry of the question.
import type { Random } from '../core/clock.ts'
import { HOUR_MS } from '../core/time.ts'
import type { Entry } from './entry.ts'
import { matterId, playbooks, projectName, projectOf, reviewTableOf, spaces, workflows } from './people.ts'
import { answer, escaped, question, withOddity } from './prose.ts'
import { below, dice, keyedBy, listOf, mix, pick } from './random.ts'
import type { Fields } from './render.ts'
import { stampOf } from './render.ts'

/** Values of product_surface_area (spec §2.3). */
type Surface = 'ASSISTANT' | 'VAULT' | 'PLAYBOOK' | 'WORKFLOW' | 'WORD' | 'MAIL' | 'DRAFT'

interface QuestionKind {
  /** one is chosen */
  readonly surfaces: readonly Surface[]
  readonly accessPoint: string
  readonly action: string
  /** false: nothing was asked or answered, so there is only a usage event */
  readonly hasText: boolean
}

const assistant = [...Array<Surface>(4).fill('ASSISTANT'), 'WORKFLOW', 'DRAFT', 'VAULT'] as const

const kind = (
  surface: Surface | readonly Surface[],
  accessPoint: string,
  action: string,
  hasText = true,
) => ({
  surfaces: [surface].flat(),
  accessPoint,
  action,
  hasText,
})
const word = (action: string) => kind('WORD', 'WORD_ADD_IN', action)

/** Audit entries that ask something: each has a usage event, and mostly a query event. */
const kinds = new Map<string, QuestionKind>([
  ['user:create_query', kind(assistant, 'WEB', 'CREATE')],
  ['api:create_query', kind('ASSISTANT', 'API', 'CREATE')],
  ['user:create_vault_review_query', kind('VAULT', 'WEB', 'CREATE')],
  ['user:rerun_vault_review_queries', kind('VAULT', 'WEB', 'RUN')],
  ['user:semantic_search_with_vault_folder', kind('VAULT', 'WEB', 'SEARCH')],
  ['user:create_playbook', kind('PLAYBOOK', 'WEB', 'CREATE', false)],
  ['user:review_playbook_document', kind('PLAYBOOK', 'WEB', 'RUN')],
  ['user:playbook_suggest', kind('PLAYBOOK', 'WORD_ADD_IN', 'RUN')],
  ['user:word_add_in_ask', word('CREATE')],
  ['user:word_add_in_docx_drafting', word('DRAFT')],
  ['user:word_add_in_proofread_document', word('RUN')],
  ['user:word_redact', word('RUN')],
  ['user:word_fill_template', word('RUN')],
  ['user:word_suggest', word('CREATE')],
  ['user:word_add_in_translation', word('RUN')],
  ['user:mail_add_in_ask', kind('MAIL', 'MAIL_ADD_IN', 'CREATE')],
])

/** @internal for tests */
export const questionTypes: readonly string[] = [...kinds.keys()]

export const isQuestion = ({ type }: Entry): boolean => kinds.has(type)

/** Whether the question has a query event, too. */
export const hasText = ({ type }: Entry): boolean => kinds.get(type)?.hasText === true

/** A question asked through the API, with its answer. */
export interface Completion {
  readonly prompt: string
  readonly response: string
  readonly mode: string
  readonly model: string
  /** name of the attached file; empty if there is none */
  readonly file: string
}

/** Of one workspace. */
interface EventSource {
  readonly seed: number
  readonly domain: string
  /** share of events in unusual but legal spellings */
  readonly exotic: number
  readonly completions: ReadonlyMap<string, Completion>
}

const MATTERS = 40
const documentNames = listOf(
  'Agreement.docx; Side letter (signed).pdf; Data room index.xlsx; Minutes, March.docx',
)

/** `YYYY-MM-DD HH:MM:SS`, UTC. */
const secondOf = (us: number) => stampOf(us).slice(0, 19).replace('T', ' ')

/** Hashed from the entry's id, not counted, so that any range can be created separately. */
export function usageId(entry: Entry, seed: number): string {
  const hex = [11, 12, 13, 14].map((salt) => keyedBy(entry.id, mix(seed, salt)).toString(16).padStart(8, '0'))
  const id = hex.join('')
  const variant = ((parseInt(id.slice(16, 17), 16) & 3) | 8).toString(16)
  return `${id.slice(0, 8)}-${id.slice(8, 12)}-4${id.slice(13, 16)}-${variant}${id.slice(17, 20)}-${id.slice(20)}`
}

function subsurfaceOf(surface: Surface, type: string, random: Random): string {
  const thread = random() < 0.6 ? 'ASSISTANT_THREAD' : 'ASSISTANT_THREAD_FOLLOWUP'
  switch (surface) {
    case 'VAULT':
      if (type === 'user:create_query') return thread
      return type === 'user:semantic_search_with_vault_folder' ? '' : 'REVIEW_TABLE'
    case 'WORKFLOW': {
      const run = random() < 0.8 ? 'WORKFLOW_PUBLISHED' : 'WORKFLOW_TEST'
      return random() < 0.4 ? `${thread}, ${run}` : run
    }
    case 'PLAYBOOK':
      return ''
    default:
      return type === 'api:create_query' ? 'ASSISTANT_THREAD' : thread
  }
}

/** Follow-ups of a user within an hour share a thread. */
function threadOf({ id, user, atUs }: Entry, subsurface: string): number {
  const from = subsurface.includes('FOLLOWUP') ? `${user} ${Math.floor(atUs / 3600e6)}` : id
  return 1_000_000 + (keyedBy(from, 21) % 2_000_000_000)
}

function metadataOf(completion: Completion | undefined, random: Random, odd: boolean): string {
  if (odd && random() < 0.5)
    return '{"request_id":9007199254740993,"tokens":18446744073709551615,"ratio":1.0000000000000000001,"nested":{"a":[{"b":[[]]}]}}'
  if (completion) {
    const { mode, model, file } = completion
    return JSON.stringify({ ...(mode && { mode }), ...(model && { model }), ...(file && { files: [file] }) })
  }
  if (random() < 0.6) return '{}'
  const [documents, files] = [below(random, 9), [pick(random, documentNames)]]
  return JSON.stringify({ documents, files, latency_ms: below(random, 40_000) })
}

interface Draft {
  readonly usage: Fields
  readonly surface: Surface
  readonly completion: Completion | undefined
  readonly random: Random
  readonly odd: boolean
}

const texts = (fields: Readonly<Record<string, string>>): Fields =>
  Object.entries(fields).map(([name, text]) => [name, JSON.stringify(text)])

/** The same draws for every caller, so that usage and query event agree. */
function draftOf(entry: Entry, { seed, exotic, completions }: EventSource): Draft {
  const random = dice(keyedBy(entry.id, seed))
  const odd = random() < exotic
  const completion = completions.get(entry.id)
  const { surfaces, accessPoint, action } = kinds.get(entry.type) ?? kind('ASSISTANT', 'WEB', 'CREATE')
  const surface = kinds.has(entry.type) ? pick(random, surfaces) : 'ASSISTANT'
  const subsurface = subsurfaceOf(surface, entry.type, random)
  const matter = random() < 0.7 && !completion ? matterId(below(random, MATTERS)) : ''
  const playbook = surface === 'PLAYBOOK' ? pick(random, playbooks) : ''
  const space = random() < 0.08 ? pick(random, spaces) : ''
  const workflow = surface === 'WORKFLOW' ? pick(random, workflows) : ''
  const source = completion ? '' : pick(random, ['', '', 'FILES', 'WEB_SEARCH'])
  const usage: Fields = [
    ...texts({
      unique_usage_id: usageId(entry, seed),
      utc_time: secondOf(entry.atUs),
      user: entry.user,
      product_surface_area: surface,
      subsurface,
      access_point: accessPoint,
      action,
      cm_id: matter,
    }),
    ['parent_thread_id', String(threadOf(entry, subsurface))],
    ...texts({
      source: surface === 'VAULT' ? 'VAULT' : source,
      playbook_name: playbook,
      review_table_name: subsurface === 'REVIEW_TABLE' ? reviewTableOf(entry.id) : '',
      space_name: space,
      vault_project_name: surface === 'VAULT' ? projectName(projectOf(entry.id)) : '',
      workflow_name: workflow,
    }),
    ['metadata', metadataOf(completion, random, odd)],
  ]
  return { usage, surface, completion, random, odd }
}

/** Question and answer; `mark` is before the answer's last quote, for text to be filled in. */
function textsOf({ completion, random, odd }: Draft, mark: string): Fields {
  const own = { prompt: question(random), response: answer(random) }
  let { prompt, response } = completion ?? own
  if (odd && !completion) {
    prompt = withOddity(prompt, random)
    response = withOddity(response, random)
  }
  const spell = odd && random() < 0.2 ? escaped : JSON.stringify
  return [
    ['query', spell(prompt)],
    ['response', `${spell(response).slice(0, -1)}${mark}"`],
  ]
}

interface Shape {
  readonly fields: Fields
  /** source of its spelling; undefined: compact */
  readonly odd: Random | undefined
}

const shapeOf = ({ random, odd }: Draft, fields: Fields): Shape => ({ fields, odd: odd ? random : undefined })

export function usageEvent(entry: Entry, source: EventSource): Shape {
  const draft = draftOf(entry, source)
  return shapeOf(draft, draft.usage)
}

export function queryEvent(entry: Entry, source: EventSource, feedback: Feedback, mark = ''): Shape {
  const draft = draftOf(entry, source)
  return shapeOf(draft, [
    ...draft.usage,
    ...textsOf(draft, mark),
    ...texts({
      feedback_comments: feedback.comments,
      feedback_sentiments: feedback.sentiments,
      link: `https://app.${source.domain}/history/${usageId(entry, source.seed)}`,
    }),
  ])
}

const tasks: Readonly<Record<Surface, string>> = {
  ASSISTANT: 'Assistant',
  VAULT: 'Vault',
  PLAYBOOK: 'Playbook',
  WORKFLOW: 'Workflow',
  WORD: 'Word add-in',
  MAIL: 'Email add-in',
  DRAFT: 'Draft',
}

/** A row of v1: no id, no feedback; rows of the same second and content are identical bytes. */
export function rowOf(
  entry: Entry,
  source: EventSource,
  with_: { readonly time: boolean; readonly texts: boolean; readonly mark: string },
): Shape {
  const draft = draftOf(entry, source)
  const named = new Map(draft.usage)
  const hasDocument = dice(keyedBy(entry.id, 31))() >= 0.6
  return shapeOf(draft, [
    ...(with_.time ? texts({ timestamp: secondOf(entry.atUs) }) : []),
    ...texts({ email: entry.user, Task: tasks[draft.surface] }),
    ['Client Matter #', named.get('cm_id') ?? '""'],
    ...texts({ Documents: hasDocument ? (documentNames[mix(entry.atUs, 3) % 4] ?? '') : '' }),
    ['source', named.get('source') ?? '""'],
    ...(with_.texts ? textsOf(draft, with_.mark) : []),
  ])
}

/** Feedback on an answer: a version of its query event, which question and time determine. */
export interface Feedback {
  /** epoch ms: from when on the event has it */
  readonly from: number
  readonly comments: string
  readonly sentiments: string
}

export const noFeedback: Feedback = { from: 0, comments: '', sentiments: '' }

const opinions = [
  ['POSITIVE', ''],
  ['POSITIVE', 'Exactly what the client asked.'],
  ['NEGATIVE', 'Clause 14.2 was overlooked, "again".'],
  ['NEGATIVE', 'Zitiert ein Urteil, das es nicht gibt 😕'],
] as const

/** The first is empty. One event in twelve gets another within two days, one in fifty a third. */
export function feedbackOf(entry: Entry, { seed, completions }: EventSource): Feedback[] {
  const random = dice(keyedBy(entry.id, seed ^ 0x5eed))
  const all: Feedback[] = [{ ...noFeedback, from: entry.historyAt }]
  if (completions.has(entry.id) || random() >= 1 / 12) return all
  let from = Math.floor(entry.atUs / 1000)
  const times = random() < 0.25 ? 2 : 1
  for (let number = 1; number <= times; number++) {
    from += HOUR_MS + below(random, 47 * HOUR_MS)
    const [sentiments, opinion] = pick(random, opinions)
    all.push({ from, comments: number === 2 ? `${opinion} (edited)` : opinion, sentiments })
  }
  return all
}
