// The checks of `validate --connect`: does each API answer as one and accept its key; is each sink
// ready. Opens no journal: a daemon may be using it.
import { readTextFile } from '../config/files.ts'
import { reasonOf } from '../config/references.ts'
import type { Config, SinkConfig, WorkspaceConfig } from '../config/schema.ts'
import { sinkFiles } from '../config/sink.ts'
import { WHOLE_BODY_BYTES } from '../contracts/entries.ts'
import type { Transport } from '../contracts/platform.ts'
import { silentReporter } from '../contracts/reporter.ts'
import type { NamedFile } from '../contracts/sink-kind.ts'
import type { CheckResult } from '../contracts/sink.ts'
import { vaultPaths } from '../core/api.ts'
import { within } from '../core/clock.ts'
import { ConnectorError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { MemoryBudget } from '../core/memory-budget.ts'
import { secretsWithPaths } from '../core/secret.ts'
import type { Secret } from '../core/secret.ts'
import type { StatusRegistry } from '../observability/status-registry.ts'
import type { WarningStatus } from '../observability/status.ts'
import { isAuditThere, readFoundEntry } from '../sources/audit/lookup.ts'
import { entryOptions } from '../sources/audit/step.ts'
import type { HistoryVersion } from '../sources/history/step.ts'
import { eventOptions } from '../sources/history/window.ts'
import { Client } from '../sources/http/client.ts'
import type { Answer } from '../sources/http/client.ts'
import { bufferBody, readGroups } from '../sources/http/groups.ts'
import { RateLimiter } from '../sources/http/rate-limiter.ts'
import type { SplitterLimits } from '../sources/splitter/splitter.ts'
import { cutPage } from '../sources/vault/page.ts'
import { splitterLimits } from './access.ts'
import { openSink } from './delivery.ts'
import type { Environment } from './environment.ts'

// Whether an answer has the format that the reader of its area accepts, checked with the reader's
// own parser: another kind of server may answer 200 and JSON too.

/**
 * Reads an answer to its end; returns whether it contained anything. Throws ConnectorError
 * `bad_reply` if it has another format.
 */
type AnswerFormat = (answer: Answer, limits: SplitterLimits) => Promise<boolean>

/** The answer of `latest`: one entry, or one of the many forms for none. */
const oneEntry: AnswerFormat = async (answer, limits) => {
  const { position, group } = await readFoundEntry(answer, entryOptions(limits))
  const [malformed] = group?.quarantined ?? []
  // An answer that is too large says nothing about the address.
  if (position || malformed?.reason === 'too_large') return true
  if (!group) return false
  throw new ConnectorError(
    'bad_reply',
    'the reply has an unexpected format: expected one entry with an "id", alone or under "log"',
  )
}

/** An array, in version 2 under `events`. */
const historyList =
  (version: HistoryVersion): AnswerFormat =>
  async (answer, limits) => {
    let found = false
    for await (const { entries } of readGroups(answer, eventOptions(version, limits, undefined), undefined))
      found ||= entries.count > 0
    return found
  }

/** A page of the vault's list. */
const projectPage: AnswerFormat = async (answer, limits) => {
  const body = await bufferBody(answer, WHOLE_BODY_BYTES)
  return !body || cutPage(body, limits).projects.length > 0
}

/** Time limit for all checks of one part. */
const CHECK_MS = 25_000

/**
 * Runs all checks in parallel, with one or more results each. `instance`: the id of a daemon that
 * reads the same workspaces, so that it recognises this request in the audit log as its own.
 */
export async function checkConnections(
  config: Config,
  environment: Environment,
  signal: AbortSignal,
  instance?: string,
): Promise<readonly CheckResult[]> {
  const apis = config.workspaces.map((workspace) =>
    bounded(`${workspace.name}: API`, environment, signal, (until) =>
      checkApi(workspace, splitterLimits(config), environment, until, instance),
    ),
  )
  const sinks = config.sinks.map((sink) =>
    bounded(sink.name, environment, signal, (until) => checkSink(config, sink, environment, until)),
  )
  return (await Promise.all([...apis, ...sinks])).flat()
}

/** A check without a result in time has failed, for any reason. */
async function bounded(
  what: string,
  { clock }: Environment,
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

/**
 * One request for each area that is read, without changing anything. Shows whether address, key and
 * permission are right.
 */
interface Question {
  readonly what: string
  readonly area: keyof WorkspaceConfig['rate_limits']
  readonly path: string
  readonly format: AnswerFormat
  /** configuration keys to check if the answer has another format */
  readonly keys: string
  /**
   * The area may be empty, which may also be a 404: then the check shows whether the paths are
   * right. Absent: a 404 is an error.
   */
  readonly existsThere?: typeof isAuditThere
  /** advice if the key is accepted but the answer is an error */
  readonly hint?: string
}

const auditQuestion: Question = {
  what: 'audit log API',
  area: 'audit',
  path: '/api/v1/logs/audit/latest',
  format: oneEntry,
  keys: 'base_url',
  existsThere: isAuditThere,
}

const vaultQuestion: Question = {
  what: 'vault API (projects)',
  area: 'vault',
  path: `${vaultPaths.workspaceProjects}?page=1&per_page=1`,
  format: projectPage,
  keys: 'base_url',
  hint: "the key needs the permission 'View workspace projects'",
}

/** Requests one past second of the history: the smallest possible answer. */
function historyQuestion(kind: string, version: HistoryVersion, nowMs: number): Question {
  const second = Math.floor(nowMs / 1000) - 60
  return {
    what: `history API (${kind}, ${version})`,
    area: 'history',
    path: `/api/${version}/history/${kind}?start_time=${second}&end_time=${second + 1}`,
    format: historyList(version),
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
  environment: Environment,
  signal: AbortSignal,
  instance: string | undefined,
): Promise<readonly CheckResult[]> {
  const network = environment.network('api')
  const userAgent = agentBeside(environment, 'validate', instance)
  const asking: Asking = { workspace, limits, environment, userAgent, transport: network.send, signal }
  try {
    const questions = questionsOf(workspace, environment.clock.now())
    return await Promise.all(questions.map((question) => checkArea(question, asking)))
  } finally {
    await network.close()
  }
}

/**
 * The User-Agent of a command: with the instance id of a running daemon, that daemon recognises the
 * request as its own.
 */
export const agentBeside = (
  { version }: Environment,
  command: string,
  instance: string | undefined,
): string => `auditferry/${version} (${instance === undefined ? command : `instance ${instance}`})`

/** For a few requests beside the daemon: keeps the limit, but the daemon does not count them. */
export function clientBeside(
  { base_url: baseUrl, api_key: apiKey, rate_limits: limits }: WorkspaceConfig,
  area: keyof WorkspaceConfig['rate_limits'],
  { clock, random }: Environment,
  { transport, userAgent }: { readonly transport: Transport; readonly userAgent: string },
): Client {
  const store = { load: async () => undefined, save: async () => undefined }
  const rateLimiter = new RateLimiter({ limit: () => limits[area], clock, random, store })
  const memory = new MemoryBudget(WHOLE_BODY_BYTES)
  return new Client({
    baseUrl,
    apiKey,
    transport,
    clock,
    rateLimiter,
    userAgent,
    memory,
    reporter: silentReporter,
  })
}

interface Asking {
  readonly workspace: WorkspaceConfig
  readonly limits: SplitterLimits
  readonly environment: Environment
  readonly userAgent: string
  readonly transport: Transport
  readonly signal: AbortSignal
}

async function checkArea(question: Question, asking: Asking): Promise<CheckResult> {
  const { workspace, environment, signal } = asking
  const client = clientBeside(workspace, question.area, environment, asking)
  const subject = { what: `${workspace.name}: ${question.what}` }
  const right = 'answers, accepts the key'
  const rightAndEmpty = `${right}, has no entries yet`
  try {
    const isSome = await hasContent(client, question, asking)
    return { ...subject, ok: true, message: isSome || !question.existsThere ? right : rightAndEmpty }
  } catch (error) {
    if (!(error instanceof ConnectorError)) throw error
    if (error.code === 'not_found' && (await question.existsThere?.(client, signal).catch(() => false)))
      return { ...subject, ok: true, message: rightAndEmpty }
    const { hint } = question
    const more = hint !== undefined && ['not_found', 'forbidden'].includes(error.code) ? `; ${hint}` : ''
    return { ...subject, ok: false, message: `${error.message}${more}` }
  }
}

/**
 * Whether the answer contained anything. Throws as the client does, and `bad_reply` if it is no
 * answer of this API.
 */
async function hasContent(
  client: Client,
  { path, format, keys }: Question,
  { limits, signal }: Asking,
): Promise<boolean> {
  const answers = client.get(path, 'live', signal, async function* (answer) {
    yield await format(answer, limits).catch((error: unknown) => {
      if (!(error instanceof ConnectorError) || error.code !== 'bad_reply') throw error
      const where = `GET ${path.split('?')[0] ?? path}`
      const message = `${where}: ${error.message}; perhaps another server answers there: check ${keys}`
      throw new ConnectorError('bad_reply', message, { cause: error })
    })
  })
  let isSome = false
  for await (const look of answers) isSome = look
  return isSome
}

async function checkSink(
  fullConfig: Config,
  config: SinkConfig,
  environment: Environment,
  signal: AbortSignal,
): Promise<readonly CheckResult[]> {
  const opened = openSink(fullConfig, config, environment, environment.log.with({ sink: config.name }))
  try {
    const results = await opened.sink.check(signal)
    return results.map((result) => ({ ...result, what: namedOnce(config.name, result) }))
  } finally {
    await opened.close()
  }
}

/** A message that begins with the address needs no prefix. */
const namedOnce = (sink: string, { what, message }: CheckResult): string =>
  message.startsWith(`${what} `) ? sink : `${sink}: ${what}`

// Reports secrets, and files named by sinks, that cannot be read again: the values in memory stay
// in use, but a restart would not have them.

interface Rereadable {
  readonly code: WarningStatus['code']
  /** owner and name: `acme api_key` */
  readonly about: string
  /** the consequence of a restart */
  readonly then: string
  /** why it cannot be read again; undefined: it can */
  readonly look: () => string | undefined
  reported?: string | undefined
}

function secretOf(config: Config, path: readonly (string | number)[], secret: Secret): Rereadable {
  const [part, index, ...rest] = path
  const owner = (part === 'workspaces' || part === 'sinks') && config[part][Number(index)]?.name
  const look = () => {
    secret.fresh()
    return secret.unread
  }
  const about = owner ? [owner, rest.join('.')].join(' ') : path.join('.')
  return { code: 'secret_unread', about, then: 'a restart would fail', look }
}

function fileFault({ path, fault }: NamedFile): string | undefined {
  try {
    const text = readTextFile(path)
    return fault?.(text, readTextFile)
  } catch (error) {
    return reasonOf(error)
  }
}

/** Reported only after it was readable once: before that, the sink reports its own error. */
function fileOf(sink: string, file: NamedFile): Rereadable {
  let wasGood = false
  const look = () => {
    const wrong = fileFault(file)
    wasGood ||= wrong === undefined
    return wrong !== undefined && wasGood ? `${file.path}: ${wrong}` : undefined
  }
  return {
    code: 'file_unread',
    about: `${sink} ${file.field}`,
    then: 'its sink would not have it after a restart',
    look,
  }
}

export class UnreadSecrets {
  readonly #log: Pick<Log, 'info' | 'warn'>
  readonly #registry: Pick<StatusRegistry, 'warn'>
  readonly #rereadables: readonly Rereadable[]

  constructor(config: Config, log: Pick<Log, 'info' | 'warn'>, registry: Pick<StatusRegistry, 'warn'>) {
    this.#log = log
    this.#registry = registry
    this.#rereadables = [
      ...secretsWithPaths(config).map(({ path, secret }) => secretOf(config, path, secret)),
      ...config.sinks.flatMap((sink) => sinkFiles(sink, 'files').map((file) => fileOf(sink.name, file))),
    ]
  }

  /**
   * Reads each from its source, even if it is not needed now. Logs it once for each reason, and
   * when it is resolved.
   */
  look(): void {
    for (const one of this.#rereadables) {
      const { code, about, then } = one
      const unread = one.look()
      if (unread === one.reported) continue
      one.reported = unread
      const message = unread && `${about} cannot be read again, and ${then}: ${unread}`
      this.#registry.warn({ code, about }, message)
      if (unread === undefined) this.#log.info('A secret or a file can be read again', { about })
      else
        this.#log.warn(
          'A secret or a file can no longer be read: the value in memory stays in use, but a restart would fail. Put it back where it was',
          { about, error: unread },
        )
    }
  }
}
