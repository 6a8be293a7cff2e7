// The embedded API: a function of state, request and clock. No timers: each call catches up.
import type { Clock } from '../core/clock.ts'
import type { HttpReply, Transport } from '../contracts/platform.ts'
import { aborted, broken, failure, pour } from './answer.ts'
import type { Answer } from './answer.ts'
import type { MockEntry } from './entry.ts'
import { openFaults } from './faults.ts'
import { historyOf } from './history.ts'
import type { MockHistoryEvent } from './history.ts'
import { documentedLimits } from './keys.ts'
import type { Limits } from './keys.ts'
import { readBody } from './multipart.ts'
import { chanceOf, streamSeed } from './random.ts'
import { answerTo } from './router.ts'
import type { OpenRecord, RequestRecord } from './router.ts'
import { spoil } from './spoil.ts'
import { defaultSwitches } from './switches.ts'
import type { FaultName, FaultPlan, Faults, Switches } from './switches.ts'
import type { TrafficOptions } from './traffic.ts'
import { changeProject } from './vault-people.ts'
import type { Changed, VaultChange } from './vault-people.ts'
import type { MockProject } from './vault-people.ts'
import type { ProjectChange } from './vault-state.ts'
import { Workspace } from './workspace.ts'
import type { NewEntry, WorkspaceOptions } from './workspace.ts'

export interface MockOptions {
  readonly clock: Clock
  readonly seed?: number
  /** default: `acme` with the key `acme-key` */
  readonly workspaces?: readonly WorkspaceOptions[]
  /** for each workspace without its own */
  readonly traffic?: TrafficOptions
  /** likewise: number of vault projects at the start */
  readonly projects?: number
  readonly switches?: Partial<Switches>
  readonly faults?: Faults
  readonly limits?: Partial<Limits>
  /** minimum number of requests that `requests` remembers */
  readonly requestLog?: number
  /** a larger request body is answered with 413; default 128 MiB */
  readonly maxBodyBytes?: number
}

/** A request as it reaches the server: `url` absolute, or path and query. */
interface ServerRequest {
  readonly method: string
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  /** Read to its end before the answer, up to `maxBodyBytes`. */
  readonly body?: Uint8Array | AsyncIterable<Uint8Array>
}

/** Methods with `workspace` use the first one by default. Instants are epoch ms. */
export interface Mock {
  readonly clock: Clock
  /** Answers in memory, for the production client. */
  readonly transport: Transport
  /** The answer before it reaches a network: what the HTTP server sends. */
  answer(request: ServerRequest, signal: AbortSignal): Promise<Answer>
  readonly requests: readonly RequestRecord[]
  /** Every entry up to now, in order of time, with what happened to it. */
  entries(workspace?: string): MockEntry[]
  /** Every history event up to now, visible or not, by time; bytes are created on access. */
  history(workspace?: string): MockHistoryEvent[]
  add(entry?: NewEntry, workspace?: string): MockEntry
  purge(ids: readonly string[], workspace?: string): void
  purgeBefore(at: number, workspace?: string): void
  /** The old secret is invalid at once; leaves an entry. False if there is no such key. */
  rotateKey(old: string, fresh: string): boolean
  /** Undefined ends the fault. Faults of entries apply only to entries that are not created yet. */
  setFault(name: FaultName, plan: number | FaultPlan | undefined): void
  setSwitches(changed: Partial<Switches>): void
  /** The projects that are listed now, in order of creation, with bytes as in the listing. */
  projects(workspace?: string): MockProject[]
  /** Every change of a project so far, in order of time, including those at the start. */
  projectChanges(workspace?: string): readonly ProjectChange[]
  /** A person changes the vault now, with an audit entry. Throws if its subject does not exist. */
  changeProject(change: VaultChange, workspace?: string): Changed
}

const DEFAULT_SEED = 1
const REQUEST_LOG = 100_000
const MAX_BODY_BYTES = 128 * 2 ** 20

function wantsGzip(switches: Switches, request: ServerRequest): boolean {
  if (switches.gzip !== 'asked') return switches.gzip === 'always'
  return (request.headers['accept-encoding'] ?? '').includes('gzip')
}

function stateOf(options: MockOptions) {
  const { clock, seed = DEFAULT_SEED, traffic, projects } = options
  const common = { ...(traffic ? { traffic } : {}), ...(projects === undefined ? {} : { projects }) }
  const switches: Switches = { ...defaultSwitches, ...options.switches }
  const plans = openFaults(streamSeed(seed, 'faults'), options.faults ?? {})
  const deps = { seed, now: clock.now() + switches.clock_skew_ms, switches, plans }
  const workspaces = (options.workspaces ?? [{ name: 'acme' }]).map(
    (workspace) => new Workspace({ ...common, ...workspace }, deps),
  )
  const limits: Limits = { ...documentedLimits, ...options.limits }
  const records: OpenRecord[] = []
  const { requestLog = REQUEST_LOG, maxBodyBytes = MAX_BODY_BYTES } = options
  return { clock, seed, switches, plans, workspaces, limits, records, requestLog, maxBodyBytes }
}

