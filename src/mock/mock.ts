// The embedded API: a function of (state, request, clock). It has no timers; the time in between is
// made up at the next call.
import type { Clock } from '../core/clock.ts'
import type { HttpReply, Transport } from '../contracts/platform.ts'
import { aborted, broken, pour } from './answer.ts'
import type { Answer } from './answer.ts'
import type { MockEntry } from './entry.ts'
import { openFaults } from './faults.ts'
import type { FaultBoard } from './faults.ts'
import { historyOf } from './history.ts'
import type { MockHistoryEvent } from './history-events.ts'
import { documentedLimits } from './keys.ts'
import type { Limits } from './keys.ts'
import { chanceOf, streamSeed } from './random.ts'
import { failure } from './replies.ts'
import type { Reply } from './replies.ts'
import { openRequestLog } from './requests.ts'
import type { OpenRecord, RequestLog, RequestRecord } from './requests.ts'
import { heardBody } from './multipart.ts'
import { route } from './router.ts'
import { compressed, spoil, spoiltAndPacked } from './spoil.ts'
import { defaultSwitches } from './switches.ts'
import type { FaultName, FaultPlan, Faults, Switches } from './switches.ts'
import type { TrafficOptions } from './traffic.ts'
import { changeProject } from './vault-changes.ts'
import type { Changed, VaultChange } from './vault-changes.ts'
import type { MockProject } from './vault-life.ts'
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
  /**
   * Every history event up to now, including invisible ones, in order of time, with what happened to it; bytes are
   * created on access.
   */
  history(workspace?: string): MockHistoryEvent[]
  add(entry?: NewEntry, workspace?: string): MockEntry
  purge(ids: readonly string[], workspace?: string): void
  purgeBefore(at: number, workspace?: string): void
  /** The old secret is invalid at once; leaves an `api:token_mgmt_rotate` entry. False if there is no such key. */
  rotateKey(old: string, fresh: string): boolean
  /** Undefined ends the fault. Faults of entries apply only to entries that are not created yet. */
  setFault(name: FaultName, plan: number | FaultPlan | undefined): void
  setSwitches(changed: Partial<Switches>): void
  /** The vault's projects that are listed now, in order of creation, with bytes as in the listing. */
  projects(workspace?: string): MockProject[]
  /** Every change of a project so far, in order of time, including those at the start. */
  projectChanges(workspace?: string): readonly ProjectChange[]
  /** A person changes the vault now, and leaves its audit entry. Throws if what it names does not exist. */
  changeProject(change: VaultChange, workspace?: string): Changed
}

const DEFAULT_SEED = 1
const REQUEST_LOG = 100_000
const MAX_BODY_BYTES = 128 * 2 ** 20
const early: readonly (FaultName | undefined)[] = [undefined, 'slow', 'cut', 'stalled', 'truncated']

function wantsGzip(switches: Switches, request: ServerRequest): boolean {
  if (switches.gzip !== 'asked') return switches.gzip === 'always'
  return (request.headers['accept-encoding'] ?? '').includes('gzip')
}

/** Common headers, compression and the body's fault. */
function outgoing(
  reply: Reply,
  gzip: boolean,
  fault: FaultName | undefined,
  switches: Switches,
  now: number,
) {
  const date = switches.date_header === 'on' ? { date: new Date(now).toUTCString() } : {}
  const dated: Reply = { ...reply, headers: { ...reply.headers, ...date } }
  if (gzip && early.includes(fault)) return spoiltAndPacked(dated, fault, switches)
  const spoilt = spoil(dated, fault, switches)
  const packed =
    gzip && spoilt.manner.kind === 'whole' && spoilt.reply.headers['content-encoding'] === undefined
  return packed ? { ...spoilt, reply: compressed(spoilt.reply) } : spoilt
}

interface Core {
  readonly clock: Clock
  readonly seed: number
  readonly switches: Switches
  readonly board: FaultBoard
  readonly log: RequestLog
  readonly limits: Limits
  readonly workspaces: readonly Workspace[]
  readonly maxBodyBytes: number
}

function serverNow({ clock, switches }: Core): number {
  return clock.now() + switches.clock_skew_ms
}

