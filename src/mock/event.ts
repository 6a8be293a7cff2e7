// The content of a history event: every documented field (spec §2.3, §2.4), and rows of v1 with the
// known columns (§2.4).
import type { Random } from '../core/clock.ts'
import { HOUR_MS } from '../core/time.ts'
import {
  keyedBy,
  matterId,
  playbooks,
  projectName,
  projectOf,
  reviewTableOf,
  spaces,
  workflows,
} from './people.ts'
import { answer, escaped, question, withOddity } from './prose.ts'
import { askKindOf } from './questions.ts'
import type { Ask, Surface } from './questions.ts'
import { below, dice, mix, pick } from './random.ts'
import type { MemberFields } from './render.ts'

const MATTERS = 40
const documentNames = [
  'Agreement.docx',
  'Side letter (signed).pdf',
  'Data room index.xlsx',
  'Minutes, March.docx',
]

/** Of one workspace. */
interface EventSource {
  readonly seed: number
  readonly domain: string
  /** share of events in unusual but legal spellings */
  readonly exotic: number
}

/** `YYYY-MM-DD HH:MM:SS`, UTC. */
function secondOf(us: number): string {
  return new Date(Math.floor(us / 1e6) * 1000).toISOString().slice(0, 19).replace('T', ' ')
}

function hex(entryId: string, seed: number, salt: number): string {
  return keyedBy(entryId, mix(seed, salt)).toString(16).padStart(8, '0')
}

