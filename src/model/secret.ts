// A secret that cannot be printed by accident, and that can be read again from where it came from.
import { inspect } from 'node:util'

/** What a request's header can carry: a torn or strange file must not replace a value that works. */
const sendable = /^[\x20-\x7e]+$/

export class Secret {
  #value: string
  #reread: (() => string) | undefined
  #from = ''

  constructor(value: string, reread?: () => string) {
    this.#value = value
    this.#reread = reread
  }

  /** The value itself: only where it leaves for the other side. */
  reveal(): string {
    return this.#value
  }

  /** Where the value comes from, so that `refresh` can ask again; `from` is its name, told to nobody. */
  follow(reread: () => string, from = ''): void {
    this.#reread = reread
    this.#from = from
  }

  /** The same value from the same place: one may stand for the other, also when it changes. */
  isSame(other: Secret): boolean {
    return this.#value === other.#value && this.#from === other.#from
  }

  /**
   * Reads the value again from its file or variable. True when it changed. A source that cannot be read just now
   * (a mount in mid-swap), is empty or holds what no header can carry keeps the old value.
   */
  refresh(): boolean {
    if (!this.#reread) return false
    let fresh: string
    try {
      fresh = this.#reread()
    } catch {
      return false
    }
    if (fresh === this.#value || !sendable.test(fresh)) return false
    this.#value = fresh
    return true
  }

  toString(): string {
    return '***'
  }

  toJSON(): string {
    return '***'
  }

  [inspect.custom](): string {
    return '***'
  }
}

interface PlacedSecret {
  readonly path: readonly (string | number)[]
  readonly secret: Secret
}

/** Every secret of a configuration, however deep it stands, and where. */
export function placedSecretsIn(value: unknown, path: PlacedSecret['path'] = []): readonly PlacedSecret[] {
  if (value instanceof Secret) return [{ path, secret: value }]
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, inner]) =>
    placedSecretsIn(inner, [...path, Array.isArray(value) ? Number(key) : key]),
  )
}

export const secretsIn = (value: unknown): readonly Secret[] =>
  placedSecretsIn(value).map(({ secret }) => secret)
