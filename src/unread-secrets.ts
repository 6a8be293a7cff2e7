// Secrets, and files that sinks name, which cannot be read again are told: all goes on with those in memory, until a restart has none.
import { readTextFile } from './config/files.ts'
import { reasonOf } from './config/references.ts'
import type { Config } from './config/schema.ts'
import { sinkFiles } from './config/sink.ts'
import type { Log } from './model/log.ts'
import { placedSecretsIn, type Secret } from './model/secret.ts'
import type { NamedFile } from './model/sink-kind.ts'
import type { Board } from './ops/board.ts'
import type { WarningStatus } from './ops/status.ts'

interface Kept {
  readonly code: WarningStatus['code']
  /** whose, and which: `acme api_key` */
  readonly about: string
  /** what a restart would come to */
  readonly then: string
  /** why it cannot be read again; undefined: it can */
  readonly look: () => string | undefined
  told?: string | undefined
}

function secretOf(config: Config, path: readonly (string | number)[], secret: Secret): Kept {
  const [part, index, ...rest] = path
  const owner = (part === 'workspaces' || part === 'sinks') && config[part][Number(index)]?.name
  const look = () => {
    secret.fresh()
    return secret.unread
  }
  const about = owner ? [owner, rest.join('.')].join(' ') : path.join('.')
  return { code: 'secret_unread', about, then: 'a restart would fail', look }
}

function fileFault({ path, fault }: NamedFile): string | undefined {
  try {
    const text = readTextFile(path)
    return fault?.(text, readTextFile)
  } catch (error) {
    return reasonOf(error)
  }
}

/** Told only once it was good: before that its sink says itself what it lacks. */
function fileOf(sink: string, file: NamedFile): Kept {
  let wasGood = false
  const look = () => {
    const wrong = fileFault(file)
    wasGood ||= wrong === undefined
    return wrong !== undefined && wasGood ? `${file.path}: ${wrong}` : undefined
  }
  return {
    code: 'file_unread',
    about: `${sink} ${file.field}`,
    then: 'its sink would lack it after a restart',
    look,
  }
}

export class UnreadSecrets {
  readonly #log: Pick<Log, 'info' | 'warn'>
  readonly #board: Pick<Board, 'warn'>
  readonly #kept: readonly Kept[]

  constructor(config: Config, log: Pick<Log, 'info' | 'warn'>, board: Pick<Board, 'warn'>) {
    this.#log = log
    this.#board = board
    this.#kept = [
      ...placedSecretsIn(config).map(({ path, secret }) => secretOf(config, path, secret)),
      ...config.sinks.flatMap((sink) => sinkFiles(sink, 'files').map((file) => fileOf(sink.name, file))),
    ]
  }

  /** Asks for each where it comes from, also for one that nobody needs now. Says it once for each reason, and when it is over. */
  look(): void {
    for (const one of this.#kept) {
      const { code, about, then } = one
      const unread = one.look()
      if (unread === one.told) continue
      one.told = unread
      const message = unread && `${about} cannot be read again, and ${then}: ${unread}`
      this.#board.warn({ code, about }, message)
      if (unread === undefined) this.#log.info('A secret or a file can be read again', { about })
      else
        this.#log.warn(
          'A secret or a file cannot be read again: the one in memory goes on, and a restart would lack it. Put it back where it was',
          { about, error: unread },
        )
    }
  }
}
