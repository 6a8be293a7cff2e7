// The questions of `validate --connect`: does each API answer as one, and take its key; is each sink ready. Opens no journal: a daemon may be running on it.
import type { Config, SinkConfig, WorkspaceConfig } from './config/schema.ts'
import { within } from './model/clock.ts'
import { WHOLE_BODY_BYTES } from './model/entries.ts'
import { ConnectorError } from './model/errors.ts'
import type { Transport } from './model/http.ts'
import { Room } from './model/room.ts'
import type { CheckResult } from './model/sink.ts'
import { vaultPaths } from './model/vault-paths.ts'
import { silentWatch } from './model/watch.ts'
import { isAuditThere } from './source/audit/there.ts'
import { Budget } from './source/budget/budget.ts'
import { Client } from './source/client/client.ts'
import type { HistoryVersion } from './source/history/step.ts'
import { historyList, oneEntry, projectPage } from './source/shapes.ts'
import type { Shape } from './source/shapes.ts'
import type { SplitterLimits } from './source/cutting/splitter.ts'
import type { Outside } from './outside.ts'
import { openSink } from './shipping.ts'

/** For one part to answer, all its questions together. */
const CHECK_MS = 25_000

/**
 * All at once, one answer or several each. `instance`: that of a daemon which reads the same workspaces, so that it finds
 * this request in the audit log again as its own.
 */
export async function checkConnections(
  config: Config,
  outside: Outside,
  signal: AbortSignal,
  instance?: string,
): Promise<readonly CheckResult[]> {
  const apis = config.workspaces.map((workspace) =>
    bounded(`${workspace.name}: API`, outside, signal, (until) =>
      checkApi(workspace, splitterLimits(config), outside, until, instance),
    ),
  )
  const sinks = config.sinks.map((sink) =>
    bounded(sink.name, outside, signal, (until) => checkSink(config, sink, outside, until)),
  )
  return (await Promise.all([...apis, ...sinks])).flat()
}

function splitterLimits({ journal: { limits } }: Config): SplitterLimits {
  return { maxEntryBytes: limits.max_entry_bytes, maxDepth: limits.max_depth }
}

/** What does not answer in time has failed, whatever it is still waiting for. */
async function bounded(
  what: string,
  { clock }: Outside,
  signal: AbortSignal,
  check: (signal: AbortSignal) => Promise<readonly CheckResult[]>,
): Promise<readonly CheckResult[]> {
  const late = new AbortController()
  try {
    const results = await within(CHECK_MS, clock, check(AbortSignal.any([signal, late.signal])))
    return results ?? [{ what, ok: false, message: `no answer within ${CHECK_MS / 1000} s` }]
  } catch (error) {
    if (!(error instanceof ConnectorError)) throw error
    return [{ what, ok: false, message: error.message }]
  } finally {
    late.abort()
  }
}

/** One request for each area that is read; none changes anything. Tells whether address, key and permission are right. */
interface Question {
  readonly what: string
  readonly area: keyof WorkspaceConfig['rate_limits']
  readonly path: string
  readonly shape: Shape
  /** keys to look at where the answer is of another shape */
  readonly keys: string
  /** The area may be empty, told by a 404 too: tells whether the paths are right. Absent: a 404 is a fault. */
  readonly isThere?: typeof isAuditThere
  /** what may help where the key is good and the answer is not */
  readonly hint?: string
}

const auditQuestion: Question = {
  what: 'audit log API',
  area: 'audit',
  path: '/api/v1/logs/audit/latest',
  shape: oneEntry,
  keys: 'base_url',
  isThere: isAuditThere,
}

const vaultQuestion: Question = {
  what: 'vault API (projects)',
  area: 'vault',
  path: `${vaultPaths.workspaceProjects}?page=1&per_page=1`,
  shape: projectPage,
  keys: 'base_url',
  hint: "the key needs the permission 'View workspace projects'",
}

/** Asks for one past second of the history: an answer as small as there can be. */
function historyQuestion(kind: string, version: HistoryVersion, nowMs: number): Question {
  const second = Math.floor(nowMs / 1000) - 60
  return {
    what: `history API (${kind}, ${version})`,
    area: 'history',
    path: `/api/${version}/history/${kind}?start_time=${second}&end_time=${second + 1}`,
    shape: historyList(version),
    keys: 'base_url and history.version',
    hint:
      version === 'v2'
        ? 'where v2 is not available yet, set history.version: v1; else the key may lack the permission'
        : 'the key may lack the permission',
  }
}

