// The workspace's projects, filtered, sorted and paged (spec §4.3), and the faults of a list that
// changes during reading.
import { perWorkspace } from './area.ts'
import type { Call } from './area.ts'
import { below, dice, mix } from './random.ts'
import { arranged, documented, failure, json } from './replies.ts'
import type { Page, Reply } from './replies.ts'
import { changeProject } from './vault-changes.ts'
import type { Project } from './vault-project.ts'

const MAX_PER_PAGE = 100
const USUAL_PER_PAGE = 20
const MAX_NAME = 256
const MAX_PAGE = 999_999_999
export const INVALID = 'Missing or invalid input'

function asked({ query }: Call) {
  return allValid({
    page: numberIn(query, 'page', 1, MAX_PAGE, 1),
    perPage: numberIn(query, 'per_page', 1, MAX_PER_PAGE, USUAL_PER_PAGE),
    name: textIn(query, 'name', MAX_NAME),
    knowledgeBase: flagIn(query, 'is_knowledge_base'),
    after: secondsIn(query, 'created_after'),
    before: secondsIn(query, 'created_before'),
    sortBy: wordIn(query, 'sort_by', ['date', 'name'], 'date'),
    order: wordIn(query, 'sort_order', ['asc', 'desc'], 'desc'),
  })
}

type Asked = NonNullable<ReturnType<typeof asked>>

function fits(project: Project, { name, knowledgeBase, after, before }: Asked): boolean {
  return (
    holds(project.name, name) &&
    (knowledgeBase === undefined || project.knowledgeBase === knowledgeBase) &&
    (after === undefined || project.createdUs >= after * 1e6) &&
    (before === undefined || project.createdUs < before * 1e6)
  )
}

/** Equal ones are ordered by id, in both directions. */
function sorted(projects: Project[], { sortBy, order }: Asked, call: Call): Project[] {
  const sign = order === 'asc' ? 1 : -1
  const dateOf = (project: Project) =>
    call.switches.project_date === 'updated_at' ? project.updatedUs : project.contentUs
  const compare =
    sortBy === 'name'
      ? (a: Project, b: Project) => byText(a.name, b.name)
      : (a: Project, b: Project) => dateOf(a) - dateOf(b)
  return projects.sort((a, b) => sign * compare(a, b) || byText(a.id, b.id))
}

function fitting(call: Call, given: Asked): Project[] {
  const { state } = call.workspace.vault
  return sorted(
    state.listed().filter((project) => fits(project, given)),
    given,
    call,
  )
}

/** Changes the list just before this answer, so that projects move between pages already read and pages to come. */
function shift(call: Call, given: Asked): void {
  const random = dice(mix(call.seed, call.ordinal))
  const projects = fitting(call, given).filter(({ goneUs }) => goneUs === undefined)
  const last = projects.at(-1)
  const first = projects[0]
  const by = call.now
  const kind = below(random, 3)
  if (kind === 0 && last) changeProject(call.workspace, { do: 'upload', project: last.id }, by)
  else if (kind === 1 && first)
    changeProject(call.workspace, { do: 'delete', project: first.id, atOnce: true }, by)
  else changeProject(call.workspace, { do: 'create', name: `Inserted ${call.ordinal}` }, by)
}

function skipping(call: Call, projects: Project[]): Project[] {
  const skipped = below(dice(mix(call.seed, call.ordinal)), projects.length)
  return projects.filter((_, index) => index !== skipped)
}

const served = perWorkspace(() => new Map<unknown, Page>())

function pageOf(elements: readonly Uint8Array[]): Page {
  const plain: Page = {
    count: 0,
    element: (index) => elements[index] ?? new Uint8Array(0),
    joined: () => new Uint8Array(0),
    show: () => undefined,
  }
  return arranged(
    plain,
    elements.map((_, index) => index),
  )
}

/** Applies the faults to a correct page. */
function bent(call: Call, honest: Page): Page {
  const { struck, workspace, key } = call
  const pages = served(workspace)
  const page = (struck.has('repeated_page') ? pages.get(key) : undefined) ?? honest
  if (honest.count > 0) pages.set(key, honest)
  let order = struck.has('empty_page') ? [] : Array.from({ length: page.count }, (_, index) => index)
  if (struck.has('shuffled_page')) {
    const own = mix(call.seed, call.ordinal)
    order = order.sort((a, b) => mix(own, a) - mix(own, b))
  }
  if (struck.has('duplicated'))
    order = order.flatMap((index, at) => (at % 4 === 0 ? [index, index] : [index]))
  return arranged(page, order)
}

/** `GET …/workspace/projects`. */
export function listProjects(call: Call): Reply {
  const given = asked(call)
  const { switches, workspace } = call
  if (!given) return failure(400, INVALID)
  const { after, before, page } = given
  if (after !== undefined && before !== undefined && before <= after && switches.created_range === '400')
    return failure(400, INVALID)
  if (call.struck.has('shifting_list')) shift(call, given)
  const all = fitting(call, given)
  const projects = call.struck.has('list_skips') && all.length > 0 ? skipping(call, all) : all
  const perPage = switches.per_page_cap > 0 ? Math.min(given.perPage, switches.per_page_cap) : given.perPage
  const from = (page - 1) * perPage
  const rendered = projects.slice(from, from + perPage).map((project) => workspace.vault.render(project))
  const shown = bent(call, pageOf(rendered))
  const total = projects.length
  const pagination = { page, per_page: perPage, total, total_pages: Math.ceil(total / perPage) }
  const opening = `{"response":{"content":{"pagination":${JSON.stringify(pagination)},"projects":[`
  const body = [Buffer.from(opening), shown.joined(','), Buffer.from(']}}}')]
  return { ...json(Number(switches.vault_status), body), page: shown }
}

/** The message of §7 for a missing project or file. */
export const notFound = (): Reply => failure(404, documented.vault[404])

// Query parameters of the vault's listings, parsed strictly: any other form is invalid input.
const INT64 = 2n ** 63n

/** Marks an invalid value of a parameter. */
const invalid = { isInvalid: true } as const
type Invalid = typeof invalid

/** An empty parameter counts as omitted. */
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

function flagIn(query: URLSearchParams, name: string): boolean | undefined | Invalid {
  const value = given(query, name)
  if (value === undefined) return undefined
  return value === 'true' || value === 'false' ? value === 'true' : invalid
}

/** At most `most` characters, counted as code points. */
export function textIn(query: URLSearchParams, name: string, most: number): string | undefined | Invalid {
  const value = given(query, name)
  return value !== undefined && Array.from(value).length > most ? invalid : value
}

/** Undefined if one of the values is invalid. */
export function allValid<T extends Record<string, unknown>>(
  values: T,
): { [K in keyof T]: Exclude<T[K], Invalid> } | undefined {
  if (Object.values(values).some((value) => value === invalid)) return undefined
  return values as { [K in keyof T]: Exclude<T[K], Invalid> }
}

/** By code points of the lower-case text, then of the original: the same on every machine. */
export function byText(a: string, b: string): number {
  const [x, y] = [a.toLowerCase(), b.toLowerCase()]
  if (x !== y) return x < y ? -1 : 1
  return a < b ? -1 : a > b ? 1 : 0
}

export function holds(text: string, part: string | undefined): boolean {
  return part === undefined || text.toLowerCase().includes(part.toLowerCase())
}
