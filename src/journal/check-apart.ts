// A large journal is checked by another process before this one opens it: the check is one long call, and whoever is in it hears no signal.
import { fork, type ForkOptions } from 'node:child_process'
import { statSync } from 'node:fs'
import type { Journal } from '../model/journal.ts'
import type { Log } from '../model/log.ts'
import { Handover } from './handover.ts'
import { type JournalOptions, openJournal } from './open.ts'

/** Read within 3 s where a disk reads 25 MB/s. Of a smaller file another process would only be the longer way. */
const APART_BYTES = 64 * 2 ** 20

interface CheckOptions {
  readonly path: string
  /** of `journal-check.ts`; undefined: nothing is checked here */
  readonly program: string | undefined
  readonly log: Pick<Log, 'info'>
}

/**
 * Gives what opens the journal from now on, and reads it whole only where it was neither found sound here nor closed in good order by
 * the last opening. Small files, and all that may be wrong, are left to the opening: it makes its own check then, and has the words.
 * Ends as soon as `signal` aborts.
 */
export async function checkApart(
  options: CheckOptions,
  signal: AbortSignal,
): Promise<(options: JournalOptions) => Promise<Journal>> {
  const handover = new Handover()
  await check(options, handover, signal)
  return (opening) => openJournal({ ...opening, handover })
}

async function check(
  { path, program, log }: CheckOptions,
  handover: Handover,
  signal: AbortSignal,
): Promise<void> {
  const bytes = bytesOf(path)
  if (program === undefined || bytes < APART_BYTES) return
  log.info('The journal is checked, before anything else', { path, bytes })
  if (await isSound(path, program, signal)) handover.closed(path)
  if (signal.aborted) log.info('Stopped while the journal was checked: nothing had begun', { path })
}

function bytesOf(path: string): number {
  try {
    return statSync(path).size
  } catch {
    return 0
  }
}

function isSound(path: string, program: string, signal: AbortSignal): Promise<boolean> {
  const options: ForkOptions = {
    // In a session of its own: a Ctrl-C reaches us alone, and we end it.
    detached: true,
    signal,
    killSignal: 'SIGKILL',
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  }
  return new Promise((resolve) => {
    fork(program, [path], options)
      .once('error', () => resolve(false))
      .once('exit', (code) => resolve(code === 0))
  })
}
