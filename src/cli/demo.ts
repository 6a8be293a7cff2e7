// `demo`: mock API with live traffic, daemon and file sink on this machine. Needs no configuration.
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
import { runDaemon, withErrorReport } from './run/daemon.ts'
import { references } from './shared/config-file.ts'
import { realEnvironment } from './shared/environment.ts'
import { exitCodes } from './shared/context.ts'
import type { CommandContext } from './shared/context.ts'

/** Busy at any hour, so that entries flow within seconds. */
const ENTRIES_PER_HOUR = 10_800
/** Entries that exist at the start, so that delivery begins at once. */
const BACKLOG_MS = 20 * 60_000
const PROGRESS_MS = 5_000

export interface DemoOptions {
  readonly data: string
  readonly listen?: string
}

/** Runs until the signal, or until its terminal is gone. Resumes a demo of the last hours. */
export function demo(outer: CommandContext, options: DemoOptions): Promise<number> {
  const context = { ...outer, signal: AbortSignal.any([outer.signal, terminalClosed(outer)]) }
  return withErrorReport(context, (useLog) => open(context, options, useLog))
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
  const { seed, since } = home.mockSeed
  const mock = openMock({
    clock: systemClock,
    seed,
    workspaces: [{ name: 'demo', keys: [{ key: DEMO_KEY }] }],
    traffic: { entriesPerHour: ENTRIES_PER_HOUR, since, rhythm: 'steady' },
    // Self-audit entries live only in the mock's memory, so a restart would lose them.
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
      void printProgress(journalIn(options.data), context)
    }
    const { signal, journalCheck } = context
    await runDaemon({ config, environment }, signal, { journalCheck, started })
    context.stdout(farewell(home, options.data))
    return exitCodes.done
  }
  try {
    return await startOn(listen)
  } catch (error) {
    // A process that already uses the default port must not make the demo fail.
    if (!(error instanceof ConnectorError) || !/in use by another process: /.test(error.message)) throw error
    context.stdout(`\n${listen} is in use by another process: the status page takes a free port instead.\n`)
    return startOn('127.0.0.1:0')
  }
}

/** SIGHUP ends the demo only if its terminal no longer accepts output. */
function terminalClosed({ onHangup, print }: CommandContext): AbortSignal {
  const gone = new AbortController()
  onHangup?.(() => {
    const word = Buffer.from('\nSIGHUP: the demo has no configuration file to reload, and continues.\n')
    print(word).catch(() => gone.abort(new Error('SIGHUP')))
  })
  return gone.signal
}

/** Prints every few seconds how many entries arrived, to show the flow in this window. */
async function printProgress(journal: string, context: CommandContext): Promise<void> {
  let before = 0
  for (;;) {
    await systemClock.sleep(PROGRESS_MS, context.signal)
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

/** In a checkout the program is not installed. */
function program(): string {
  const [node, main] = ['node_modules/.bin/node', 'dist/main.js']
  return existsSync(node) && existsSync(main) ? `${node} ${main}` : 'auditferry'
}

const FRESH_START = 'Twenty minutes of entries are there already, more follow every ten seconds.'
const introductions: Readonly<Record<DemoHome['before'], string>> = {
  nothing: FRESH_START,
  resumed:
    'Continues where the last demo stopped: what its workspace did meanwhile is read now, nothing twice.',
  removed: `The last demo here was too old to continue: its files were removed, and this one starts fresh.\n${FRESH_START}`,
}

const farewell = ({ entries }: DemoHome, data: string) => `
Stopped. Nothing is lost: what was read and not delivered yet waits in the journal.

  what arrived   ${entries}
  continue       ${program()} demo --data ${data}

Within ${RESUME_HOURS} hours it continues where it was, without duplicates; later it starts from the beginning.
`

function welcome({ config, entries, before }: DemoHome, page: string, api: string, pid = 0): string {
  const command = program()
  // A listener on every address is reachable at the loopback address.
  const near = page.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:')
  return `
Auditferry demo: a mock workspace, the real daemon, a file. Nothing leaves this machine.
${introductions[before]}

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

// The demo's folder: configuration, journal and seed of the mock, so that a killed demo resumes.

export const DEMO_KEY = 'demo-key'

/** The same seed and start produce the same mock entries. */
interface MockSeed {
  readonly seed: number
  /** epoch ms */
  readonly since: number
}

export interface DemoHome {
  readonly config: string
  readonly entries: string
  readonly mockSeed: MockSeed
  /** previous content of the folder; `removed`: a demo too old to resume */
  readonly before: 'nothing' | 'resumed' | 'removed'
}

/** After this time the mock would have to generate too many entries: the demo starts over. */
export const RESUME_HOURS = 6
const MOCK_SEED = 'mock.json'
const CONFIG = 'auditferry.yaml'
const ENTRIES = 'entries.ndjson'
const JOURNAL = 'auditferry.db'

function mockSeedIn(file: string): MockSeed | undefined {
  try {
    const { seed, since } = JSON.parse(readFileSync(file, 'utf8')) as Partial<MockSeed>
    return typeof seed === 'number' && typeof since === 'number' ? { seed, since } : undefined
  } catch {
    return undefined
  }
}

const folderIn = (data: string) => join(data, 'demo')
/** Absolute, as in the daemon: the location of the control socket depends on the path's length. */
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

/** Removes the files of an older demo, marker file last. False: empty. Throws on foreign files. */
async function clear(folder: string): Promise<boolean> {
  const names = (await disk.list(folder)).map(({ name }) => name)
  if (names.length === 0) return false
  if (!names.includes(MOCK_SEED))
    throw new ConnectorError(
      'misconfigured',
      `${folder} contains files that are not from a demo (there is no ${MOCK_SEED}): choose another folder with --data`,
    )
  const ours = names.filter((name) => name === CONFIG || name === ENTRIES || name.startsWith(JOURNAL))
  for (const name of [...ours, MOCK_SEED]) await disk.remove(join(folder, name))
  return true
}

/**
 * No demo may be running in `data`. `backlogMs`: how far back the entries of a new demo begin.
 * Throws ConnectorError if the folder contains foreign files or is not writable.
 */
export async function openHome(data: string, now: number, backlogMs: number): Promise<DemoHome> {
  const folder = folderIn(data)
  const paths = { config: join(folder, CONFIG), entries: join(folder, ENTRIES) }
  const file = join(folder, MOCK_SEED)
  const known = mockSeedIn(file)
  if (known && known.since <= now && now - known.since < RESUME_HOURS * HOUR_MS + backlogMs)
    return { ...paths, mockSeed: known, before: 'resumed' }
  const removed = await clear(folder)
  const mockSeed = { seed: now % 2 ** 31, since: now - backlogMs }
  await writeWhole(file, `${JSON.stringify(mockSeed)}\n`)
  return { ...paths, mockSeed, before: removed ? 'removed' : 'nothing' }
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
