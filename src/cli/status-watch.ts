// `status --watch`: looks again and again, through a restart of the daemon too, and not for ever where nobody answers.
import { orAborted } from '../core/abort.ts'
import type { Clock } from '../core/clock.ts'
import { ConnectorError } from '../core/errors.ts'
import type { StatusReport } from '../observability/status.ts'
import { spanText, utcText } from '../observability/words.ts'
import { showContent } from './shared/export-file.ts'
import { exitCodes, type CommandContext } from './shared/world.ts'

/** What one look found: a report, or in words why there is none. */
export type Look =
  | { readonly report: StatusReport; readonly nobody?: undefined }
  | { readonly report?: undefined; readonly nobody: string }

const WATCH_MS = 2_000
/** Somebody starts the daemon beside the watch, or has named the wrong file. */
const NEVER_HEARD_MS = 30_000
/** It restarts: one with a large journal checks that first. */
const HEARD_MS = 5 * 60_000
/** To the top left, and everything off the screen. */
const CLEAR = '\u001b[H\u001b[2J'

/** Until the signal, or nobody reads any more: then what was seen last decides the exit code. Or until nobody has answered for long. */
export async function watchStatus(
  context: CommandContext,
  look: () => Promise<Look>,
  textOf: (report: StatusReport) => string,
  clock: Clock,
): Promise<number> {
  const screen = context.colours === true
  const silence = new Silence(clock)
  let isWell = false
  const stopped = () => context.signal.aborted
  while (!stopped()) {
    // A daemon that hangs keeps nobody from leaving.
    const { report, nobody } = await orAborted(look(), context.signal).catch((error: unknown) => {
      if (!stopped()) return asNobody(error)
      return { report: undefined, nobody: '' }
    })
    if (stopped()) break
    if (report) {
      isWell = report.ok
      silence.broken()
      if (!(await showContent(context, Buffer.from(`${screen ? CLEAR : ''}${textOf(report)}`)))) break
    } else {
      isWell = false
      const isNew = silence.goesOn()
      if (screen) context.stdout(CLEAR)
      if (isNew || screen) context.stderr(nobody)
      context.stderr(silence.text)
      if (silence.isOver) break
    }
    await clock.sleep(WATCH_MS, context.signal)
  }
  return isWell ? exitCodes.done : exitCodes.failed
}

/** A daemon that stops may break off in the middle of its answer. */
function asNobody(error: unknown): Look {
  if (error instanceof ConnectorError && (error.code === 'unreachable' || error.code === 'timeout'))
    return { nobody: `auditferry: ${error.message}\n` }
  throw error
}

/** How long nobody has answered, and how long that is waited out. */
class Silence {
  readonly #clock: Clock
  #patienceMs = NEVER_HEARD_MS
  #since: { readonly at: number; readonly elapsed: number } | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  broken(): void {
    this.#since = undefined
    this.#patienceMs = HEARD_MS
  }

  /** True for the first look without an answer. */
  goesOn(): boolean {
    const isNew = this.#since === undefined
    this.#since ??= { at: this.#clock.now(), elapsed: this.#clock.elapsed() }
    return isNew
  }

  get #leftMs(): number {
    return this.#patienceMs - (this.#clock.elapsed() - (this.#since?.elapsed ?? this.#clock.elapsed()))
  }

  get isOver(): boolean {
    return this.#leftMs <= 0
  }

  get text(): string {
    const since = utcText(new Date(this.#since?.at ?? this.#clock.now()).toISOString())
    const then = this.isOver
      ? 'the watch ends'
      : `looking again every ${WATCH_MS / 1000} s, for ${spanText(this.#leftMs / 1000)} more`
    return `auditferry: no answer since ${since}: ${then}\n`
  }
}
