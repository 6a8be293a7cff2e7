// `api`: sends one documented request with the configured key and prints the answer unchanged.
import { existsSync } from 'node:fs'
import { agentBeside, clientBeside } from '../../app/checks.ts'
import type { Environment } from '../../app/environment.ts'
import { loadConfig } from '../../config/load.ts'
import type { Config, WorkspaceConfig } from '../../config/schema.ts'
import { printableName } from '../../core/printable.ts'
import { secretsIn } from '../../core/secret.ts'
import { masker } from '../../observability/log.ts'
import type { Ask } from '../../sources/http/client.ts'
import { configFile, references } from '../shared/config-file.ts'
import { instanceOf, quietEnvironment } from '../shared/environment.ts'
import { showContent, writeExport } from '../shared/export-file.ts'
import { unknownName } from '../shared/names.ts'
import { columns } from '../shared/terminal.ts'
import { exitCodes, type CommandContext } from '../shared/context.ts'
import { checkAnswer, headText, withoutKey } from './answer.ts'
import { operations } from './operations.ts'
import type { Operation } from './operations.ts'
import { requestOf, typeText } from './request.ts'
import type { Given } from './request.ts'

export interface ApiOptions extends Given {
  readonly config?: string
  readonly workspace?: string
  readonly write: boolean
  readonly verbose: boolean
  readonly output?: string
}

/** `name`: an operation, an area to list, or absent to list all areas. */
export async function api(context: CommandContext, options: ApiOptions, name?: string): Promise<number> {
  const listed = operations.filter(({ area }) => name === undefined || area === name)
  if (listed.length > 0) {
    context.stdout(name === undefined ? listText(listed) : listed.map(detailText).join('\n'))
    return exitCodes.done
  }
  const operation = operations.find((one) => one.name === name)
  if (!operation)
    return usageError(context, [
      `there is no operation ${printableName(name ?? '')}: auditferry api lists them all`,
    ])
  const config = loadConfig(configFile(context, options.config), references(context))
  const workspace = workspaceOf(config, options.workspace)
  const request = requestOf(operation, options)
  const faults = [...(typeof workspace === 'string' ? [workspace] : []), ...request.faults]
  if (options.output !== undefined && options.output !== '-' && existsSync(options.output))
    faults.push(`--output: ${printableName(options.output)} exists and is not overwritten`)
  if (typeof workspace === 'string' || faults.length > 0) return usageError(context, faults)
  if (operation.changes && !options.write)
    return usageError(context, [
      `${operation.name} changes something, so nothing was sent. With --write it sends ${request.preview} to ${workspace.base_url}, with the key of workspace ${workspace.name}`,
    ])
  const environment = quietEnvironment(config, context)
  const ask = await request.ask(environment.random, context.stdin)
  return sendRequest({ context, options, operation, config, workspace, environment }, ask)
}

function usageError(context: CommandContext, faults: readonly string[]): number {
  for (const fault of faults) context.stderr(`error: ${fault}\n`)
  return exitCodes.usage
}

/** The workspace, or an error message. */
function workspaceOf({ workspaces }: Config, named: string | undefined): WorkspaceConfig | string {
  const [only, ...others] = workspaces
  if (named === undefined && only && others.length === 0) return only
  const found = workspaces.find(({ name }) => name === named)
  const names = workspaces.map(({ name }) => name).join(', ')
  return found ?? unknownName('workspace', named, workspaces) ?? `--workspace is missing: one of ${names}`
}

interface Sending {
  readonly context: CommandContext
  readonly options: ApiOptions
  readonly operation: Operation
  readonly config: Config
  readonly workspace: WorkspaceConfig
  readonly environment: Environment
}

/** Throws ConnectorError like the client, and for any answer that is not a success. */
async function sendRequest(
  { context, options, operation, config, workspace, environment }: Sending,
  ask: Ask,
): Promise<number> {
  const mask = masker(() => secretsIn(config))
  const network = environment.network('api')
  const userAgent = agentBeside(environment, 'api', await instanceOf(config))
  const client = clientBeside(workspace, operation.area, environment, { transport: network.send, userAgent })
  const answers = client.send(ask, 'live', context.signal, async function* (answer) {
    if (options.verbose) context.stderr(mask(headText(ask, answer)))
    const warning = await checkAnswer(
      { ask, operation, workspace, mask, now: environment.clock.now() },
      answer,
    )
    if (warning !== undefined) context.stderr(`auditferry: ${warning}\n`)
    yield* withoutKey(answer.body, workspace.api_key.reveal())
  })
  try {
    const { output = '-' } = options
    if (output !== '-') await writeExport(context, output, answers)
    else for await (const piece of answers) if (!(await showContent(context, piece))) break
    if (output !== '-' && !existsSync(output))
      context.stderr(`auditferry: the answer is empty, so ${printableName(output)} was not written\n`)
    return exitCodes.done
  } finally {
    await network.close()
  }
}

const listText = (listed: readonly Operation[]): string =>
  columns(
    listed.map(({ name, method, path, summary, changes, assumed }) => [
      name,
      method,
      path,
      [summary, ...(changes ? ['needs --write'] : []), ...(assumed ? ['path assumed'] : [])].join('; '),
    ]),
  )

function detailText(operation: Operation): string {
  const rows = Object.entries(operation.parameters).map(([name, parameter]) => [
    `  ${name}`,
    parameter.required ? 'required' : 'optional',
    `${typeText(parameter)}${parameter.repeated ? '; may be repeated' : ''}`,
  ])
  return listText([operation]) + columns(rows)
}