type State = ReturnType<typeof stateOf>

function serverNow({ clock, switches }: State): number {
  return clock.now() + switches.clock_skew_ms
}

/** The record of a request that arrives now. */
function begun({ clock, records, requestLog }: State, url: string): OpenRecord {
  const target = url.startsWith('/') ? url : url.slice(url.indexOf('/', url.indexOf('//') + 2))
  const unknown = { area: undefined, endpoint: undefined, workspace: undefined, key: undefined }
  const record = {
    ...{ at: clock.now(), answeredAt: undefined, target, ...unknown },
    ...{ status: 0, counted: false, faults: [], elements: 0, whole: false },
  }
  if (records.length >= 2 * requestLog) records.splice(0, records.length - requestLog + 1)
  records.push(record)
  return record
}

const empty = new Uint8Array(0)

function answering(state: State): Mock['answer'] {
  const { clock, switches, plans } = state
  const transitSeed = streamSeed(state.seed, 'transit')
  let count = 0
  return async (request, signal) => {
    const ordinal = ++count
    if (switches.transit > 0)
      await clock.sleep(Math.floor(chanceOf(transitSeed, ordinal) * (switches.transit + 1)), signal)
    if (signal.aborted) throw aborted()
    const record = begun(state, request.url)
    // Only if there is one: another await would change the order of requests.
    const body = request.body === undefined ? empty : await readBody(request.body, state.maxBodyBytes)
    const now = serverNow(state)
    const correct = body
      ? answerTo(state, { ...request, body, now, ordinal }, record)
      : failure('audit', 413, 'Request body too large', { connection: 'close' })
    const struck = record.area ? plans.striking('body', ordinal, now) : []
    const fault = struck.find((name) => correct.status < 300 || name === 'reset')
    if (fault) record.faults = [...record.faults, fault]
    const date = switches.date_header === 'on' ? { date: new Date(now).toUTCString() } : {}
    const dated = { ...correct, headers: { ...correct.headers, ...date } }
    const { reply, manner } = spoil(dated, fault, switches, wantsGzip(switches, request))
    record.status = manner.kind === 'reset' ? 0 : reply.status
    record.elements = reply.elements ?? 0
    if (switches.latency > 0) await clock.sleep(switches.latency, signal)
    const ended = (whole: boolean) => {
      record.answeredAt = clock.now()
      record.whole = whole
      if (whole) reply.show?.(clock.now())
    }
    return { status: reply.status, headers: reply.headers, body: reply.body, manner, ended }
  }
}

export function openMock(options: MockOptions): Mock {
  const state = stateOf(options)
  const answer = answering(state)
  /** The workspace, advanced up to now. */
  const current = (name: string | undefined): Workspace => {
    const { workspaces } = state
    const found = name === undefined ? workspaces[0] : workspaces.find((workspace) => workspace.name === name)
    if (!found) throw new Error(`mock API: there is no workspace ${name ?? 'at all'}`)
    found.advance(serverNow(state))
    return found
  }
  return {
    clock: state.clock,
    answer,
    transport: transportOf(answer, state.clock),
    requests: state.records,
    entries: (name) => [...current(name).ledger.entries],
    history: (name) => historyOf(current(name), serverNow(state)),
    add: (entry = {}, name) => current(name).add(entry, serverNow(state)),
    purge: (ids, name) => {
      const workspace = current(name)
      for (const id of ids) workspace.purge(id)
    },
    purgeBefore: (at, name) => current(name).ledger.purgeBefore(at * 1000),
    rotateKey: (old, fresh) => rotateKey(state.workspaces, old, fresh, serverNow(state)),
    setFault: (name, plan) => state.plans.set(name, plan),
    setSwitches: (changed) => void Object.assign(state.switches, changed),
    projects: (name) => current(name).vault.projects(),
    projectChanges: (name) => [...current(name).vault.state.changes],
    changeProject: (change, name) => changeProject(current(name), change, serverNow(state)),
  }
}

function rotateKey(workspaces: readonly Workspace[], old: string, fresh: string, now: number): boolean {
  for (const workspace of workspaces) {
    const key = workspace.keys.find((candidate) => candidate.secret === old)
    if (!key) continue
    key.secret = fresh
    workspace.add({ type: 'api:token_mgmt_rotate', user: key.user, ip: key.ip }, now)
    return true
  }
  return false
}

function transportOf(answer: Mock['answer'], clock: Clock): Transport {
  return async (request, signal): Promise<HttpReply> => {
    const body = request.body ?? request.stream
    const { method, url, headers } = request
    const given = await answer({ method, url, headers, ...(body ? { body } : {}) }, signal)
    if (signal.aborted || given.manner.kind === 'reset') {
      given.ended(false)
      throw signal.aborted ? aborted() : broken()
    }
    return { status: given.status, headers: given.headers, body: pour(given, clock, signal) }
  }
}