function coreOf(options: MockOptions): Core {
  const { clock, seed = DEFAULT_SEED, traffic, projects } = options
  const common = { ...(traffic ? { traffic } : {}), ...(projects === undefined ? {} : { projects }) }
  const switches: Switches = { ...defaultSwitches, ...options.switches }
  const board = openFaults(streamSeed(seed, 'faults'), options.faults ?? {})
  const deps = { seed, now: clock.now() + switches.clock_skew_ms, switches, board }
  const workspaces = (options.workspaces ?? [{ name: 'acme' }]).map(
    (workspace) => new Workspace({ ...common, ...workspace }, deps),
  )
  const log = openRequestLog(options.requestLog ?? REQUEST_LOG)
  const limits = { ...documentedLimits, ...options.limits }
  const { maxBodyBytes = MAX_BODY_BYTES } = options
  return { clock, seed, switches, board, log, limits, workspaces, maxBodyBytes }
}

const empty = new Uint8Array(0)
const tooLarge = failure(413, 'Request body too large', { connection: 'close' })

function answering(core: Core): Mock['answer'] {
  const { clock, switches, board } = core
  const travelSeed = streamSeed(core.seed, 'transit')
  let asked = 0

  const finish = (reply: Reply, record: OpenRecord) => (whole: boolean) => {
    record.answeredAt = clock.now()
    record.whole = whole
    if (whole) reply.show?.(clock.now())
  }

  return async (request, signal) => {
    const ordinal = ++asked
    if (switches.transit > 0)
      await clock.sleep(Math.floor(chanceOf(travelSeed, ordinal) * (switches.transit + 1)), signal)
    if (signal.aborted) throw aborted()
    const record = core.log.begin(clock.now(), targetOf(request.url))
    // Only if there is one: another await would change the order of requests.
    const heard = request.body === undefined ? empty : await heardBody(request.body, core.maxBodyBytes)
    const now = serverNow(core)
    const honest = heard ? route(core, { ...request, body: heard, now, ordinal }, record) : tooLarge
    const struck = record.area ? board.striking('body', ordinal, now) : []
    const fault = struck.find((name) => honest.status < 300 || name === 'reset')
    if (fault) record.faults = [...record.faults, fault]
    const { reply, manner } = outgoing(honest, wantsGzip(switches, request), fault, switches, now)
    record.status = manner.kind === 'reset' ? 0 : reply.status
    record.elements = reply.elements ?? reply.page?.count ?? 0
    if (switches.latency > 0) await clock.sleep(switches.latency, signal)
    const { status, headers, body } = reply
    return { status, headers, body, manner, ended: finish(reply, record) }
  }
}

export function openMock(options: MockOptions): Mock {
  const core = coreOf(options)
  const answer = answering(core)
  /** The workspace, advanced up to now. */
  const current = (name: string | undefined): Workspace => {
    const { workspaces } = core
    const found = name === undefined ? workspaces[0] : workspaces.find((workspace) => workspace.name === name)
    if (!found) throw new Error(`mock API: there is no workspace ${name ?? 'at all'}`)
    found.advance(serverNow(core))
    return found
  }
  return {
    clock: core.clock,
    answer,
    transport: transportOf(answer, core.clock),
    requests: core.log.records,
    entries: (name) => current(name).entries(),
    history: (name) => historyOf(current(name)).all(serverNow(core)),
    add: (entry = {}, name) => current(name).add(entry, serverNow(core)),
    purge: (ids, name) => {
      const workspace = current(name)
      for (const id of ids) workspace.purge(id)
    },
    purgeBefore: (at, name) => current(name).purgeBefore(at * 1000),
    rotateKey: (old, fresh) => rotate(core.workspaces, old, fresh, serverNow(core)),
    setFault: (name, plan) => core.board.set(name, plan),
    setSwitches: (changed) => void Object.assign(core.switches, changed),
    projects: (name) => current(name).vault.shown(),
    projectChanges: (name) => [...current(name).vault.state.changes],
    changeProject: (change, name) => changeProject(current(name), change, serverNow(core)),
  }
}

function rotate(workspaces: readonly Workspace[], old: string, fresh: string, now: number): boolean {
  for (const workspace of workspaces) {
    const key = workspace.keys.find((candidate) => candidate.secret === old)
    if (!key) continue
    key.secret = fresh
    workspace.add({ type: 'api:token_mgmt_rotate', user: key.user, ip: key.ip }, now)
    return true
  }
  return false
}

function targetOf(url: string): string {
  return url.startsWith('/') ? url : url.slice(url.indexOf('/', url.indexOf('//') + 2))
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
