// Secrets that cannot be read again are told: all goes on with those in memory, until a restart has none.
import type { Config } from './config/schema.ts'
import type { Log } from './model/log.ts'
import { placedSecretsIn, type Secret } from './model/secret.ts'
import type { Board } from './ops/board.ts'

interface Kept {
  /** whose, and which: `acme api_key` */
  readonly about: string
  readonly secret: Secret
  told: string | undefined
}

export class UnreadSecrets {
  readonly #log: Pick<Log, 'info' | 'warn'>
  readonly #board: Pick<Board, 'warn'>
  readonly #kept: readonly Kept[]

  constructor(config: Config, log: Pick<Log, 'info' | 'warn'>, board: Pick<Board, 'warn'>) {
    this.#log = log
    this.#board = board
    this.#kept = placedSecretsIn(config).map(({ path, secret }) => {
      const [part, index, ...rest] = path
      const owner = (part === 'workspaces' || part === 'sinks') && config[part][Number(index)]?.name
      return { about: owner ? [owner, rest.join('.')].join(' ') : path.join('.'), secret, told: undefined }
    })
  }

  /** Asks for each where it comes from, also for one that nobody needs now. Says it once for each reason, and when it is over. */
  look(): void {
    for (const one of this.#kept) {
      one.secret.fresh()
      const { about, told } = one
      const { unread } = one.secret
      if (unread === told) continue
      one.told = unread
      const message = unread && `${about} cannot be read again, and a restart would fail: ${unread}`
      this.#board.warn({ code: 'secret_unread', about }, message)
      if (unread === undefined) this.#log.info('A secret can be read again', { secret: about })
      else
        this.#log.warn(
          'A secret cannot be read again: the one in memory goes on, and a restart would fail. Put it back where it was',
          { secret: about, error: unread },
        )
    }
  }
}
