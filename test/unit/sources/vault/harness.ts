// The vault source with its real client and journal before a workspace that a test may change between any two requests.
import { ingestOnce } from '../../../../src/ingest/loop.ts'
import type { IngestOptions } from '../../../../src/ingest/loop.ts'
import type { HttpReply, HttpRequest, Transport } from '../../../../src/contracts/platform.ts'
import type { Journal } from '../../../../src/contracts/journal.ts'
import { MemoryBudget } from '../../../../src/core/memory-budget.ts'
import { Secret } from '../../../../src/core/secret.ts'
import type { Cursor } from '../../../../src/contracts/source.ts'
import { RateLimiter } from '../../../../src/sources/http/rate-limiter.ts'
import { Client } from '../../../../src/sources/http/client.ts'
import { VaultSource } from '../../../../src/sources/vault/vault.ts'
import type { VaultOptions } from '../../../../src/sources/vault/vault.ts'
import { openVaultCursor } from '../../../../src/sources/vault/cursor.ts'
import { rawsOf } from '../../../contract/journal-parts.ts'
import { journalOfTest } from '../../../fakes/journal.ts'
import { LogLines } from '../../../fakes/sink-deps.ts'
import { SourceNotes } from '../../../fakes/reporters.ts'
import { VirtualClock } from '../../../simulation/virtual-clock.ts'
import { driven, HOUR, START } from '../../app/audit-harness.ts'

const stream = { workspace: 'acme', source: 'vault.projects' } as const

export interface FakeShare {
  readonly kind: 'user' | 'workspace'
  readonly who: number
  level: string
  readonly since: string
}

export interface FakeProject {
  readonly id: string
  name: string
  files: number
  flag: boolean
  readonly made: string
  updated: string
  shares: FakeShare[]
}

export const idOf = (n: number) => `10000000-0000-4000-8000-${n.toString(16).padStart(12, '0')}`
const userOf = (n: number) => `20000000-0000-4000-8000-${n.toString(16).padStart(12, '0')}`

/** How the pagination block answers, and how the list ends. */
export interface Manner {
  /** the server's own limit of a page */
  cap: number
  total: 'true' | 'none' | 'of_page' | 'too_high'
  beyond: 'empty' | 'not_found' | 'last_page_again'
  /** shares come in another order each time */
  shuffled: boolean
  /** the order of equal names is left to chance */
  ties: 'stable' | 'chance'
}

/** A workspace of the test's own making; its clock is the test's. */
export class FakeVault {
  readonly projects = new Map<string, FakeProject>()
  readonly requests: string[] = []
  readonly manner: Manner = { cap: 100, total: 'true', beyond: 'empty', shuffled: false, ties: 'stable' }
  /** called before each answer: an answer of its own, or undefined */
  instead: (
    page: number,
    request: HttpRequest,
  ) => (Partial<HttpReply> & { readonly text?: string }) | undefined = () => undefined
  /** elements before the projects of page 1, as they are written */
  strays: string[] = []
  /** as each project is written */
  written: (project: FakeProject) => string = (project) => this.text(project)
  dates = true
  /** another API in its place */
  elsewhere: Transport | undefined
  readonly #now: () => number
  #made = 0
  #turn = 0

  constructor(now: () => number) {
    this.#now = now
  }

  stamp(at = this.#now()): string {
    return new Date(at).toISOString().replace('Z', '000')
  }

