#!/usr/bin/env node
// The program: checks the Node version, then passes arguments, environment, signals and exit code
// between the process and the commands.
import type { CommandContext } from './cli/shared/context.ts'
import type { Log } from './core/log.ts'

const needed = [22, 19] as const

/** Runs before any import, with syntax that old versions can parse. */
function isOldNode(): boolean {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  return major < needed[0] || (major === needed[0] && minor < needed[1])
}

/** The promise is 10 s. A call that hangs in the kernel is abandoned: the journal has it all. */
const FORCED_EXIT_MS = 9_300

/** Time for a slow reader of the log; without a reader the process ends anyway. */
const LAST_LINES_MS = 500

function stopSignal(): AbortSignal {
  const controller = new AbortController()
  // Once each: a second signal of the same kind ends the process at once.
  for (const signal of ['SIGTERM', 'SIGINT'] as const)
    process.once(signal, () => {
      controller.abort(new Error(signal))
      setTimeout(() => process.exit(), FORCED_EXIT_MS).unref()
    })
  return controller.signal
}

/**
 * A SIGHUP in the first moments of `run` is remembered until the daemon listens for it. It ends
 * `run --once` and all other commands.
 */
function hangups([command, ...options]: readonly string[]): NonNullable<CommandContext['onHangup']> {
  let early = false
  const wait = () => void (early = true)
  if (command === 'run' && !options.includes('--once')) process.on('SIGHUP', wait)
  return (listener) => {
    process.on('SIGHUP', listener)
    process.off('SIGHUP', wait)
    if (early) listener()
  }
}

/** Node itself would print the message, the cause and every field of what was thrown. */
function bugs(
  report: (error: unknown) => void,
  bugLine?: (error: unknown) => string,
): NonNullable<CommandContext['onBug']> {
  let reportBug = report
  process.on('uncaughtException', (error) => {
    try {
      reportBug(error)
    } finally {
      if (bugLine) process.stderr.write(bugLine(error))
      process.exit(1)
    }
  })
  return (listener) => void (reportBug = listener)
}

/** Node and libraries print warnings as plain text: here each becomes a line of the log. */
function logWarnings(log: Log, thrownAt: (error: Error) => string): void {
  // With --no-warnings there is no listener.
  if (process.listenerCount('warning') > 0) {
    process.removeAllListeners('warning')
    process.on('warning', ({ name, message }) =>
      log.warn('Node.js printed a warning', { name, reason: message }),
    )
  }
  const instead = () =>
    log.warn('A library wrote to standard error; its text is omitted because it may contain content', {
      at: thrownAt(new Error('here')),
    })
  Object.assign(console, { warn: instead, error: instead, trace: instead })
}

async function main(): Promise<number> {
  // Before anything is loaded: a signal in the first moments is a stop like any other.
  const signal = stopSignal()
  const argv = process.argv.slice(2)
  const onHangup = hangups(argv)
  // Node would open its debugger to every user of the machine, or end.
  for (const unused of ['SIGUSR1', 'SIGUSR2'] as const) process.on(unused, () => undefined)
  const { bugLine, thrownAt } = await import('./core/errors.ts')
  const { logEnd, openLog } = await import('./observability/log.ts')
  const { isatty } = await import('node:tty')
  const terminal = isatty(2)
  /** These write only log lines to standard error, unless it is a terminal. */
  const isLogged = !terminal && ['run', 'demo'].includes(argv[0] ?? '')
  const log = isLogged ? openLog({ level: 'warn' }) : undefined
  const onBug = log ? bugs(logEnd) : bugs(() => undefined, bugLine)
  if (log) logWarnings(log, thrownAt)
  const { tuneHeap } = await import('./platform/process.ts')
  const { drainStandardError, printTo, writerTo } = await import('./platform/standard-streams.ts')
  tuneHeap()
  const { readFileSync } = await import('node:fs')
  const { runProgram } = await import('./cli/program.ts')
  const manifest = readFileSync(new URL('../package.json', import.meta.url), 'utf8')
  process.umask(0o077)
  // A reader that went away (`| head`) is no crash: `print` reports it.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined)
  const output = writerTo(process.stdout)
  const context: CommandContext = {
    env: process.env,
    pid: process.pid,
    version: (JSON.parse(manifest) as { version: string }).version,
    stdout: output.write,
    stderr: (text) => void process.stderr.write(text),
    terminal,
    // https://no-color.org: set and not empty, with any value.
    colours: process.stdout.isTTY && (process.env['NO_COLOR'] ?? '') === '',
    print: printTo(process.stdout),
    stdin: () => process.stdin,
    // Beside this file, in the sources and in the build.
    journalCheck: import.meta.filename.replace(/main(\.[jt]s)$/, 'journal-check$1'),
    signal,
    onHangup,
    onBug,
  }
  const code = await runProgram(argv, context)
  await drainStandardError(LAST_LINES_MS)
  const fault = await output.fault()
  if (fault === undefined) return code
  if (log) log.error('Standard output could not be written completely', { reason: fault })
  else context.stderr(`auditferry: standard output could not be written completely (${fault})\n`)
  return code === 0 ? 1 : code
}

if (isOldNode()) {
  process.stderr.write(
    `auditferry needs Node ${needed.join('.')} or newer, this is ${process.versions.node}: npm ci installs one as node_modules/.bin/node\n`,
  )
  process.exitCode = 1
} else {
  void main().then((code) => {
    process.exitCode = code
  })
}
