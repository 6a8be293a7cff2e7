// `auditferry demo`: the mock API with live traffic, the real daemon and a file sink, on this machine alone. No account, nothing to configure.
import { existsSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { stringify } from 'yaml'
import { loadConfig } from '../config/load.ts'
import { connectControl } from '../control/client.ts'
import { ConnectorError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { HOUR_MS } from '../core/time.ts'
import { listenMock } from '../mock/listen.ts'
import { openMock } from '../mock/mock.ts'
import { systemClock } from '../platform/clock.ts'
import { disk } from '../platform/disk.ts'
import { runDaemon, withLastWords } from './run/daemon.ts'
import { references } from './shared/config-file.ts'
import { realEnvironment } from './shared/environment.ts'
import { exitCodes } from './shared/world.ts'
import type { CommandContext } from './shared/world.ts'

/** A workspace of some size, busy at any hour: something flows within seconds even in its quiet minutes. */
const ENTRIES_PER_HOUR = 10_800
/** What was there before: so that something flows at once. */
const BACKLOG_MS = 20 * 60_000
const NARRATE_MS = 5_000

export interface DemoOptions {
  readonly data: string
  readonly listen?: string
}

/** Runs until the signal, or until nobody can read what it says any more. Goes on from what an earlier demo left within the last hours. */
export function demo(outer: CommandContext, options: DemoOptions): Promise<number> {
  const context = { ...outer, signal: AbortSignal.any([outer.signal, terminalGone(outer)]) }
  return withLastWords(context, (useLog) => open(context, options, useLog))
}

async function open(
  context: CommandContext,
  options: DemoOptions,
  useLog: Serving['useLog'],
): Promise<number> {
  if (await connectControl(journalIn(options.data)))
    throw new ConnectorError(
      'misconfigured',
      `a demo is running on ${options.data} already: stop it, or name another folder with --data (npm start -- --data FOLDER)`,
    )
  const home = await openHome(options.data, systemClock.now(), BACKLOG_MS)
  const { seed, since } = home.origins
  const mock = openMock({
    clock: systemClock,
    seed,
    workspaces: [{ name: 'demo', keys: [{ key: DEMO_KEY }] }],
    traffic: { entriesPerHour: ENTRIES_PER_HOUR, since, rhythm: 'steady' },
    // Entries of our own reading live in the mock's memory alone: after a restart they would be missed.
    switches: { self_audit: 'off' },
  })
  const api = await listenMock(mock, { port: 0, host: '127.0.0.1' })
  try {
    return await serve(context, options, { home, api: api.url, useLog })
  } finally {
    await api.close()
  }
}

interface Serving {
  readonly home: DemoHome
  /** where the mock is */
  readonly api: string
  readonly useLog: (log: Log) => void
}

async function serve(
  context: CommandContext,
  options: DemoOptions,
  { home, api, useLog }: Serving,
): Promise<number> {
  const listen = options.listen ?? (context.env['AUDITFERRY_LISTEN'] || '127.0.0.1:9464')
  const startOn = async (address: string) => {
    await writeConfig(home, api, address)
    const config = loadConfig(home.config, references(context))
    const environment = realEnvironment(config, context)
    useLog(environment.log)
    const started = (page: string) => {
      context.stdout(welcome(home, page, api, context.pid))
      void narrate(journalIn(options.data), context)
    }
    const { signal, journalCheck } = context
    await runDaemon({ config, environment }, signal, { journalCheck, started })
    context.stdout(farewell(home, options.data))
    return exitCodes.done
  }
  try {
    return await startOn(listen)
  } catch (error) {
    // The demo should not fail because something else has the usual port.
    if (!(error instanceof ConnectorError) || !/in use by another process: /.test(error.message)) throw error
    context.stdout(`\n${listen} is in use by another process: the status page takes a free port instead.\n`)
    return startOn('127.0.0.1:0')
  }
}

/** A SIGHUP is no end as long as somebody may read what is told of it: a terminal that was closed takes nothing any more. */
function terminalGone({ onHangup, print }: CommandContext): AbortSignal {
  const gone = new AbortController()
  onHangup?.(() => {
    const word = Buffer.from('\nSIGHUP: the demo has no configuration file to reload, and continues.\n')
    print(word).catch(() => gone.abort(new Error('SIGHUP')))
  })
  return gone.signal
}

/** Every few seconds what arrived meanwhile: that something flows is to be seen in this window already. */
async function narrate(journal: string, context: CommandContext): Promise<void> {
  let before = 0
  for (;;) {
    await systemClock.sleep(NARRATE_MS, context.signal)
    if (context.signal.aborted) {
      context.stdout('\nStopping: what is under way is finished first, a few seconds at most.\n')
      return
    }
    const status = await (await connectControl(journal))?.status().catch(() => undefined)
    const accepted = status?.sinks.reduce((sum, sink) => sum + sink.accepted_entries, 0) ?? before
    if (accepted > before)
      context.stdout(`  ${accepted} entries delivered, ${accepted - before} since the last look\n`)
    before = accepted
  }
}

/** How the program is called here: in a clone it is not installed. */
function program(): string {
  const [node, main] = ['node_modules/.bin/node', 'dist/main.js']
  return existsSync(node) && existsSync(main) ? `${node} ${main}` : 'auditferry'
}

const TWENTY = 'Twenty minutes of entries are there already, more follow every ten seconds.'
const first: Readonly<Record<DemoHome['before'], string>> = {
  nothing: TWENTY,
  resumed:
    'Continues where the last demo stopped: what its workspace did meanwhile is read now, nothing twice.',
  removed: `The last demo here was too old to continue: its files were removed, and this one starts fresh.\n${TWENTY}`,
}

const farewell = ({ entries }: DemoHome, data: string) => `
Stopped. Nothing is lost: what was read and not delivered yet waits in the journal.

  what arrived   ${entries}
  go on          ${program()} demo --data ${data}

Within ${RESUME_HOURS} hours it goes on where it was, and nothing is there twice; later it begins anew.
`

function welcome({ config, entries, before }: DemoHome, page: string, api: string, pid = 0): string {
  const command = program()
  // What listens on every address is looked at on this one.
  const near = page.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:')
  return `
Auditferry demo: a mock workspace, the real daemon, a file. Nothing leaves this machine.
${first[before]}

  status page    ${near}
  metrics        ${near}metrics
  entries        tail -f ${entries}
  mock API       ${api}

In another terminal, here:

  ${command} status --config ${config}
  ${command} dead-letters list --config ${config}

Stop it with kill -9 ${pid} whenever you like and start it again within ${RESUME_HOURS} hours: nothing is missing,
nothing is there twice. Ctrl-C ends it.
`
}

// The demo's folder: its configuration, its journal, and the seed of its mock, so that a demo that was killed goes on where it was.

export const DEMO_KEY = 'demo-key'

/** What the mock's entries follow from: the same seed and start make the same entries again. */
interface Origins {
  readonly seed: number
  /** epoch ms */
  readonly since: number
}

export interface DemoHome {
  readonly folder: string
  readonly config: string
  readonly entries: string
  readonly origins: Origins
  /** what was here before: nothing, a demo that goes on, or one that was too old for that and is gone */
  readonly before: 'nothing' | 'resumed' | 'removed'
}

/** An older demo's mock would hold too many entries by now: it begins anew. */
export const RESUME_HOURS = 6
const ORIGINS = 'mock.json'
const CONFIG = 'auditferry.yaml'
const ENTRIES = 'entries.ndjson'
const JOURNAL = 'auditferry.db'

function originsIn(file: string): Origins | undefined {
  try {
    const { seed, since } = JSON.parse(readFileSync(file, 'utf8')) as Partial<Origins>
    return typeof seed === 'number' && typeof since === 'number' ? { seed, since } : undefined
  } catch {
    return undefined
  }
}

const folderIn = (data: string) => join(data, 'demo')
/** As the daemon has it: where the control socket is depends on the length of the whole path. */
export const journalIn = (data: string) => resolve(folderIn(data), JOURNAL)

async function writeWhole(path: string, text: string): Promise<void> {
  const file = await disk.open(path)
  try {
    await file.truncate(0)
    await file.write(Buffer.from(text), 0)
  } finally {
    await file.close()
  }
}

/** Removes what an older demo left, by name, and nothing else; the file that says so last. Throws where no demo made the folder. */
async function clear(folder: string): Promise<boolean> {
  const names = (await disk.list(folder)).map(({ name }) => name)
  if (names.length === 0) return false
  if (!names.includes(ORIGINS))
    throw new ConnectorError(
      'misconfigured',
      `${folder} contains files that are not from a demo (there is no ${ORIGINS}): choose another folder with --data`,
    )
  const ours = names.filter((name) => name === CONFIG || name === ENTRIES || name.startsWith(JOURNAL))
  for (const name of [...ours, ORIGINS]) await disk.remove(join(folder, name))
  return true
}

/**
 * `backlogMs`: how far back a new demo's entries begin. No demo may be running in `data`. Throws ConnectorError where the folder
 * holds what no demo made, or cannot be written.
 */
export async function openHome(data: string, now: number, backlogMs: number): Promise<DemoHome> {
  const folder = folderIn(data)
  const paths = { folder, config: join(folder, CONFIG), entries: join(folder, ENTRIES) }
  const file = join(folder, ORIGINS)
  const known = originsIn(file)
  if (known && known.since <= now && now - known.since < RESUME_HOURS * HOUR_MS + backlogMs)
    return { ...paths, origins: known, before: 'resumed' }
  const removed = await clear(folder)
  const origins = { seed: now % 2 ** 31, since: now - backlogMs }
  await writeWhole(file, `${JSON.stringify(origins)}\n`)
  return { ...paths, origins, before: removed ? 'removed' : 'nothing' }
}

export async function writeConfig(home: DemoHome, baseUrl: string, listen: string): Promise<void> {
  const config = {
    journal: { path: JOURNAL, max_bytes: '256MiB' },
    workspaces: [
      { name: 'demo', base_url: baseUrl, api_key: DEMO_KEY, audit: { interval: '10s', lookback: '1h' } },
    ],
    sinks: [{ name: 'archive', type: 'file', path: ENTRIES, tap: true }],
    server: { listen },
    log: { level: 'warn' },
  }
  const head = '# Rewritten by `auditferry demo` at each start: copy it as a start for your own.\n'
  await writeWhole(home.config, head + stringify(config))
}
