// From one opening of the journal to the next: a file that was left in good order just now need not be read whole again.
import { realpathSync, statSync } from 'node:fs'

export class Handover {
  #closed: string | undefined

  /** No fault was met in the file while it was open, it was closed just now, and no other process has had it since. */
  closed(path: string): void {
    this.#closed = stateOf(path)
  }

  /** True for the file of that path, untouched since, and once: after a failed try, or at any doubt, it is checked. */
  takes(path: string): boolean {
    const closed = this.#closed
    this.#closed = undefined
    return closed !== undefined && closed === stateOf(path)
  }
}

/** The state of the file itself, whatever link names it. Undefined where it cannot be told, or where a log beside it holds a part of the state. */
function stateOf(path: string): string | undefined {
  try {
    const place = realpathSync(path)
    if (statSync(`${place}-wal`, { throwIfNoEntry: false })) return undefined
    const { dev, ino, size, mtimeNs, ctimeNs } = statSync(place, { bigint: true })
    return [place, dev, ino, size, mtimeNs, ctimeNs].join('\n')
  } catch {
    return undefined
  }
}
