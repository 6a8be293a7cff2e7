// A new configuration for the running daemon: asked for by SIGHUP or by a changed file, taken whole or refused with its faults.
import { createHash } from 'node:crypto'
import { readTextFile } from '../../config/files.ts'
import { plainReferences } from '../../config/load.ts'
import type { LoadedConfig, Reference } from '../../config/load.ts'
import { policyFiles } from '../../config/policy.ts'
import { BrokenReference, folderOf, resolveText } from '../../config/references.ts'
import type { References } from '../../config/references.ts'
import type { Config } from '../../config/schema.ts'
import type { Clock } from '../../core/clock.ts'
import { ConnectorError, OUT_OF_FILES, isOutOfFiles } from '../../core/errors.ts'
import type { Log } from '../../core/log.ts'
import { Secret } from '../../core/secret.ts'
import type { CurrentSetup, NextSetup, Setup } from './daemon.ts'

/** How often the file is looked at. */
const LOOK_MS = 2_000
/** What a refused configuration refers to may come right without a word of it changing: it is tried again. */
const AGAIN_MS = 10_000

interface ReloadOptions {
  /** the configuration's file */
  readonly file: string
  readonly clock: Clock
  /** Calls `listener` at every SIGHUP from now on. */
  readonly onHangup: (listener: () => void) => void
  readonly references: References
  /** the first one */
  readonly loaded: LoadedConfig
  /** Throws ConfigFaults. */
  readonly load: () => LoadedConfig
  readonly environmentOf: (config: Config) => Setup['environment']
}

/** To be made once, at the start: from then on a SIGHUP is a question and not the end. */
export function reloading(options: ReloadOptions): NextSetup {
  const asking = new Asking(options)
  const asked = { ...options, load: () => asking.load() }
  // Taken before it opens: a key that changes in between is asked about once too often, and never missed.
  let keys = hashKeysDigest(options.loaded.config, readTextFile)
  return async (current, signal) => {
    let fault: string | undefined
    for (;;) {
      const isAsked = await asking.next(
        signal,
        fault === undefined ? Infinity : AGAIN_MS,
        current.environment.log,
      )
      // Who asked is answered; what is only tried again has been told already.
      const next = await reloaded(asked, current, keys, isAsked ? undefined : fault)
      if (typeof next === 'object') {
        keys = hashKeysDigest(next.config, readTextFile)
        return next
      }
      fault = next
    }
  }
}

/**
 * The configuration as it is now; undefined where that is the current one. Where it cannot be taken what is wrong with it, which is
 * told unless that is `known`.
 */
async function reloaded(
  options: Pick<ReloadOptions, 'file' | 'environmentOf'> & { readonly load: () => Config },
  current: CurrentSetup,
  keys: string,
  known: string | undefined,
): Promise<Setup | string | undefined> {
  const { log } = current.environment
  try {
    const config = options.load()
    refuseMove(current.config, config)
    if (isSameConfig(current.config, config) && hashKeysDigest(config, readTextFile) === keys) {
      log.info('The configuration was read again and is the one that runs: nothing changes', {
        file: options.file,
      })
      current.tellRefused(undefined)
      return undefined
    }
    const next = { config, environment: options.environmentOf(config) }
    await current.makeWayFor(next)
    log.info('The configuration was read again and takes over now', { file: options.file })
    return next
  } catch (error) {
    if (!(error instanceof ConnectorError) || !isRefusal(error)) throw error
    if (error.message === known) return known
    log.error(
      'The changed configuration is invalid, the previous one stays in use: fix it, or the files that it names; it is read again automatically',
      {
        file: options.file,
        error: error.message,
      },
    )
    current.tellRefused(error)
    return error.message
  }
}

/** Of its text, or of what it wants and cannot have now, such as a port that is taken. */
const isRefusal = ({ code }: ConnectorError) => code === 'config_invalid' || code === 'misconfigured'

/** Another journal is another memory: positions, keys and what is owed would stay behind. */
function refuseMove(current: Config, next: Config): void {
  if (next.journal.path === current.journal.path) return
  throw new ConnectorError(
    'config_invalid',
    `journal.path: cannot change while the daemon runs (it is ${current.journal.path}): stop it, move the file, start it again`,
  )
}

/**
 * What asks for a new configuration: a SIGHUP at once, a changed file as soon as it has settled, be it the configuration's own or
 * one that a plain value of it names.
 */