  add(name: string, more: Partial<FakeProject> = {}): FakeProject {
    const now = this.stamp()
    const project = {
      ...{ id: idOf(++this.#made), name, files: 0, flag: false, made: now, updated: now, shares: [] },
      ...more,
    }
    this.projects.set(project.id, project)
    return project
  }

  touch(project: FakeProject): void {
    project.files++
    project.updated = this.stamp()
  }

  share(project: FakeProject, who: number, level = 'VIEW', kind: FakeShare['kind'] = 'user'): void {
    project.shares = project.shares.filter((share) => share.who !== who || share.kind !== kind)
    project.shares.push({ kind, who, level, since: this.stamp() })
  }

  text({ id, name, files, flag, made, updated, shares }: FakeProject): string {
    const lists = { user: [] as object[], workspace: [] as object[] }
    const ordered = this.manner.shuffled && this.#turn % 2 === 1 ? [...shares].reverse() : shares
    for (const { kind, who, level, since } of ordered)
      lists[kind].push({
        created_at: since,
        ...(kind === 'user' && { dest_user_email: `user-${who}@acme.test`, dest_user_id: userOf(who) }),
        dest_workspace_id: kind === 'user' ? 1 : who,
        permission_level: level,
        ...{ src_user_id: userOf(0), src_workspace_id: 1, vault_folder_id: id },
      })
    return JSON.stringify({
      ...{ id, name, creator_email: 'maker@acme.test', created_at: made, updated_at: updated },
      ...{ project_updated_at: updated, files_count: files, query_count: 0, size_bytes: files * 1000 },
      is_knowledge_base_project: flag,
      sharing: {
        ...{ user_count: lists.user.length, user_shares: lists.user },
        ...{ workspace_count: lists.workspace.length, workspace_shares: lists.workspace },
      },
    })
  }

  readonly transport: Transport = async (request, signal) => {
    if (this.elsewhere) return this.elsewhere(request, signal)
    const { searchParams } = new URL(request.url)
    this.requests.push(request.url.slice(request.url.indexOf('?') + 1))
    this.#turn++
    const page = Number(searchParams.get('page'))
    const { status = 200, headers, text } = this.instead(page, request) ?? {}
    const date = this.dates ? { date: new Date(this.#now()).toUTCString() } : {}
    const body = Buffer.from(text ?? (status === 200 ? this.#page(page, searchParams) : '{"error":"no"}'))
    const missing = text === undefined && status === 200 && body.length === 0
    return {
      status: missing ? 404 : status,
      headers: { 'content-type': 'application/json', ...date, ...headers },
      body: (async function* () {
        yield missing ? Buffer.from('{"error":"File not found"}') : body
      })(),
    }
  }

  #page(asked: number, query: URLSearchParams): string {
    const { cap, total, beyond, ties } = this.manner
    const size = Math.min(cap, Number(query.get('per_page')))
    const sign = query.get('sort_order') === 'asc' ? 1 : -1
    const tie = (id: string) =>
      ties === 'chance' ? (Number.parseInt(id.slice(-4), 16) * (this.#turn % 7)) % 11 : 0
    const all = [...this.projects.values()].sort(
      (a, b) => sign * (a.name < b.name ? -1 : a.name > b.name ? 1 : tie(a.id) - tie(b.id)),
    )
    const pages = Math.max(1, Math.ceil(all.length / size))
    if (asked > pages && beyond === 'not_found') return ''
    const page = beyond === 'last_page_again' ? Math.min(asked, pages) : asked
    const shown = all.slice((page - 1) * size, page * size)
    const strays = page === 1 ? this.strays : []
    const count = all.length + this.strays.length
    const reported = total === 'of_page' ? shown.length : total === 'too_high' ? count + 1 : count
    const pagination = { page, per_page: size, total: reported, total_pages: pages }
    const projects = [...strays, ...shown.map((project) => this.written(project))].join(',')
    const block = total === 'none' ? '' : `"pagination":${JSON.stringify(pagination)},`
    return `{"response":{"content":{${block}"projects":[${projects}]}}}`
  }
}

/** A page of these elements, as they are written. */
export const listed = (...elements: string[]) => ({
  text: `{"response":{"content":{"projects":[${elements.join()}]}}}`,
})

export interface VaultRecord {
  readonly id: string
  readonly timestamp: string
  readonly type: string
  readonly seen_at: string
  readonly project_id: string
  readonly name: string
  readonly changes?: readonly string[]
  readonly shared_with?: string
  readonly dest_user_id?: string
  readonly dest_user_email?: string
  readonly dest_workspace_id?: number
  readonly permission_level?: string
  readonly previous_permission_level?: string
  readonly share?: object
  readonly project?: {
    name: string
    files_count: number
    updated_at: string
    is_knowledge_base_project: boolean
    sharing: { user_shares: Shown[]; workspace_shares: Shown[] }
  }
}

interface Shown {
  dest_user_id?: string
  dest_workspace_id: number
  permission_level: string
}

export interface VaultHarness {
  readonly clock: VirtualClock
  readonly vault: FakeVault
  readonly journal: Journal
  readonly reporter: SourceNotes
  readonly log: LogLines
  readonly rateLimiter: RateLimiter
  source: VaultSource
  cursor: Cursor | undefined
  /** Another process with the same journal. */
  restart(): Promise<void>
  /** One step of reading; failures are returned. */
  step(): Promise<Error | undefined>
  /** Steps until a pass has ended. */
  /** If errors are forgiven, it continues behind them. */
  pass(errors?: 'forgiven'): Promise<void>
  /** Passes an interval apart. */
  later(passes?: number): Promise<void>
  records(): Promise<VaultRecord[]>
  types(): Promise<string[]>
  raws(): Promise<string[]>
}

export interface VaultHarnessOptions {
  readonly source?: Partial<VaultOptions>
  readonly limit?: number
  /** between source and journal: may fail an append */
  readonly journal?: (journal: Journal) => Journal
}

export async function openVaultHarness({
  source: more = {},
  limit = 100_000,
  journal: wrap = (real) => real,
}: VaultHarnessOptions = {}): Promise<VaultHarness> {
  const clock = new VirtualClock(START)
  const vault = new FakeVault(() => clock.now())
  const log = new LogLines()
  const real = await journalOfTest({ clock, log })
  const journal = wrap(real)
  const reporter = new SourceNotes()
  const store = { load: async () => undefined, save: async () => undefined }
  const rateLimiter = new RateLimiter({ limit: () => limit, clock, random: () => 0.5, store })
  const client = new Client({
    ...{
      baseUrl: 'https://api.test',
      apiKey: new Secret('acme-key'),
      transport: vault.transport,
      clock,
      rateLimiter,
    },
    ...{ memory: new MemoryBudget(32 * 2 ** 20), reporter, userAgent: 'tester/1' },
  })
  const open = () =>
    new VaultSource({
      ...{ stream, client, clock, reporter, log, intervalMs: 6 * HOUR, once: false },
      ...{ maxEntryBytes: 16 * 2 ** 20, maxDepth: 512, ...more },
    })
  const collector = (source: VaultSource): IngestOptions => ({
    ...{
      source,
      journal,
      reporter,
      log,
      clock,
      random: () => 0.5,
      wanted: () => true,
      once: more.once ?? false,
    },
  })
  const harness: VaultHarness = {
    ...{ clock, vault, journal, reporter, log, rateLimiter, source: open(), cursor: undefined },
    async restart() {
      harness.source = open()
      harness.cursor = await real.cursor(stream)
    },
    async step() {
      try {
        const read = ingestOnce(collector(harness.source), harness.cursor, new AbortController().signal)
        const { cursor, fault } = await driven(clock, read)
        if (!fault) harness.cursor = cursor
        return fault
      } catch (error) {
        // Like the loop: the cursor of before, whatever a chunk in between has brought.
        return error as Error
      }
    },
    async pass(errors) {
      const before = reporter.caughtUps
      for (let i = 0; i < 2000; i++) {
        const error = await harness.step()
        if (error && errors !== 'forgiven') throw error
        if (reporter.caughtUps > before) return
      }
      throw new Error('this pass has no end')
    },
    async later(passes = 1) {
      for (let i = 0; i < passes; i++) {
        await driven(clock, clock.sleep(6 * HOUR))
        await harness.pass()
      }
    },
    async records() {
      return (await harness.raws()).map((raw) => JSON.parse(raw) as VaultRecord)
    },
    async types() {
      return (await harness.records()).map(({ type }) => type.replace('vault:', ''))
    },
    async raws() {
      return rawsOf(await real.take('archive', { maxEntries: 1e6, maxBytes: 2 ** 30 }))
    },
  }
  return harness
}

/** A project as known from the records alone. */
export interface Folded {
  name: string
  files: number
  updated: string
  flag: boolean
  shares: string[]
}

const shareKey = (kind: string, who: string, level: string) => `${kind} ${who} ${level}`

export function foldRecords(records: readonly VaultRecord[]): Map<string, Folded> {
  const folded = new Map<string, Folded>()
  for (const record of records) {
    const { project, project_id: id } = record
    const [action = ''] = /[^:]+$/.exec(record.type) ?? []
    if (action === 'project_deleted') {
      folded.delete(id)
      continue
    }
    if (action === 'project_listed' || action === 'project_created') {
      if (folded.has(id)) throw new Error(`${action} twice: ${id}`)
      folded.set(id, { name: '', files: 0, updated: '', flag: false, shares: [] })
    }
    const known = folded.get(id)
    if (!known) throw new Error(`${action} of what was never told: ${id}`)
    if (/^project_(listed|created|updated)$/.test(action) && project)
      Object.assign(known, { name: project.name, files: project.files_count, updated: project.updated_at })
    if (/^project_(listed|created)$/.test(action) && project) known.flag = project.is_knowledge_base_project
    if (action === 'project_listed' && project) {
      const { user_shares: users, workspace_shares: workspaces } = project.sharing
      known.shares = [
        ...users.map((share) => shareKey('user', share.dest_user_id ?? '', share.permission_level)),
        ...workspaces.map((share) =>
          shareKey('workspace', String(share.dest_workspace_id), share.permission_level),
        ),
      ]
    }
    if (action.startsWith('knowledge_base')) known.flag = action.endsWith('_set')
    foldShare(known, record, action)
  }
  return folded
}

function foldShare(known: Folded, record: VaultRecord, action: string): void {
  const kind = record.shared_with
  if (kind === undefined) return
  const who = kind === 'user' ? (record.dest_user_id ?? '') : String(record.dest_workspace_id)
  const before = record.previous_permission_level
  if (before !== undefined) {
    const index = known.shares.indexOf(shareKey(kind, who, before))
    if (index < 0) throw new Error(`${action} of a share that was never told`)
    known.shares.splice(index, 1)
  }
  if (record.permission_level !== undefined) known.shares.push(shareKey(kind, who, record.permission_level))
}

/** The same of what really exists. */
export function foldedTruth(vault: FakeVault): Map<string, Folded> {
  return new Map(
    Array.from(vault.projects.values(), ({ id, name, files, updated, flag, shares }) => [
      id,
      {
        ...{ name, files, updated, flag },
        shares: shares
          .map(({ kind, who, level }) => shareKey(kind, kind === 'user' ? userOf(who) : String(who), level))
          .sort(),
      },
    ]),
  )
}

export const sorted = (folded: Map<string, Folded>): Map<string, Folded> =>
  new Map(
    [...folded]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([id, project]) => [id, { ...project, shares: [...project.shares].sort() }]),
  )

/** A harness whose vault has so many projects, `project 0000` and on, an hour after they were made. */
export async function withProjects(
  count: number,
  options: VaultHarnessOptions = {},
): Promise<VaultHarness & { projects: FakeProject[] }> {
  const harness = await openVaultHarness(options)
  const projects = Array.from({ length: count }, (_, i) =>
    harness.vault.add(`project ${String(i).padStart(4, '0')}`),
  )
  harness.clock.advance(harness.clock.now() + HOUR)
  return Object.assign(harness, { projects })
}

export const openedCursor = ({ cursor, clock }: VaultHarness) => openVaultCursor(cursor, clock.now(), 'acme')
