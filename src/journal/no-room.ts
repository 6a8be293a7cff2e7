// What is told where the journal cannot grow: first why, then what to do, and where it lies; sizes for people.
import { ConnectorError } from '../model/errors.ts'

/** What helps, in the imperative. `needsStart`: only with a start behind it, as a limit of this process does. */
interface Remedy {
  readonly what: string
  readonly needsStart?: boolean
}

export interface Lack {
  /** what keeps the journal from growing, a clause without its stop */
  readonly why: string
  /** absent: to make room */
  readonly remedy?: Remedy
}

export const RAISE_LIMIT: Remedy = {
  what: 'raise the limit on how large a file may become (ulimit -f, LimitFSIZE)',
  needsStart: true,
}

class JournalFull extends ConnectorError {
  readonly path: string
  readonly lack: Lack

  constructor(path: string, lack: Lack, next: string, meanwhile: string, cause: unknown) {
    const { what } = lack.remedy ?? { what: 'make room' }
    super('disk_full', `${lack.why}: ${what}, and ${next}. ${meanwhile}. The journal is ${path}`, { cause })
    this.path = path
    this.lack = lack
  }
}

export function diskFull(path: string, lack: Lack, cause?: unknown): ConnectorError {
  const next = lack.remedy?.needsStart ? 'start again' : 'reading goes on by itself'
  return new JournalFull(path, lack, next, 'Delivery goes on', cause)
}

/** A full journal as told at a start, which ends with it: nothing is paused then, and nothing goes on by itself. `shortage`: how much room is missing; '' where that is not known. */
export function atStart(error: unknown, shortage: () => string): unknown {
  if (!(error instanceof JournalFull)) return error
  const { path, lack } = error
  const short = shortage()
  const why = short === '' ? lack.why : `${lack.why} (${short})`
  const meanwhile = 'Nothing was begun or lost'
  return new JournalFull(path, { ...lack, why }, 'start again', meanwhile, error)
}

/** `1572864` as `1.5 MiB`, never more than there are. */
export function inMib(bytes: number): string {
  const mib = bytes / 2 ** 20
  return `${mib < 10 ? Math.floor(mib * 10) / 10 : Math.floor(mib)} MiB`
}
