// The way to what was set aside: through the daemon that holds the journal, or into the journal itself when none runs.
import { existsSync } from 'node:fs'
import { isAbsolute, resolve } from 'node:path'
import { holderOf } from '../journal/holder.ts'
import { openJournal } from '../journal/open.ts'
import { ConnectorError } from '../model/errors.ts'
import { controlPath } from '../model/journal-files.ts'
import type { Origin } from '../model/source.ts'
import { systemClock } from '../ops/clock.ts'
import { connectControl } from '../ops/control-client.ts'
import type { ControlClient } from '../ops/control-client.ts'
import type { Aside, Retry } from '../ops/control-questions.ts'
import { openLog } from '../ops/log.ts'
import { retryWanted } from '../retrying.ts'
import { journalSettings } from '../config/journal.ts'
import { sourcesOf } from '../config/schema.ts'
import type { Config, SinkConfig } from '../config/schema.ts'
import { configFile } from './config-file.ts'
import { reachDaemon } from './known-config.ts'
import { areKnown, areNamed, type There, type Whose } from './named.ts'
import type { World } from './world.ts'

export interface ShowOptions {
  readonly config?: string
  readonly content: boolean
}

export interface OpenAside {
  readonly aside: Aside
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
  const from = isAbsolute(path) ? '' : ` (journal.path ${path} begins at the present folder)`
  return new ConnectorError(
    'misconfigured',
    `There is no journal at ${resolve(path)} yet${from}: nothing has run on this configuration`,
  )
}

const originsOf = ({ workspaces }: Config): readonly Origin[] =>
  workspaces.flatMap((one) => sourcesOf(one).map((source) => ({ workspace: one.name, source })))

async function openHere(config: Config, there: OpenAside['there']): Promise<OpenAside> {
  const { path } = config.journal
  if (!existsSync(path)) throw noJournal(path)
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
  return { aside: opened, retry, running: false, sinks, origins, there, connect, close: () => opened.close() }
}

async function openAside(world: World, given: string | undefined): Promise<OpenAside> {
  const file = configFile(world, given)
  const { place, config, faults, client, there } = await reachDaemon(file, world)
  if (!client) return openHere(config, there)
  const connect = () => connectControl(place.journal.path)
  return {
    aside: client,
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

export async function withAside(
  world: World,
  config: string | undefined,
  use: (opened: OpenAside) => Promise<number>,
): Promise<number> {
  const opened = await openAside(world, config)
  try {
    return await use(opened)
  } finally {
    await opened.close()
  }
}

/** False, and said, where a sink or workspace is named that is neither configured nor one of those of which something is set aside still. */
export async function isThere(
  world: World,
  opened: OpenAside,
  whose: Whose,
  all: AsyncIterable<readonly { readonly sink?: string; readonly origin: Origin }[]>,
): Promise<boolean> {
  if (whose.sink === undefined && whose.workspace === undefined) return true
  const there = await opened.there()
  if (areNamed(whose, there)) return true
  const [sinks, workspaces] = [new Set<string>(), new Set<string>()]
  for await (const page of all)
    for (const { sink, origin } of page) {
      if (sink !== undefined) sinks.add(sink)
      workspaces.add(origin.workspace)
    }
  const named = (names: ReadonlySet<string>) => [...names].map((name) => ({ name }))
  return areKnown(world, whose, {
    sinks: [...there.sinks, ...named(sinks)],
    workspaces: [...there.workspaces, ...named(workspaces)],
  })
}

/** All that match, a bounded page at a time. */
export async function* pages<T extends { readonly id: number }>(
  ask: (page: { limit: number; after: number }) => Promise<readonly T[]>,
  limit = Infinity,
): AsyncGenerator<readonly T[]> {
  for (let after = 0, left = limit; left > 0;) {
    const rows = await ask({ limit: Math.min(left, 500), after })
    const last = rows.at(-1)
    if (!last) return
    yield rows
    left -= rows.length
    after = last.id
  }
}

/** Of pages what is meant, up to `limit`. */
export async function* only<T>(
  all: AsyncIterable<readonly T[]>,
  isMeant: (each: T) => boolean,
  limit = Infinity,
): AsyncGenerator<readonly T[]> {
  let left = limit
  for await (const page of all) {
    const meant = page.filter(isMeant).slice(0, left)
    left -= meant.length
    yield meant
    if (left <= 0) return
  }
}

/** What one transaction puts back or drops: its bytes are read at once. */
const CHUNK = { records: 500, bytes: 8 * 1024 * 1024 }

/** In chunks whose ids were looked up before: a letter refused again meanwhile is a new one, and not chased. */
export async function inChunks(
  records: readonly { readonly id: number; readonly bytes: number }[],
  work: (ids: readonly number[]) => Promise<number>,
): Promise<number> {
  let done = 0
  let ids: number[] = []
  let bytes = 0
  for (const record of records) {
    if (ids.length >= CHUNK.records || (ids.length > 0 && bytes + record.bytes > CHUNK.bytes)) {
      done += await work(ids)
      ids = []
      bytes = 0
    }
    ids.push(record.id)
    bytes += record.bytes
  }
  return ids.length > 0 ? done + (await work(ids)) : done
}