function questionsOf({ audit, history, vault }: WorkspaceConfig, nowMs: number): readonly Question[] {
  const kinds = [...(history?.usage ? ['usage'] : []), ...(history?.query ? ['query'] : [])]
  return [
    ...(audit ? [auditQuestion] : []),
    ...kinds.map((kind) => historyQuestion(kind, history?.version ?? 'v2', nowMs)),
    ...(vault?.projects ? [vaultQuestion] : []),
  ]
}

async function checkApi(
  workspace: WorkspaceConfig,
  limits: SplitterLimits,
  outside: Outside,
  signal: AbortSignal,
  instance: string | undefined,
): Promise<readonly CheckResult[]> {
  const network = outside.network('api')
  const userAgent = `auditferry/${outside.version} (${instance === undefined ? 'validate' : `instance ${instance}`})`
  const asking: Asking = { workspace, limits, outside, userAgent, transport: network.send, signal }
  try {
    const questions = questionsOf(workspace, outside.clock.now())
    return await Promise.all(questions.map((question) => checkArea(question, asking)))
  } finally {
    await network.close()
  }
}

interface Asking {
  readonly workspace: WorkspaceConfig
  readonly limits: SplitterLimits
  readonly outside: Outside
  readonly userAgent: string
  readonly transport: Transport
  readonly signal: AbortSignal
}

async function checkArea(question: Question, asking: Asking): Promise<CheckResult> {
  const { workspace, outside, transport, userAgent, signal } = asking
  const { clock, random } = outside
  const store = { load: async () => undefined, save: async () => undefined }
  const budget = new Budget({ limit: () => workspace.rate_limits[question.area], clock, random, store })
  const client = new Client({
    baseUrl: workspace.base_url,
    apiKey: workspace.api_key,
    transport,
    clock,
    budget,
    userAgent,
    room: new Room(WHOLE_BODY_BYTES),
    watch: silentWatch,
  })
  const asked = { what: `${workspace.name}: ${question.what}` }
  const right = 'answers, accepts the key'
  const rightAndEmpty = `${right}, and knows no entry yet`
  try {
    const isSome = await looked(client, question, asking)
    return { ...asked, ok: true, message: isSome || !question.isThere ? right : rightAndEmpty }
  } catch (error) {
    if (!(error instanceof ConnectorError)) throw error
    if (error.code === 'not_found' && (await question.isThere?.(client, signal).catch(() => false)))
      return { ...asked, ok: true, message: rightAndEmpty }
    const { hint } = question
    const more = hint !== undefined && ['not_found', 'forbidden'].includes(error.code) ? `; ${hint}` : ''
    return { ...asked, ok: false, message: `${error.message}${more}` }
  } finally {
    await budget.close()
  }
}

/** Whether the answer had anything in it. Throws as the client does, and `bad_reply` where it is no answer of this API. */
async function looked(
  client: Client,
  { path, shape, keys }: Question,
  { limits, signal }: Asking,
): Promise<boolean> {
  const looks = client.get(path, 'live', signal, async function* (answer) {
    yield await shape(answer, limits).catch((error: unknown) => {
      if (!(error instanceof ConnectorError) || error.code !== 'bad_reply') throw error
      const where = `GET ${path.split('?')[0] ?? path}`
      const message = `${where}: ${error.message}; something else than the API may answer there: check ${keys}`
      throw new ConnectorError('bad_reply', message, { cause: error })
    })
  })
  let isSome = false
  for await (const look of looks) isSome = look
  return isSome
}

async function checkSink(
  whole: Config,
  config: SinkConfig,
  outside: Outside,
  signal: AbortSignal,
): Promise<readonly CheckResult[]> {
  const opened = openSink(whole, config, outside, outside.log.with({ sink: config.name }))
  try {
    const results = await opened.sink.check(signal)
    return results.map((result) => ({ ...result, what: namedOnce(config.name, result) }))
  } finally {
    await opened.close()
  }
}

/** A message that begins with the address needs none before it. */
const namedOnce = (sink: string, { what, message }: CheckResult): string =>
  message.startsWith(`${what} `) ? sink : `${sink}: ${what}`
