// `mock`: only the mock API, as a server for trials and tests.
import { once } from 'node:events'
import { readTextFile } from '../config/files.ts'
import { reasonOf } from '../config/references.ts'
import { readKey } from '../mock/router.ts'
import type { KeyOptions } from '../mock/keys.ts'
import { listenMock, type Listening } from '../mock/listen.ts'
import { openMock, type Mock, type MockOptions } from '../mock/mock.ts'
import { faultNames, faults, readFault, readSwitch, type Faults, type Switches } from '../mock/switches.ts'
import { ConnectorError, errnoOf } from '../core/errors.ts'
import { systemClock } from '../platform/clock.ts'
import { exitCodes, WrongUsage, type CommandContext } from './shared/context.ts'

export interface MockCommandOptions {
  readonly port: number
  readonly host: string
  readonly seed: number
  readonly entriesPerHour: number
  readonly backlog: number
  /** for every area; 0: no limit; absent: the documented limits */
  readonly rateLimit?: number
  readonly switch: readonly string[]
  readonly fault: readonly string[]
  readonly apiKeyFile?: string
  readonly key: readonly string[]
  readonly control: boolean
}

const WORKSPACE = 'acme'
const KEY = 'acme-key'

function keyOf(file: string | undefined): string {
  if (file === undefined) return KEY
  try {
    return readTextFile(file).trim()
  } catch (error) {
    throw new ConnectorError('misconfigured', `--api-key-file ${file}: ${reasonOf(error)}`)
  }
}

/** The default key is added only if no other key is given. */
function keysOf({ apiKeyFile, key }: MockCommandOptions): KeyOptions[] {
  const named = key.map((text) => readKey(text, `${WORKSPACE}.example`))
  return key.length > 0 && apiKeyFile === undefined ? named : [{ key: keyOf(apiKeyFile) }, ...named]
}

function mockOptions(options: MockCommandOptions): MockOptions {
  const { rateLimit, seed, entriesPerHour, backlog } = options
  const all = { audit: rateLimit, history: rateLimit, vault: rateLimit, assistant: rateLimit }
  return {
    clock: systemClock,
    seed,
    workspaces: [{ name: WORKSPACE, keys: keysOf(options) }],
    traffic: { entriesPerHour, backlog },
    switches: Object.assign({}, ...options.switch.map(readSwitch)) as Partial<Switches>,
    faults: Object.assign({}, ...options.fault.map(readFault)) as Faults,
    ...(rateLimit === undefined ? {} : { limits: all as MockOptions['limits'] & object }),
  }
}

/** A warning if faults of entries or events cannot apply to the backlog, which is pre-rendered. */
function backlogText({
  backlog,
  faults: wanted = {},
}: Pick<MockOptions, 'faults'> & { backlog: number }): string {
  const unaffected = faultNames.filter(
    (name) => wanted[name] !== undefined && ['entry', 'event'].includes(faults[name].kind),
  )
  if (backlog === 0 || unaffected.length === 0) return ''
  return `mock API: of --backlog nothing has ${unaffected.join(', ')}: these strike entries and events of the traffic alone (--entries-per-hour)\n`
}

async function listen(mock: Mock, { port, host, control }: MockCommandOptions): Promise<Listening> {
  try {
    return await listenMock(mock, { port, host, control })
  } catch (cause) {
    const code = errnoOf(cause)
    const message = `mock API: cannot listen on ${host}, port ${port} (${code}): choose others with --host and --port`
    throw new ConnectorError('misconfigured', message, { cause })
  }
}

/** Keys given by the user are not printed. */
function keysText({ apiKeyFile, key }: MockCommandOptions): string {
  const named = key.map((text) => text.slice(0, text.indexOf(':')))
  const first = apiKeyFile === undefined ? `API key ${KEY}` : `API key from ${apiKeyFile}`
  if (named.length === 0) return first
  const keys = `API keys ${named.join(', ')}`
  return apiKeyFile === undefined ? keys : `${first} and ${keys}`
}

/** The mock reports wrong options as an invalid configuration. */
function usable(options: MockCommandOptions): MockOptions {
  try {
    return mockOptions(options)
  } catch (error) {
    if (!(error instanceof ConnectorError) || error.code !== 'config_invalid') throw error
    throw new WrongUsage(error.message)
  }
}

/** Runs until the signal. */
export async function mock(context: CommandContext, options: MockCommandOptions): Promise<number> {
  const wanted = usable(options)
  const api = openMock(wanted)
  context.stderr(backlogText({ ...wanted, backlog: options.backlog }))
  // The first access generates the past, so generate it before announcing that the server is ready.
  context.stderr('mock API: making its past\n')
  api.projects()
  const listening = await listen(api, options)
  const key = keysText(options)
  context.stdout(
    `mock API at ${listening.url}, workspace ${WORKSPACE}, ${key}, seed ${options.seed}; Ctrl-C ends it\n`,
  )
  if (!context.signal.aborted) await once(context.signal, 'abort')
  await listening.close()
  return exitCodes.done
}
