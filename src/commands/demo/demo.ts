// `auditferry demo`: the mock API with live traffic, the real daemon and a file sink, on this machine alone. No account, nothing to configure.
import { existsSync } from 'node:fs'
import { loadConfig } from '../../config/load.ts'
import { listenMock } from '../../mock/listen.ts'
import { openMock } from '../../mock/mock.ts'
import { ConnectorError } from '../../model/errors.ts'
import type { Log } from '../../model/log.ts'
import { systemClock } from '../../ops/clock.ts'
import { connectControl } from '../../ops/control-client.ts'
import { references } from '../shared/config-file.ts'
import { DEMO_KEY, journalIn, openHome, RESUME_HOURS, writeConfig, type DemoHome } from './home.ts'
import { withLastWords } from '../run/last-words.ts'
import { realOutside } from '../shared/real-outside.ts'
import { runDaemon } from '../run/daemon.ts'
import { exitCodes, type World } from '../shared/world.ts'

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
export function demo(outer: World, options: DemoOptions): Promise<number> {
  const world = { ...outer, signal: AbortSignal.any([outer.signal, terminalGone(outer)]) }
  return withLastWords(world, (useLog) => open(world, options, useLog))
}

async function open(world: World, options: DemoOptions, useLog: Serving['useLog']): Promise<number> {
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
    return await serve(world, options, { home, api: api.url, useLog })
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

async function serve(world: World, options: DemoOptions, { home, api, useLog }: Serving): Promise<number> {
  const listen = options.listen ?? (world.env['AUDITFERRY_LISTEN'] || '127.0.0.1:9464')
  const startOn = async (address: string) => {
    await writeConfig(home, api, address)
    const config = loadConfig(home.config, references(world))
    const outside = realOutside(config, world)
    useLog(outside.log)
    const started = (page: string) => {
      world.stdout(welcome(home, page, api, world.pid))
      void narrate(journalIn(options.data), world)
    }
    const { signal, journalCheck } = world
    await runDaemon({ config, outside }, signal, { journalCheck, started })
    world.stdout(farewell(home, options.data))
    return exitCodes.done
  }
  try {
    return await startOn(listen)
  } catch (error) {
    // The demo should not fail because something else has the usual port.
    if (!(error instanceof ConnectorError) || !/in use by another process: /.test(error.message)) throw error
    world.stdout(`\n${listen} is in use by another process: the status page takes a free port instead.\n`)
    return startOn('127.0.0.1:0')
  }
}

/** A SIGHUP is no end as long as somebody may read what is told of it: a terminal that was closed takes nothing any more. */
function terminalGone({ onHangup, print }: World): AbortSignal {
  const gone = new AbortController()
  onHangup?.(() => {
    const word = Buffer.from('\nSIGHUP: the demo has no configuration to read again, and goes on.\n')
    print(word).catch(() => gone.abort(new Error('SIGHUP')))
  })
  return gone.signal
}

/** Every few seconds what arrived meanwhile: that something flows is to be seen in this window already. */
async function narrate(journal: string, world: World): Promise<void> {
  let before = 0
  for (;;) {
    await systemClock.sleep(NARRATE_MS, world.signal)
    if (world.signal.aborted) {
      world.stdout('\nStopping: what is under way is finished first, a few seconds at most.\n')
      return
    }
    const status = await (await connectControl(journal))?.status().catch(() => undefined)
    const accepted = status?.sinks.reduce((sum, sink) => sum + sink.accepted_entries, 0) ?? before
    if (accepted > before)
      world.stdout(`  ${accepted} entries delivered, ${accepted - before} since the last look\n`)
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
    'Goes on where the last demo stopped: what its workspace did meanwhile is read now, nothing twice.',
  removed: `The last demo here was too old to go on with: its files are gone, this one begins anew.\n${TWENTY}`,
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
