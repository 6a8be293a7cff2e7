// Shared by the commands for jobs: follow, list and cancel jobs, and print their progress.
import { missingText, matches, progressOf } from '../../contracts/jobs.ts'
import type { Job, JobFilter, JobKind, JobSpan, Unread, WaitsFor } from '../../contracts/jobs.ts'
import { isSameStream } from '../../contracts/source.ts'
import type { ControlClient } from '../../control/client.ts'
import type { Clock } from '../../core/clock.ts'
import { ConnectorError } from '../../core/errors.ts'
import { printable } from '../../core/printable.ts'
import { secondText } from '../../core/time.ts'
import { countText, waitText } from '../../observability/words.ts'
import { reachDaemon } from './journal.ts'
import { unknownIn } from './names.ts'
import { assertUsage, exitCodes } from './context.ts'
import type { CommandContext } from './context.ts'

const POLL_MS = 1_000
const LINE_MS = 10_000
/** The command waits this long for a daemon that restarts. */
const PATIENCE_MS = 30_000

/** Texts that differ between the commands. */
export interface JobTexts {
  /** name of the job and of its command */
  readonly kind: JobKind
  /** what needs a running daemon, for an error message */
  readonly needs: string
  /** its name, for "No … was under way" */
  readonly title: string
  /** what remains after a cancellation */
  readonly stays: (whose: 'it' | 'they') => string
  readonly countsText: (job: Job) => string
  readonly endText: (job: Job, ended: string) => string
  /** progress bar for all jobs, on a terminal only */
  readonly barText?: (all: readonly Job[]) => string
  /** printed after the last lines */
  readonly adviceText?: (job: Job) => string
}

type Connect = () => Promise<ControlClient | undefined>

/** Follows the jobs until all have ended or disappeared, or until the signal. */
export async function follow(
  context: CommandContext,
  texts: JobTexts,
  started: readonly Job[],
  connect: Connect,
  clock: Clock,
): Promise<number> {
  const barText = context.colours === true ? texts.barText : undefined
  const troubles = new Set<string>()
  let now = started
  let printedAt = clock.elapsed()
  let answeredAt = clock.elapsed()
  for (;;) {
    const open = now.filter(({ endedAt }) => endedAt === undefined)
    const silence = silenceText(clock.elapsed() - answeredAt)
    if (barText)
      context.stdout(`${newReasons(texts, open, troubles, silence)}${CLEAR_LINE}${barText(now)}${silence}`)
    else if (clock.elapsed() - printedAt >= LINE_MS) {
      printedAt = clock.elapsed()
      for (const job of open) context.stdout(lineText(texts, job, silence))
    }
    if (open.length === 0) break
    await clock.sleep(POLL_MS, context.signal)
    if (context.signal.aborted) {
      context.stdout(`\nThe daemon continues it: ${manageText(texts)}\n`)
      return exitCodes.done
    }
    const current = await askDaemon(texts, connect, now)
    if (current) {
      answeredAt = clock.elapsed()
      now = current
    } else if (clock.elapsed() - answeredAt >= PATIENCE_MS) {
      context.stderr(
        `auditferry: the daemon no longer answers; the ${texts.kind} continues when it runs again: ${manageText(texts)}\n`,
      )
      return exitCodes.failed
    }
  }
  if (barText) context.stdout(CLEAR_LINE)
  for (const job of now) context.stdout(lineText(texts, job))
  for (const job of now) context.stderr(texts.adviceText?.(job) ?? '')
  return now.every((job) => job.error === undefined && isComplete(job)) ? exitCodes.done : exitCodes.failed
}

const manageText = ({ kind }: JobTexts) => `auditferry ${kind} --status shows its progress, --cancel stops it`

const isComplete = ({ counts, unread }: Job): boolean => counts.gaps === 0 && unread.length === 0

/** The jobs as they are now; undefined: the daemon does not answer. */
async function askDaemon(
  texts: JobTexts,
  connect: Connect,
  before: readonly Job[],
): Promise<readonly Job[] | undefined> {
  try {
    const all = await (await connect())?.jobs.all(texts.kind)
    return all && before.map((job) => (job.endedAt === undefined ? currentState(texts, all, job) : job))
  } catch (error) {
    if (error instanceof ConnectorError && (error.code === 'unreachable' || error.code === 'timeout'))
      return undefined
    throw error
  }
}

/** The job as it is now. A missing job was cancelled, or ended and was replaced by another one. */
function currentState({ stays }: JobTexts, all: readonly Job[], job: Job): Job {
  const over = (message: string): Job => ({
    ...job,
    endedAt: job.startedAt,
    error: { code: 'aborted', message },
  })
  const alike = all.filter((other) => other.sink === job.sink && isSameStream(other.stream, job.stream))
  const same = alike.find(({ startedAt }) => startedAt === job.startedAt)
  if (same) {
    const { waitsFor: what } = same
    if (what !== 'source' && what !== 'sink' && what !== 'sources') return same
    // The daemon resumes it once the configuration is complete again; following it ends here.
    return over(
      `${missingText[what]}: it waits in the journal, and continues once ${what === 'sources' ? 'it' : `the ${what}`} is there again`,
    )
  }
  // A job that ended before this one started is listed again once this one is gone.
  const isGone = alike.every(
    ({ startedAt, endedAt = Infinity }) => startedAt < job.startedAt && endedAt <= job.startedAt,
  )
  const how = isGone
    ? 'it was cancelled'
    : 'it ended or was cancelled, and another one has started since: see the log of the daemon'
  return over(`${how}; ${stays('it')}`)
}