/** Hashed from the audit entry's id, 122 bits: no counter, so that any range can be created separately. */
export function usageId(ask: Ask, seed: number): string {
  const [a, b, c, d] = [11, 12, 13, 14].map((salt) => hex(ask.entryId, seed, salt)) as [
    string,
    string,
    string,
    string,
  ]
  const variant = ((parseInt(c.slice(0, 1), 16) & 3) | 8).toString(16)
  return `${a}-${b.slice(0, 4)}-4${b.slice(5)}-${variant}${c.slice(1, 4)}-${c.slice(4)}${d}`
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
function threadOf(ask: Ask, subsurface: string): number {
  const from = subsurface.includes('FOLLOWUP') ? `${ask.user} ${Math.floor(ask.atUs / 3600e6)}` : ask.entryId
  return 1_000_000 + (keyedBy(from, 21) % 2_000_000_000)
}

function metadataOf(ask: Ask, random: Random, odd: boolean): string {
  if (odd && random() < 0.5)
    return '{"request_id":9007199254740993,"tokens":18446744073709551615,"ratio":1.0000000000000000001,"nested":{"a":[{"b":[[]]}]}}'
  const { completion } = ask
  if (completion) {
    const { mode, model, file } = completion
    return JSON.stringify({ ...(mode && { mode }), ...(model && { model }), ...(file && { files: [file] }) })
  }
  return random() < 0.6
    ? '{}'
    : `{"documents":${below(random, 9)},"files":[${JSON.stringify(pick(random, documentNames))}],"latency_ms":${below(random, 40_000)}}`
}

const text = (value: string) => JSON.stringify(value)

interface Drawn {
  readonly usage: MemberFields
  readonly surface: Surface
  readonly random: Random
  readonly odd: boolean
}

/** The same draws for every caller, so that usage and query event agree. */
function drawn(ask: Ask, { seed, exotic }: EventSource): Drawn {
  const random = dice(keyedBy(ask.entryId, seed))
  const odd = random() < exotic
  const kind = askKindOf(ask.type)
  const surface = kind ? pick(random, kind.surfaces) : 'ASSISTANT'
  const subsurface = subsurfaceOf(surface, ask.type, random)
  const about = {
    matter: random() < 0.7 && !ask.completion ? matterId(below(random, MATTERS)) : '',
    playbook: surface === 'PLAYBOOK' ? pick(random, playbooks) : '',
    space: random() < 0.08 ? pick(random, spaces) : '',
    workflow: surface === 'WORKFLOW' ? pick(random, workflows) : '',
    source: ask.completion ? '' : pick(random, ['', '', 'FILES', 'WEB_SEARCH']),
  }
  const usage: MemberFields = [
    ['unique_usage_id', text(usageId(ask, seed))],
    ['utc_time', text(secondOf(ask.atUs))],
    ['user', text(ask.user)],
    ['product_surface_area', text(surface)],
    ['subsurface', text(subsurface)],
    ['access_point', text(kind?.accessPoint ?? 'WEB')],
    ['action', text(kind?.action ?? 'CREATE')],
    ['cm_id', text(about.matter)],
    ['parent_thread_id', String(threadOf(ask, subsurface))],
    ['source', text(surface === 'VAULT' ? 'VAULT' : about.source)],
    ['playbook_name', text(about.playbook)],
    ['review_table_name', text(subsurface === 'REVIEW_TABLE' ? reviewTableOf(ask.entryId) : '')],
    ['space_name', text(about.space)],
    ['vault_project_name', text(surface === 'VAULT' ? projectName(projectOf(ask.entryId)) : '')],
    ['workflow_name', text(about.workflow)],
    ['metadata', metadataOf(ask, random, odd)],
  ]
  return { usage, surface, random, odd }
}

interface Texts {
  readonly query: string
  readonly response: string
}

/** JSON strings; `mark` is before the response's last quote, for text to be filled in. */
function textsOf(ask: Ask, { random, odd }: Drawn, mark: string): Texts {
  const { completion } = ask
  const own = { query: question(random), response: answer(random) }
  let query = completion?.prompt ?? own.query
  let response = completion?.response ?? own.response
  if (odd && !completion) {
    query = withOddity(query, random)
    response = withOddity(response, random)
  }
  const spell = odd && random() < 0.2 ? escaped : text
  return { query: spell(query), response: `${spell(response).slice(0, -1)}${mark}"` }
}

export interface Shape {
  readonly fields: MemberFields
  /** source of its layout */
  readonly odd: Random | undefined
}

const odded = ({ random, odd }: Drawn) => (odd ? random : undefined)

export function usageEvent(ask: Ask, source: EventSource): Shape {
  const draw = drawn(ask, source)
  return { fields: draw.usage, odd: odded(draw) }
}

export function queryEvent(ask: Ask, source: EventSource, remark: Remark, mark: string): Shape {
  const draw = drawn(ask, source)
  const { query, response } = textsOf(ask, draw, mark)
  const link = `https://app.${source.domain}/history/${usageId(ask, source.seed)}`
  const fields: MemberFields = [
    ...draw.usage,
    ['query', query],
    ['response', response],
    ['feedback_comments', text(remark.comments)],
    ['feedback_sentiments', text(remark.sentiments)],
    ['link', text(link)],
  ]
  return { fields, odd: odded(draw) }
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

/** v1: no id, no feedback; rows of the same second and content are identical bytes. */
export function rowOf(
  ask: Ask,
  source: EventSource,
  shown: { readonly time: boolean; readonly texts: boolean; readonly mark: string },
): Shape {
  const draw = drawn(ask, source)
  const named = new Map(draw.usage)
  const documents = dice(keyedBy(ask.entryId, 31))() < 0.6 ? [] : [documentNames[mix(ask.atUs, 3) % 4]]
  const texts = shown.texts ? textsOf(ask, draw, shown.mark) : undefined
  const fields: MemberFields = [
    ...(shown.time ? [['timestamp', text(secondOf(ask.atUs))] as const] : []),
    ['email', text(ask.user)],
    ['Task', text(tasks[draw.surface])],
    ['Client Matter #', named.get('cm_id') ?? '""'],
    ['Documents', text(documents.join(', '))],
    ['source', named.get('source') ?? '""'],
    ...(texts
      ? ([
          ['query', texts.query],
          ['response', texts.response],
        ] as const)
      : []),
  ]
  return { fields, odd: odded(draw) }
}

// Feedback on an answer, hours later: versions of a query event, as a function of its question and the time.

export interface Remark {
  /** epoch ms: from when on the event has it */
  readonly from: number
  readonly comments: string
  readonly sentiments: string
}

const words: readonly (readonly [sentiments: string, comments: string])[] = [
  ['POSITIVE', ''],
  ['POSITIVE', 'Exactly what the client asked.'],
  ['NEGATIVE', 'Clause 14.2 was overlooked, "again".'],
  ['NEGATIVE', 'Zitiert ein Urteil, das es nicht gibt 😕'],
]

/** The first one is empty; one event in twelve gets another one to two days later, one in fifty a third. */
export function remarksOf(ask: Ask, seed: number): Remark[] {
  const random = dice(keyedBy(ask.entryId, seed ^ 0x5eed))
  const remarks: Remark[] = [{ from: ask.visibleAt, comments: '', sentiments: '' }]
  if (ask.completion || random() >= 1 / 12) return remarks
  let from = Math.floor(ask.atUs / 1000)
  for (let times = random() < 0.25 ? 2 : 1; times > 0; times--) {
    from += HOUR_MS + below(random, 47 * HOUR_MS)
    const [sentiments, comments] = pick(random, words)
    remarks.push({
      from,
      comments: times === 1 && remarks.length > 1 ? `${comments} (edited)` : comments,
      sentiments,
    })
  }
  return remarks
}

/** The number of the remark at `now`, from 0. */
export function remarkAt(remarks: readonly Remark[], now: number): number {
  return Math.max(
    0,
    remarks.findLastIndex(({ from }) => from <= now),
  )
}
