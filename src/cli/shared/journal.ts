// Access to the journal: through the running daemon, or directly if none runs.
import { existsSync } from 'node:fs'
import { parseDocument } from 'yaml'
import { registerSinks } from '../../app/app.ts'
import { retryWantedDeadLetters } from '../../app/delivery.ts'
import { ConfigFaults } from '../../config/faults.ts'
import { readConfigFile, realFiles } from '../../config/files.ts'
import { basePath, journalSettings } from '../../config/journal.ts'
import { folderOf, pathFrom, resolveText } from '../../config/references.ts'
import { configSchema, sourcesOf } from '../../config/schema.ts'
import type { Config, SinkConfig } from '../../config/schema.ts'
import type { Stream } from '../../contracts/source.ts'
import { connectControl } from '../../control/client.ts'
import type { ControlClient } from '../../control/client.ts'
import type { OperatorJournal, Retry } from '../../control/questions.ts'
import { ConnectorError } from '../../core/errors.ts'
import { holderOf } from '../../journal/sqlite/database.ts'
import { controlPath } from '../../journal/sqlite/files.ts'
import { openJournal } from '../../journal/sqlite/open.ts'
import { openLog } from '../../observability/log.ts'
import { systemClock } from '../../platform/clock.ts'
import { configFile, knownConfig, references } from './config-file.ts'
import type { NameLists } from './names.ts'
import type { CommandContext } from './context.ts'

export interface OpenJournal {
  readonly journal: OperatorJournal
  readonly retry: Retry
  /** the daemon runs, so requeued entries are sent at once */
  readonly running: boolean
  /** Throws ConfigFaults if the file is invalid and the daemon was found without it. */
  readonly sinks: readonly SinkConfig[]
  /** Streams of all workspaces that are switched on. Throws like `sinks`. */
  readonly streams: readonly Stream[]
  /** Names that are valid on the command line, from the daemon or its file. */
  readonly names: () => Promise<NameLists>
  /** Connects to the daemon; undefined: none answers. */
  readonly connect: () => Promise<ControlClient | undefined>
  close(): Promise<void>
}

export function noJournal(path: string): ConnectorError {
  return new ConnectorError(
    'misconfigured',
    `There is no journal at ${path} yet: nothing has run on this configuration`,
  )
}

const streamsOf = ({ workspaces }: Config): readonly Stream[] =>
  workspaces.flatMap((one) => sourcesOf(one).map((source) => ({ workspace: one.name, source })))

/** Only a daemon takes shards, and no command does beside it. */
export function assertInFile(config: Config): void {
  if (!config.journal.postgres) return
  const base = basePath(config)
  throw new ConnectorError(
    'misconfigured',
    `No daemon answers at ${controlPath(base) ?? base}, and with a journal in PostgreSQL this command needs one: run it where a replica runs, with its TMPDIR, or start one there with auditferry run`,
  )
}

async function openDirectly(config: Config, names: OpenJournal['names']): Promise<OpenJournal> {
  assertInFile(config)
  const { path } = config.journal
  // A WAL file without its journal is an error that opening explains.
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
  await registerSinks(opened, config)
  return {
    journal: opened,
    retry: (query) => retryWantedDeadLetters(opened, config.sinks, query),
    running: false,
    sinks: config.sinks,
    streams: streamsOf(config),
    names,
    connect: () => Promise.resolve(undefined),
    close: () => opened.close(),
  }
}

async function reachJournal(context: CommandContext, given: string | undefined): Promise<OpenJournal> {
  const file = configFile(context, given)
  const { place, config, faults, client, names } = await reachDaemon(file, context)
  if (!client) return openDirectly(config, names)
  return {
    journal: client,
    retry: client.retry,
    running: true,
    names,
    connect: () => connectControl(basePath(place)),
    close: () => Promise.resolve(),
    get sinks() {
      if (faults) throw faults
      return config.sinks
    },
    get streams() {
      if (faults) throw faults
      return streamsOf(config)
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

// Finds the daemon of a configuration file that may have become invalid.

/** The part of the configuration that leads to the daemon. */
export type DaemonAddress = Pick<Config, 'journal' | 'server'>

/** How to reach the daemon, and the configuration or its faults. */
type Known =
  | { readonly place: DaemonAddress; readonly config: Config; readonly faults: undefined }
  | { readonly place: DaemonAddress; readonly config: undefined; readonly faults: ConfigFaults }

/**
 * For commands that only query the daemon, which keeps its configuration while the file is invalid.
 * Throws ConfigFaults if the file does not even say how to reach the daemon.
 */
export function configOrAddress(file: string, context: CommandContext): Known {
  try {
    const config = knownConfig(file, context)
    return { place: config, config, faults: undefined }
  } catch (error) {
    if (!(error instanceof ConfigFaults)) throw error
    const place = addressIn(file, context)
    if (!place) throw error
    return { place, config: undefined, faults: error }
  }
}

/** `client`: undefined if no daemon runs. */
type Reached = (
  | (Known & { readonly client: ControlClient })
  | (Extract<Known, { readonly config: Config }> & { readonly client: undefined })
) & {
  /** Names that are valid on the command line; from the daemon if the file is invalid. */
  readonly names: () => Promise<NameLists>
}

/**
 * Connects to the daemon of a file, and warns if the file is invalid. Throws ConfigFaults if the
 * file is invalid and no daemon runs.
 */
export async function reachDaemon(file: string, context: CommandContext): Promise<Reached> {
  const known = configOrAddress(file, context)
  const client = await connectControl(basePath(known.place))
  if (client) {
    if (known.faults) warnInvalid(file, context)
    return { ...known, client, names: async () => known.config ?? (await client.status()) }
  }
  if (known.faults) throw known.faults
  return { ...known, client, names: () => Promise.resolve(known.config) }
}

/** Reads only the keys that are needed; undefined if one of them is invalid. */
function addressIn(file: string, context: CommandContext): DaemonAddress | undefined {
  try {
    const folder = folderOf(file)
    const document = parseDocument(readConfigFile(file), { prettyErrors: false, logLevel: 'silent' })
    const textAt = (path: readonly string[]) => {
      const found = document.getIn(path)
      return typeof found === 'string' ? resolveText(found, { ...references(context), folder }) : found
    }
    const path = textAt(['journal', 'path'])
    const databaseKeys = ['url', 'schema'] as const
    const postgres = document.hasIn(['journal', 'postgres'])
      ? Object.fromEntries(databaseKeys.map((key) => [key, textAt(['journal', 'postgres', key])]))
      : undefined
    const listen = textAt(['server', 'listen']) ?? (context.env['AUDITFERRY_LISTEN'] || undefined)
    const { journal, server } = configSchema.shape
    const whole = typeof path === 'string' && path !== '' ? pathFrom(folder, path) : path
    return { journal: journal.parse({ path: whole, postgres }), server: server.parse({ listen }) }
  } catch {
    return undefined
  }
}

/** Print before the daemon's answer. */
export function warnInvalid(file: string, { stderr }: CommandContext): void {
  stderr(
    `auditferry: ${file} is invalid; a running daemon keeps its current configuration, and this is its answer. To see the errors: auditferry validate --config ${file}\n`,
  )
}