/** `--status` and `--cancel`. Asks only the daemon, which knows jobs that have left the file. */
export async function showOrCancel(
  context: CommandContext,
  file: string,
  texts: JobTexts,
  which: JobFilter,
  isCancel: boolean,
): Promise<number> {
  const { client, names } = await reachDaemon(file, context)
  if (!client) return withoutDaemon(context, file, texts)
  const { kind, title, stays } = texts
  if (isCancel) {
    const count = await client.jobs.cancel(kind, which)
    if (count === 0) assertUsage(unknownIn(which, await names()))
    if (count === 0) context.stdout(`No ${title} was under way: nothing to cancel\n`)
    else context.stdout(`${countText(count, `${kind}s`)} cancelled; ${stays(count === 1 ? 'it' : 'they')}\n`)
    return exitCodes.done
  }
  const all = await client.jobs.all(kind)
  const selected = all.filter((job) => matches(which, job))
  if (selected.length === 0) {
    const configured = await names()
    // A name that left the configuration is still valid while a job has it.
    const known = {
      workspaces: [...configured.workspaces, ...all.map(({ stream }) => ({ name: stream.workspace }))],
      sinks: [...configured.sinks, ...all.flatMap(({ sink }) => (sink === undefined ? [] : { name: sink }))],
    }
    assertUsage(unknownIn(which, known))
    context.stdout(
      `No ${all.length > 0 ? 'such ' : ''}${title} is under way, and none came to its end within the last day; one that was cancelled is not kept\n`,
    )
  }
  for (const job of selected) context.stdout(lineText(texts, job))
  return exitCodes.done
}

export function withoutDaemon(
  { stderr }: CommandContext,
  file: string,
  { needs }: Pick<JobTexts, 'needs'>,
): number {
  stderr(
    `auditferry: no daemon runs on ${file}, and ${needs} needs one, since the daemon keeps the rate limit: start it with: auditferry run --config ${file}\n`,
  )
  return exitCodes.failed
}

// Progress line, the same for backfill, replay, reconcile and `status`.

/** Answers normally arrive more often than this. */
const SILENT_MS = 3_000
/** Returns to the start of the line and clears it. */
const CLEAR_LINE = '\r\u001b[K'

/** `ratio`: 0 to 1; undefined: not known yet. */
export const progressText = (name: string, ratio: number | undefined, counts: string, trouble: string) =>
  `${name}: ${percentText(ratio ?? 0)}, ${counts}${trouble}`

export const percentText = (ratio: number) => `${Math.floor(ratio * 100)} %`

export const spanText = ({ fromUs, toUs }: JobSpan) =>
  `${secondText(fromUs / 1000)} to ${secondText(toUs / 1000)}`

export const nameText = ({ stream, sink }: Job): string =>
  printable(`${stream.workspace} ${stream.source}${sink === undefined ? '' : ` to ${sink}, from the API`}`)

export const gapsText = (gaps: number) =>
  gaps === 0 ? '' : `; ${countText(gaps, 'possible gaps')}: entries there may be missing`

/** Unread parts that are listed. */
const MOST_NAMED = 5

export const unreadWhy = {
  refused: 'refused by the API with 400 (the span may be too far in the past)',
  unreadable: 'unreadable while other times could be read (try again later)',
} as const

export function unreadText(unread: readonly Unread[]): string {
  const named = unread
    .slice(0, MOST_NAMED)
    .map((part) => `\n  not read: ${spanText(part)}: ${unreadWhy[part.why]}`)
  const more = unread.length - MOST_NAMED
  return `${named.join('')}${more > 0 ? `\n  and ${more} more` : ''}`
}

/** Why the job makes no progress, if known. */
export function troubleText({ error, waitsFor, waitReason }: Trouble): string {
  if (error) return `; trying again: ${printable(error.message)}`
  const text = waitText(waitsFor, waitReason)
  return text === '' ? '' : `. ${printable(text)}`
}

interface Trouble {
  readonly error?: { readonly message: string } | null | undefined
  readonly waitsFor?: WaitsFor | null | undefined
  readonly waitReason?: string | null | undefined
}

/** Replaces the last known reason, which may be outdated. */
const silenceText = (silentMs: number) =>
  silentMs < SILENT_MS ? '' : `; no answer from the daemon since ${Math.round(silentMs / 1000)} s`

function lineText({ countsText, endText }: JobTexts, job: Job, silence = ''): string {
  const why = job.error && printable(job.error.message)
  if (job.endedAt !== undefined)
    return `${endText(job, why ?? (isComplete(job) ? 'done' : 'ended, not whole'))}\n`
  return `${progressText(nameText(job), progressOf(job), countsText(job), silence || troubleText(job))}\n`
}

/** On a terminal, prints each reason why a job waits once, above the bar. */
function newReasons(texts: JobTexts, open: readonly Job[], printed: Set<string>, silence: string): string {
  if (silence !== '') return ''
  const news = open.filter((job) => {
    // The numbers in a wait reason change all the time.
    const trouble = job.error ? troubleText(job) : (job.waitsFor ?? '')
    return trouble !== '' && printed.size < printed.add(`${nameText(job)}${trouble}`).size
  })
  return news.map((job) => `${CLEAR_LINE}${lineText(texts, job)}`).join('')
}
