// The questions of `validate --connect`: does each API answer and take its key, is each sink ready. Opens no journal: a daemon may be running on it.
import type { Config, SinkConfig, WorkspaceConfig } from './config/schema.ts'
import { WHOLE_BODY_BYTES } from './model/entries.ts'
import { ConnectorError } from './model/errors.ts'
import { Room } from './model/room.ts'
import type { CheckResult } from './model/sink.ts'
import type { SourceWatch } from './model/watch.ts'
import { Budget } from './source/budget.ts'
import { Client } from './source/client.ts'
import { type Outside, within } from './outside.ts'
import { openSink } from './shipping.ts'

/** For one part to answer, all its questions together. */
const CHECK_MS = 25_000

const nobody = () => undefined
/** Nobody watches a check. */
const unwatched: SourceWatch = {
  ...{ state: nobody, request: nobody, waited: nobody, appended: nobody, success: nobody },
  ...{ caughtUp: nobody, head: nobody, cursor: nobody, gap: nobody, ownFetch: nobody },
}

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

/** One request that changes nothing: tells whether address, key and permission are right. */
async function checkApi(
  workspace: WorkspaceConfig,
  outside: Outside,
  signal: AbortSignal,
  instance: string | undefined,
): Promise<readonly CheckResult[]> {
  const what = `${workspace.name}: audit log API`
  if (!workspace.audit) return []
  const { clock, random, version } = outside
  const store = { load: async () => undefined, save: async () => undefined }
  const budget = new Budget({ limit: workspace.rate_limits.audit, clock, random, store })
  const network = outside.network()
  const client = new Client({
    ...{ baseUrl: workspace.base_url, apiKey: workspace.api_key, transport: network.send, clock, budget },
    ...{ room: new Room(WHOLE_BODY_BYTES), watch: unwatched },
    userAgent: `auditferry/${version} (${instance === undefined ? 'validate' : `instance ${instance}`})`,
  })
  try {
    const answers = client.get('/api/v1/logs/audit/latest', 'live', signal, async function* ({ body }) {
      for await (const piece of body) yield piece.length
    })
    // Read to its end, so that an answer that breaks off does not count.
    for await (const length of answers) if (length === 0) continue
    return [{ what, ok: true, message: 'answers, accepts the key' }]
  } catch (error) {
    if (!(error instanceof ConnectorError)) throw error
    if (error.code === 'not_found')
      return [
        {
          what,
          ok: true,
          message:
            'answers, accepts the key, and knows no entry (404): the log is empty, or base_url leads elsewhere',
        },
      ]
    return [{ what, ok: false, message: error.message }]
  } finally {
    await budget.close()
    await network.close()
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
