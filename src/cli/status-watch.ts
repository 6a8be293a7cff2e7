// `status --watch`: refreshes until Ctrl-C or a long silence; survives a daemon restart.
import { orAborted } from '../core/abort.ts'
import type { Clock } from '../core/clock.ts'
import { ConnectorError } from '../core/errors.ts'
import type { StatusReport } from '../observability/status.ts'
import { spanText, utcText } from '../observability/words.ts'
import { showContent } from './shared/export-file.ts'
import { exitCodes, type CommandContext } from './shared/context.ts'

/** Result of one query: a report, or the message that explains its absence. */
export type Look =
  | { readonly report: StatusReport; readonly message?: undefined }
  | { readonly report?: undefined; readonly message: string }

const WATCH_MS = 2_000
/** Before the first answer: the daemon is perhaps just starting, or the wrong file was given. */
const FIRST_ANSWER_MS = 30_000
/** After an answer: a restarting daemon checks a large journal before it answers. */
const RESTART_MS = 5 * 60_000
/** Moves to the top left and clears the screen. */
const CLEAR = '\u001b[H\u001b[2J'

/**
 * Runs until the signal, a long silence, or the end of the output's reader. The last answer decides
 * the exit code.
 */
export async function watchStatus(
  context: CommandContext,
  look: () => Promise<Look>,
  textOf: (report: StatusReport) => string,
  clock: Clock,
): Promise<number> {
  const screen = context.colours === true
  let isWell = false
  let patienceMs = FIRST_ANSWER_MS
  let silent: { readonly at: number; readonly elapsed: number } | undefined
  const stopped = () => context.signal.aborted
  while (!stopped()) {
    // Ctrl-C must work while a hanging daemon does not answer.
    const { report, message } = await orAborted(look(), context.signal).catch((error: unknown) => {
      if (!stopped()) return unreachable(error)
      return { report: undefined, message: '' }
    })
    if (stopped()) break
    if (report) {
      isWell = report.ok
      silent = undefined
      patienceMs = RESTART_MS
      if (!(await showContent(context, Buffer.from(`${screen ? CLEAR : ''}${textOf(report)}`)))) break
    } else {
      isWell = false
      if (screen) context.stdout(CLEAR)
      if (!silent || screen) context.stderr(message)
      silent ??= { at: clock.now(), elapsed: clock.elapsed() }
      const leftMs = patienceMs - (clock.elapsed() - silent.elapsed)
      context.stderr(silenceText(silent.at, leftMs))
      if (leftMs <= 0) break
    }
    await clock.sleep(WATCH_MS, context.signal)
  }
  return isWell ? exitCodes.done : exitCodes.failed
}

/** A stopping daemon may break off its answer. */
function unreachable(error: unknown): Look {
  if (error instanceof ConnectorError && (error.code === 'unreachable' || error.code === 'timeout'))
    return { message: `auditferry: ${error.message}\n` }
  throw error
}

function silenceText(since: number, leftMs: number): string {
  const then =
    leftMs <= 0
      ? 'the watch ends'
      : `looking again every ${WATCH_MS / 1000} s, for ${spanText(leftMs / 1000)} more`
  return `auditferry: no answer since ${utcText(new Date(since).toISOString())}: ${then}\n`
}
