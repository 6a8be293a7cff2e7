// The way to the journal: through the daemon that holds it, or into it itself when none runs.
import { existsSync } from 'node:fs'
import { parseDocument } from 'yaml'
import { retryWanted } from '../../app/delivery.ts'
import { ConfigFaults } from '../../config/faults.ts'
import { readConfigFile, realFiles } from '../../config/files.ts'
import { journalSettings } from '../../config/journal.ts'
import { folderOf, pathFrom, resolveText } from '../../config/references.ts'
import { configSchema, sourcesOf } from '../../config/schema.ts'
import type { Config, SinkConfig } from '../../config/schema.ts'
import type { Stream } from '../../contracts/source.ts'
import { connectControl } from '../../control/client.ts'
import type { ControlClient } from '../../control/client.ts'
import type { AskedJournal, Retry } from '../../control/questions.ts'
import { ConnectorError } from '../../core/errors.ts'
import { holderOf } from '../../journal/sqlite/database.ts'
import { controlPath } from '../../journal/sqlite/files.ts'
import { openJournal } from '../../journal/sqlite/open.ts'
import { openLog } from '../../observability/log.ts'
import { systemClock } from '../../platform/clock.ts'
import { configFile, knownConfig, references } from './config-file.ts'
import type { There } from './names.ts'
import type { CommandContext } from './world.ts'

export interface OpenJournal {
  readonly journal: AskedJournal
  readonly retry: Retry
  /** what is put back goes out at once */
  readonly running: boolean
  /** Throws ConfigFaults where the configuration is at fault, and only its daemon could be found. */
  readonly sinks: readonly SinkConfig[]
  /** Of all workspaces, what is switched on. Throws as `sinks` does. */
  readonly origins: readonly Stream[]
  /** What there is to name on the command line, as the daemon or its file has it. */
  readonly there: () => Promise<There>
  /** The daemon, as it answers now; undefined: none does. */
  readonly connect: () => Promise<ControlClient | undefined>
  close(): Promise<void>
}

export function noJournal(path: string): ConnectorError {
  return new ConnectorError(
    'misconfigured',
    `There is no journal at ${path} yet: nothing has run on this configuration`,
  )
}

const originsOf = ({ workspaces }: Config): readonly Stream[] =>
  workspaces.flatMap((one) => sourcesOf(one).map((source) => ({ workspace: one.name, source })))

async function openHere(config: Config, there: OpenJournal['there']): Promise<OpenJournal> {
  const { path } = config.journal
  // A log that has lost its journal is more than nothing: the opening says what to do with it.
  if (!existsSync(path) && !existsSync(`${realFiles.place(path)}-wal`)) throw noJournal(path)
  const opened = await openJournal({
    ...journalSettings(config),
    clock: systemClock,
    log: openLog({ level: 'warn' }),
  }).catch((error: unknown) => {
    if (!(error instanceof ConnectorError) || error.code !== 'journal_in_use') throw error
    const pid = holderOf(path)
    throw new ConnectorError(
      'journal_in_use',
      `The journal ${path} is in use${pid === undefined ? '' : ` (pid ${pid})`}, and its process does not answer at ${controlPath(path) ?? 'a control socket'}: it may be starting or stopping, or be run --once; try again later`,
      { cause: error },
    )
  })
  const connect = () => Promise.resolve(undefined)
  const retry: Retry = (query) => retryWanted(opened, config.sinks, query)
  const { sinks } = config
  const origins = originsOf(config)
  return {
    journal: opened,
    retry,
    running: false,
    sinks,
    origins,
    there,
    connect,
    close: () => opened.close(),
  }
}

async function reachJournal(context: CommandContext, given: string | undefined): Promise<OpenJournal> {
  const file = configFile(context, given)
  const { place, config, faults, client, there } = await reachDaemon(file, context)
  if (!client) return openHere(config, there)
  const connect = () => connectControl(place.journal.path)
  return {
    journal: client,
    retry: client.retry,
    running: true,
    there,
    connect,
    close: () => Promise.resolve(),
    get sinks() {
      if (faults) throw faults
      return config.sinks
    },
    get origins() {
      if (faults) throw faults
      return originsOf(config)
    },
  }
}

export async function withJournal(
  context: CommandContext,
  config: string | undefined,
  use: (opened: OpenJournal) => Promise<number>,
): Promise<number> {
  const opened = await reachJournal(context, config)
  try {
    return await use(opened)
  } finally {
    await opened.close()
  }
}

// The way to the daemon of a configuration, which may be at fault meanwhile: where it is, and whether it answers.

/** Where the daemon of a configuration is asked. */
export type DaemonPlace = Pick<Config, 'journal' | 'server'>

/** Where the daemon of a file is, and the file's configuration or what is wrong with it. */
type Known =
  | { readonly place: DaemonPlace; readonly config: Config; readonly faults: undefined }
  | { readonly place: DaemonPlace; readonly config: undefined; readonly faults: ConfigFaults }

/**
 * For what only asks a running daemon: it goes on with the configuration it has while the file is at fault.
 * Throws ConfigFaults where not even the place of its daemon can be read.
 */
export function configOrPlace(file: string, context: CommandContext): Known {
  try {
    const config = knownConfig(file, context)
    return { place: config, config, faults: undefined }
  } catch (error) {
    if (!(error instanceof ConfigFaults)) throw error
    const place = placeIn(file, context)
    if (!place) throw error
    return { place, config: undefined, faults: error }
  }
}

/** `client`: the way to the daemon; undefined where none runs. */
type Reached = (
  | (Known & { readonly client: ControlClient })
  | (Extract<Known, { readonly config: Config }> & { readonly client: undefined })
) & {
  /** What there is to name on the command line; where the file is at fault, of what its daemon goes on with. */
  readonly there: () => Promise<There>
}

/** The daemon of a file, which may be at fault meanwhile: that is said. Throws ConfigFaults where nobody is there to go by. */
export async function reachDaemon(file: string, context: CommandContext): Promise<Reached> {
  const known = configOrPlace(file, context)
  const client = await connectControl(known.place.journal.path)
  if (client) {
    if (known.faults) tellFaulty(file, context)
    return { ...known, client, there: async () => known.config ?? (await client.status()) }
  }
  if (known.faults) throw known.faults
  return { ...known, client, there: () => Promise.resolve(known.config) }
}

/** Two keys, whatever is wrong around them; undefined where one of these is wrong itself. */
function placeIn(file: string, context: CommandContext): DaemonPlace | undefined {
  try {
    const folder = folderOf(file)
    const document = parseDocument(readConfigFile(file), { prettyErrors: false, logLevel: 'silent' })
    const textAt = (path: readonly string[]) => {
      const found = document.getIn(path)
      return typeof found === 'string' ? resolveText(found, { ...references(context), folder }) : found
    }
    const path = textAt(['journal', 'path'])
    const listen = textAt(['server', 'listen']) ?? (context.env['AUDITFERRY_LISTEN'] || undefined)
    const { journal, server } = configSchema.shape
    const whole = typeof path === 'string' && path !== '' ? pathFrom(folder, path) : path
    return { journal: journal.parse({ path: whole }), server: server.parse({ listen }) }
  } catch {
    return undefined
  }
}

/** To be said before what the daemon answers. */
export function tellFaulty(file: string, { stderr }: CommandContext): void {
  stderr(
    `auditferry: ${file} is invalid; a running daemon keeps its current configuration, and this is its answer. To see the errors: auditferry validate --config ${file}\n`,
  )
}
