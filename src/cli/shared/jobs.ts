// What the commands for jobs share: they follow what the daemon reads, list it, cancel it, and print how far it is.
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
import { areKnown } from './names.ts'
import { exitCodes } from './world.ts'
import type { CommandContext } from './world.ts'

const LOOK_MS = 1_000
const LINE_MS = 10_000
/** The command waits this long for a daemon that restarts. */
const PATIENCE_MS = 30_000

/** Texts that differ between the commands. */
export interface JobTexts {
  /** what it is called, and its command */
  readonly kind: JobKind
  /** what needs the daemon */
  readonly needs: string
  /** what it is called where none is there */
  readonly title: string
  /** of one that was cancelled */
  readonly stays: (whose: 'it' | 'they') => string
  readonly countsText: (job: Job) => string
  readonly endText: (job: Job, ended: string) => string
  /** on a screen, of all together */
  readonly barText?: (all: readonly Job[]) => string
  /** behind the last lines */
  readonly adviceText?: (job: Job) => string
}

type Connect = () => Promise<ControlClient | undefined>

/** Until all that were started have ended, or are no longer there, or the signal. */
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
  let heardAt = clock.elapsed()
  for (;;) {
    const open = now.filter(({ endedAt }) => endedAt === undefined)
    const silence = silenceText(clock.elapsed() - heardAt)
    if (barText)
      context.stdout(`${newTroubles(texts, open, troubles, silence)}${AGAIN}${barText(now)}${silence}`)
    else if (clock.elapsed() - printedAt >= LINE_MS) {
      printedAt = clock.elapsed()
      for (const job of open) context.stdout(lineText(texts, job, silence))
    }
    if (open.length === 0) break
    await clock.sleep(LOOK_MS, context.signal)
    if (context.signal.aborted) {
      context.stdout(`\nThe daemon continues it: ${howText(texts)}\n`)
      return exitCodes.done
    }
    const heard = await hear(texts, connect, now)
    if (heard) {
      heardAt = clock.elapsed()
      now = heard
    } else if (clock.elapsed() - heardAt >= PATIENCE_MS) {
      context.stderr(
        `auditferry: the daemon no longer answers; the ${texts.kind} continues when it runs again: ${howText(texts)}\n`,
      )
      return exitCodes.failed
    }
  }
  if (barText) context.stdout(AGAIN)
  for (const job of now) context.stdout(lineText(texts, job))
  for (const job of now) context.stderr(texts.adviceText?.(job) ?? '')
  return now.every((job) => job.error === undefined && isWhole(job)) ? exitCodes.done : exitCodes.failed
}

const howText = ({ kind }: JobTexts) => `auditferry ${kind} --status shows its progress, --cancel stops it`

const isWhole = ({ counts, unread }: Job): boolean => counts.gaps === 0 && unread.length === 0

/** All of them as they are now; undefined: the daemon does not answer. */
async function hear(
  texts: JobTexts,
  connect: Connect,
  before: readonly Job[],
): Promise<readonly Job[] | undefined> {
  try {
    const all = await (await connect())?.jobs.all(texts.kind)
    return all && before.map((job) => (job.endedAt === undefined ? asHeard(texts, all, job) : job))
  } catch (error) {
    if (error instanceof ConnectorError && (error.code === 'unreachable' || error.code === 'timeout'))
      return undefined
    throw error
  }
}

/** The job as it is now. A missing job was cancelled, or may have ended if another one has its place. */
function asHeard({ stays }: JobTexts, all: readonly Job[], job: Job): Job {
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
    // The daemon keeps it until the configuration has again what it lacks; this command stops following it.
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

/** `--status` and `--cancel`. Only the daemon is asked: it knows jobs whose workspace or sink has left this file. */
export async function look(
  context: CommandContext,
  file: string,
  texts: JobTexts,
  which: JobFilter,
  isCancel: boolean,
): Promise<number> {
  const { client, there } = await reachDaemon(file, context)
  if (!client) return withoutDaemon(context, file, texts)
  const { kind, title, stays } = texts
  if (isCancel) {
    const count = await client.jobs.cancel(kind, which)
    if (count === 0 && !areKnown(context, which, await there())) return exitCodes.usage
    if (count === 0) context.stdout(`No ${title} was under way: nothing to end\n`)
    else context.stdout(`${countText(count, `${kind}s`)} ended; ${stays(count === 1 ? 'it' : 'they')}\n`)
    return exitCodes.done
  }
  const all = await client.jobs.all(kind)
  const meant = all.filter((job) => matches(which, job))
  if (meant.length === 0) {
    const known = await there()
    // A name that left the configuration is known as long as a job has it.
    const names = {
      workspaces: [...known.workspaces, ...all.map(({ stream }) => ({ name: stream.workspace }))],
      sinks: [...known.sinks, ...all.flatMap(({ sink }) => (sink === undefined ? [] : { name: sink }))],
    }
    if (!areKnown(context, which, names)) return exitCodes.usage
    context.stdout(
      `No ${all.length > 0 ? 'such ' : ''}${title} is under way, and none came to its end within the last day; one that was cancelled is not kept\n`,
    )
  }
  for (const job of meant) context.stdout(lineText(texts, job))
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

// How far a job is: the same line for backfill, replay, reconcile and `status`.

/** Answers normally arrive more often than this. */
const SILENT_MS = 3_000
/** Back to the beginning of the line, and clears it. */
const AGAIN = '\r\u001b[K'

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

/** Parts that stayed unread. */
const NAMED = 5

const unreadWhy = {
  refused: 'refused by the API with 400 (the span may be too far in the past)',
  unreadable: 'unreadable while other times could be read (try again later)',
} as const

export function unreadText(unread: readonly Unread[]): string {
  const named = unread
    .slice(0, NAMED)
    .map((part) => `\n  not read: ${spanText(part)}: ${unreadWhy[part.why]}`)
  const more = unread.length - NAMED
  return `${named.join('')}${more > 0 ? `\n  and ${more} more` : ''}`
}

/** Why it is not progressing, if anything. */
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

/** The last answer may be outdated, so the silence is printed instead. */
const silenceText = (silentMs: number) =>
  silentMs < SILENT_MS ? '' : `; no answer from the daemon since ${Math.round(silentMs / 1000)} s`

function lineText({ countsText, endText }: JobTexts, job: Job, silence = ''): string {
  const why = job.error && printable(job.error.message)
  if (job.endedAt !== undefined)
    return `${endText(job, why ?? (isWhole(job) ? 'done' : 'ended, not whole'))}\n`
  return `${progressText(nameText(job), progressOf(job), countsText(job), silence || troubleText(job))}\n`
}

/** On a screen, each reason why a running job waits is printed once, above the bar. */
function newTroubles(texts: JobTexts, open: readonly Job[], printed: Set<string>, silence: string): string {
  if (silence !== '') return ''
  const news = open.filter((job) => {
    // The figures of a wait change all the time.
    const trouble = job.error ? troubleText(job) : (job.waitsFor ?? '')
    return trouble !== '' && printed.size < printed.add(`${nameText(job)}${trouble}`).size
  })
  return news.map((job) => `${AGAIN}${lineText(texts, job)}`).join('')
}
