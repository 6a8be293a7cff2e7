// `mock`: the embedded API alone, as a server, for trying things out and for tests.
import { once } from 'node:events'
import { readTextFile } from '../config/files.ts'
import { reasonOf } from '../config/references.ts'
import { listenMock, type Listening } from '../mock/listen.ts'
import { openMock, type Mock, type MockOptions } from '../mock/mock.ts'
import { readFault, readSwitch, type Faults, type Switches } from '../mock/switches.ts'
import { ConnectorError, errnoOf } from '../model/errors.ts'
import { systemClock } from '../ops/clock.ts'
import { exitCodes, type World } from './world.ts'

export interface MockCommandOptions {
  readonly port: number
  readonly host: string
  readonly seed: number
  readonly entriesPerHour: number
  readonly backlog: number
  /** for every area; 0 for none, the documented ones when absent */
  readonly rateLimit?: number
  readonly switch: readonly string[]
  readonly fault: readonly string[]
  readonly apiKeyFile?: string
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

function mockOptions(options: MockCommandOptions): MockOptions {
  const { rateLimit, seed, entriesPerHour, backlog } = options
  const all = { audit: rateLimit, history: rateLimit, vault: rateLimit, assistant: rateLimit }
  return {
    clock: systemClock,
    seed,
    workspaces: [{ name: WORKSPACE, keys: [{ key: keyOf(options.apiKeyFile) }] }],
    traffic: { entriesPerHour, backlog },
    switches: Object.assign({}, ...options.switch.map(readSwitch)) as Partial<Switches>,
    faults: Object.assign({}, ...options.fault.map(readFault)) as Faults,
    ...(rateLimit === undefined ? {} : { limits: all as MockOptions['limits'] & object }),
  }
}

async function listen(mock: Mock, { port, host }: MockCommandOptions): Promise<Listening> {
  try {
    return await listenMock(mock, { port, host })
  } catch (cause) {
    const code = errnoOf(cause)
    const message = `mock API: cannot listen on ${host}, port ${port} (${code}): choose others with --host and --port`
    throw new ConnectorError('misconfigured', message, { cause })
  }
}

/** Serves until the world's signal. */
export async function mock(world: World, options: MockCommandOptions): Promise<number> {
  let wanted: MockOptions
  try {
    wanted = mockOptions(options)
  } catch (error) {
    if (!(error instanceof ConnectorError) || error.code !== 'config_invalid') throw error
    world.stderr(`error: ${error.message}\n`)
    return exitCodes.usage
  }
  const listening = await listen(openMock(wanted), options)
  const key = options.apiKeyFile === undefined ? `API key ${KEY}` : `API key from ${options.apiKeyFile}`
  world.stdout(
    `mock API at ${listening.url}, workspace ${WORKSPACE}, ${key}, seed ${options.seed}; Ctrl-C ends it\n`,
  )
  if (!world.signal.aborted) await once(world.signal, 'abort')
  await listening.close()
  return exitCodes.done
}
