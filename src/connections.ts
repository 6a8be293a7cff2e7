// The questions of `validate --connect`: does each API answer and take its key, is each sink ready. Opens no journal: a daemon may be running on it.
import type { Config, SinkConfig, WorkspaceConfig } from './config/schema.ts'
import { within } from './model/clock.ts'
import { WHOLE_BODY_BYTES } from './model/entries.ts'
import { ConnectorError } from './model/errors.ts'
import type { Transport } from './model/http.ts'
import { Room } from './model/room.ts'
import type { CheckResult } from './model/sink.ts'
import { vaultPaths } from './model/vault-paths.ts'
import { silentWatch } from './model/watch.ts'
import { isAuditThere } from './source/audit-there.ts'
import { Budget } from './source/budget.ts'
import { Client } from './source/client.ts'
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
      checkApi(workspace, outside, until, instance),
    ),
  )
  const sinks = config.sinks.map((sink) =>
    bounded(sink.name, outside, signal, (until) => checkSink(config, sink, outside, until)),
  )
  return (await Promise.all([...apis, ...sinks])).flat()
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
  /** A 404 may mean that there is no entry: tells whether the paths are right. Absent: a 404 is a fault. */
  readonly isThere?: typeof isAuditThere
  /** what may help where the key is good and the answer is not */
  readonly hint?: string
}

/** Of the history one past second: an answer as small as there can be. */
function questionsOf({ audit, history, vault }: WorkspaceConfig, nowMs: number): readonly Question[] {
  const second = Math.floor(nowMs / 1000) - 60
  const span = `start_time=${second}&end_time=${second + 1}`
  const version = history?.version ?? 'v2'
  const kinds = [...(history?.usage ? ['usage'] : []), ...(history?.query ? ['query'] : [])]
  const hint =
    version === 'v2'
      ? 'where v2 is not available yet, set history.version: v1; else the key may lack the permission'
      : 'the key may lack the permission'
  return [
    ...(audit
      ? [
          {
            ...({ what: 'audit log API', area: 'audit', path: '/api/v1/logs/audit/latest' } as const),
            isThere: isAuditThere,
          },
        ]
      : []),
    ...kinds.map((kind) => ({
      what: `history API (${kind}, ${version})`,
      area: 'history' as const,
      hint,
      path: `/api/${version}/history/${kind}?${span}`,
    })),
    ...(vault?.projects
      ? [
          {
            ...({ what: 'vault API (projects)', area: 'vault' } as const),
            path: `${vaultPaths.workspaceProjects}?page=1&per_page=1`,
            hint: "the key needs the permission 'View workspace projects'",
          },
        ]
      : []),
  ]
}

async function checkApi(
  workspace: WorkspaceConfig,
  outside: Outside,
  signal: AbortSignal,
  instance: string | undefined,
): Promise<readonly CheckResult[]> {
  const network = outside.network('api')
  const userAgent = `auditferry/${outside.version} (${instance === undefined ? 'validate' : `instance ${instance}`})`
  const ask = (question: Question) => checkArea(workspace, question, outside, network.send, userAgent, signal)
  try {
    return await Promise.all(questionsOf(workspace, outside.clock.now()).map(ask))
  } finally {
    await network.close()
  }
}

async function checkArea(
  { name, base_url: baseUrl, api_key: apiKey, rate_limits: limits }: WorkspaceConfig,
  { what, area, path, isThere, hint }: Question,
  { clock, random }: Outside,
  transport: Transport,
  userAgent: string,
  signal: AbortSignal,
): Promise<CheckResult> {
  const store = { load: async () => undefined, save: async () => undefined }
  const budget = new Budget({ limit: limits[area], clock, random, store })
  const room = new Room(WHOLE_BODY_BYTES)
  const client = new Client({
    baseUrl,
    apiKey,
    transport,
    clock,
    budget,
    room,
    watch: silentWatch,
    userAgent,
  })
  const told = { what: `${name}: ${what}` }
  try {
    await client.touch(path, 'live', signal)
    return { ...told, ok: true, message: 'answers, accepts the key' }
  } catch (error) {
    if (!(error instanceof ConnectorError)) throw error
    if (error.code === 'not_found' && (await isThere?.(client, signal).catch(() => false)))
      return { ...told, ok: true, message: 'answers, accepts the key, and knows no entry yet' }
    const more = hint !== undefined && ['not_found', 'forbidden'].includes(error.code) ? `; ${hint}` : ''
    return { ...told, ok: false, message: `${error.message}${more}` }
  } finally {
    await budget.close()
  }
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
    return results.map((result) => ({ ...result, what: `${config.name}: ${result.what}` }))
  } finally {
    await opened.close()
  }
}
