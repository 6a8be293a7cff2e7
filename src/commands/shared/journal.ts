// The way to the journal: through the daemon that holds it, or into it itself when none runs.
import { existsSync } from 'node:fs'
import { holderOf } from '../../journal/holder.ts'
import { openJournal } from '../../journal/open.ts'
import { ConnectorError } from '../../model/errors.ts'
import { controlPath } from '../../model/journal-files.ts'
import type { Origin } from '../../model/source.ts'
import { systemClock } from '../../ops/clock.ts'
import { connectControl } from '../../ops/control-client.ts'
import type { ControlClient } from '../../ops/control-client.ts'
import type { AskedJournal, Retry } from '../../ops/control-questions.ts'
import { openLog } from '../../ops/log.ts'
import { retryWanted } from '../../putting-back.ts'
import { realFiles } from '../../config/files.ts'
import { journalSettings } from '../../config/journal.ts'
import { sourcesOf } from '../../config/schema.ts'
import type { Config, SinkConfig } from '../../config/schema.ts'
import { configFile } from './config-file.ts'
import type { There } from './named.ts'
import { reachDaemon } from './reach.ts'
import type { World } from './world.ts'

export interface OpenJournal {
  readonly journal: AskedJournal
  readonly retry: Retry
  /** what is put back goes out at once */
  readonly running: boolean
  /** Throws ConfigFaults where the configuration is at fault, and only its daemon could be found. */
  readonly sinks: readonly SinkConfig[]
  /** Of all workspaces, what is switched on. Throws as `sinks` does. */
  readonly origins: readonly Origin[]
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

const originsOf = ({ workspaces }: Config): readonly Origin[] =>
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

async function reachJournal(world: World, given: string | undefined): Promise<OpenJournal> {
  const file = configFile(world, given)
  const { place, config, faults, client, there } = await reachDaemon(file, world)
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
  world: World,
  config: string | undefined,
  use: (opened: OpenJournal) => Promise<number>,
): Promise<number> {
  const opened = await reachJournal(world, config)
  try {
    return await use(opened)
  } finally {
    await opened.close()
  }
}