class Asking {
  readonly #options: ReloadOptions
  /** of the configuration that was last taken */
  #plain: readonly Reference[]
  /** of the file as it was last read, and of what the plain values were read as */
  #taken: string
  #hungUp = false
  #wake = new AbortController()

  constructor(options: ReloadOptions) {
    this.#options = options
    this.#plain = plainReferences(options.loaded)
    // What came through a pipe was there once, and is no change.
    const text = this.#textNow() === '' ? '' : options.loaded.text
    this.#taken = digestOf(text, resolvedOf(this.#plain))
    options.onHangup(() => {
      this.#hungUp = true
      this.#wake.abort()
    })
  }

  /** Resolves when the file is to be read: true where it was asked for, false after `againMs`. Rejects when the signal aborts. */
  async next(signal: AbortSignal, againMs: number, log: Log): Promise<boolean> {
    const { clock, file } = this.#options
    const againAt = clock.elapsed() + againMs
    let last = this.#taken
    let blind = false
    for (;;) {
      if (!this.#hungUp || blind) {
        this.#wake = new AbortController()
        await clock.sleep(LOOK_MS, AbortSignal.any([signal, this.#wake.signal]))
      }
      signal.throwIfAborted()
      const seen = this.#look()
      if (!seen && !blind)
        log.error(
          'The configuration file cannot be checked for changes, the current one stays in use; it is checked again',
          {
            file,
            error: OUT_OF_FILES,
          },
        )
      blind = !seen
      if (!seen) continue
      // A file in the middle of being written may be a valid one with its end missing: it must look the same twice.
      const settled = seen !== this.#taken && seen === last
      last = seen
      const isAsked = this.#hungUp || settled
      if (!isAsked && clock.elapsed() < againAt) continue
      this.#hungUp = false
      this.#taken = seen
      return isAsked
    }
  }

  /** Undefined while no file can be opened: that is no change. */
  #look(): string | undefined {
    const { file, references } = this.#options
    const context = { ...references, folder: folderOf(file) }
    const text = this.#textNow()
    const plain = this.#plain.map((each) => orUnreadable(() => resolveText(each.text, context)))
    if (text === undefined || plain.includes(undefined)) return undefined
    return digestOf(text, plain)
  }

  #textNow(): string | undefined {
    const { file, references } = this.#options
    return orUnreadable(() => (references.readConfig ?? references.readFile)(file))
  }

  /** Reads it. Throws ConfigFaults. */
  load(): Config {
    const loaded = this.#options.load()
    this.#plain = plainReferences(loaded)
    this.#taken = digestOf(loaded.text, resolvedOf(this.#plain))
    return loaded.config
  }
}

const UNREADABLE = 'unreadable'

/** Undefined where nothing can be opened. */
function orUnreadable(read: () => string): string | undefined {
  try {
    return read()
  } catch (error) {
    return isOutOfFiles(error instanceof BrokenReference ? error.cause : error) ? undefined : UNREADABLE
  }
}

const resolvedOf = (plain: readonly Reference[]) => plain.map(({ resolved }) => resolved)

const digestOf = (...parts: readonly unknown[]): string =>
  createHash('sha256').update(JSON.stringify(parts)).digest('hex')

// Whether a configuration that was read again is the one that runs: then there is nothing to take over.

/** What is not understood here is another one. */
function isSameConfig(one: unknown, other: unknown): boolean {
  if (one instanceof Secret) return other instanceof Secret && one.isSame(other)
  if (Array.isArray(one))
    return (
      Array.isArray(other) &&
      one.length === other.length &&
      one.every((item, index) => isSameConfig(item, other[index]))
    )
  if (!isPlain(one) || !isPlain(other)) return Object.is(one, other)
  const keys = Object.keys(one)
  return (
    keys.length === Object.keys(other).length &&
    keys.every((key) => Object.hasOwn(other, key) && isSameConfig(one[key], other[key]))
  )
}

function isPlain(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype
}

/** A digest of the keys that values are hashed with. A sink reads its key once, so a new key in the same file is a change of the configuration. */
function hashKeysDigest({ sinks }: Config, read: (path: string) => string): string {
  const digest = createHash('sha256')
  for (const { path } of sinks.flatMap(({ redact }) => policyFiles(redact))) {
    let text = ''
    try {
      text = read(path)
    } catch {
      // The sink waits for it, and finds it by itself.
    }
    digest.update(`${path}\n${text.length}\n${text}\n`)
  }
  return digest.digest('hex')
}
