// Whether the journal's files still stand where they were opened. Looks at names only: opening and closing the file would drop SQLite's lock.
import { statSync } from 'node:fs'
import { errnoOf } from '../model/errors.ts'

interface Identity {
  readonly dev: bigint
  readonly ino: bigint
}

/** `unknown`: the file system does not say just now, which proves nothing. */
function identityOf(path: string): Identity | 'gone' | 'unknown' {
  try {
    return statSync(path, { bigint: true })
  } catch (error) {
    return ['ENOENT', 'ENOTDIR'].includes(errnoOf(error, '')) ? 'gone' : 'unknown'
  }
}

export class Presence {
  readonly #path: string
  readonly #opened: readonly (readonly [path: string, is: Identity])[]

  /** To be made once the journal is open and has written. `name`: where the next start looks for it, which may be a link to `path`. */
  constructor(path: string, name: string) {
    this.#path = path
    this.#opened = [name, path, `${path}-wal`].flatMap((each) => {
      const is = identityOf(each)
      return typeof is === 'string' ? [] : [[each, is] as const]
    })
  }

  /** In words; undefined: all are there. */
  get lost(): string | undefined {
    for (const [path, was] of this.#opened) {
      const is = identityOf(path)
      if (is === 'unknown') continue
      if (is === 'gone') return this.#inWords(`${path} is gone`)
      if (is.dev !== was.dev || is.ino !== was.ino)
        return this.#inWords(`${path} is another file than the one that was opened`)
    }
    return undefined
  }

  #inWords(what: string): string {
    return `The journal is lost to the next start: ${what}. While this process lives it goes on delivering; let it deliver what it owes, then stop it, and put ${this.#path} and ${this.#path}-wal back from a copy or start with a new journal (reading begins again at the configured start, and entries may be sent again)`
  }
}
