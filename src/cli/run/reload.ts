// Reload: a SIGHUP or a changed file brings a new configuration, which is taken whole or rejected.
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
import type { CurrentSetup, NextSetup } from './daemon.ts'
import { addressOf } from '../../journal/postgres/address.ts'
import type { PostgresConfig } from '../shared/postgres.ts'
import type { Setup } from './engine.ts'

/** How often the file is checked. */
const POLL_MS = 2_000
/** A rejected configuration may become valid without a change of its text: it is retried. */
const RETRY_MS = 10_000

interface ReloadOptions {
  readonly file: string
  readonly clock: Clock
  /** Calls `listener` at every SIGHUP from now on. */
  readonly onHangup: (listener: () => void) => void
  readonly references: References
  /** the first one */
  readonly loaded: LoadedConfig
  readonly load: () => LoadedConfig
  readonly environmentOf: (config: Config) => Setup['environment']
}

/** Create once, at the start: from then on SIGHUP reloads instead of ending the process. */
export function reloading(options: ReloadOptions): NextSetup {
  const trigger = new ReloadTrigger(options)
  const triggered = { ...options, load: () => trigger.load() }
  // Computed before the app opens, so that a key that changes meanwhile is never missed.
  let keys = hashKeysDigest(options.loaded.config, readTextFile)
  return async (current, signal) => {
    let fault: string | undefined
    for (;;) {
      const isRequested = await trigger.next(
        signal,
        fault === undefined ? Infinity : RETRY_MS,
        current.environment.log,
      )
      // A requested reload is always reported; a retry only if its error is new.
      const next = await reloaded(triggered, current, keys, isRequested ? undefined : fault)
      if (typeof next === 'object') {
        keys = hashKeysDigest(next.config, readTextFile)
        return next
      }
      fault = next
    }
  }
}

/**
 * The next setup; undefined if nothing changed. The error message if it was rejected, which is
 * logged unless it equals `known`.
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
    assertSameJournal(current.config, config)
    if (isSameConfig(current.config, config) && hashKeysDigest(config, readTextFile) === keys) {
      log.info('The configuration was read again and is the one that runs: nothing changes', {
        file: options.file,
      })
      current.reportRejected(undefined)
      return undefined
    }
    const next = { config, environment: options.environmentOf(config) }
    await current.prepareFor(next)
    log.info('The configuration was read again and takes over now', { file: options.file })
    return next
  } catch (error) {
    if (!(error instanceof ConnectorError) || !isRejection(error)) throw error
    if (error.message === known) return known
    log.error(
      'The changed configuration is invalid, the previous one stays in use: fix it, or the files that it names; it is read again automatically',
      {
        file: options.file,
        error: error.message,
      },
    )
    current.reportRejected(error)
    return error.message
  }
}

/** An error in the text, or in what it needs now, such as a port in use. */
const isRejection = ({ code }: ConnectorError) => code === 'config_invalid' || code === 'misconfigured'

/** Another journal would leave positions, keys and pending entries behind. */
function assertSameJournal({ journal: current }: Config, { journal: next }: Config): void {
  if (!current.postgres !== !next.postgres)
    throw new ConnectorError(
      'config_invalid',
      `journal${next.postgres ? '' : '.path'}: the journal cannot move into another engine while the daemon runs: stop it, move the journal with "auditferry journal copy", start it again`,
    )
  if (current.postgres && next.postgres) assertSameDatabase(current.postgres, next.postgres)
  else if (next.path !== current.path)
    throw new ConnectorError(
      'config_invalid',
      `journal.path: cannot change while the daemon runs (it is ${current.path}): stop it, move the file, start it again`,
    )
}

/** User and password rotate with the secret's file or variable, which is read for each connection. */
function assertSameDatabase(current: PostgresConfig, next: PostgresConfig): void {
  const addressIn = ({ url }: PostgresConfig) => addressOf(url.reveal())
  const isSameUrl = current.url.followsSame(next.url) && isSameConfig(addressIn(current), addressIn(next))
  if (isSameUrl && isSameConfig({ ...current, url: '' }, { ...next, url: '' })) return
  throw new ConnectorError(
    'config_invalid',
    'journal.postgres: cannot change while the daemon runs, except for user and password in the file or variable that its url comes from: stop all replicas, change it, start them again',
  )
}

/**
 * Triggers a reload: a SIGHUP at once; a changed file as soon as it is stable. Watches the
 * configuration file and the files that plain values of it name.
 */
class ReloadTrigger {
  readonly #options: ReloadOptions
  /** of the last accepted configuration */
  #plain: readonly Reference[]
  /** digest of the file and of the resolved plain values, as last read */
  #taken: string
  #isRequested = false
  #wake = new AbortController()

  constructor(options: ReloadOptions) {
    this.#options = options
    this.#plain = plainReferences(options.loaded)
    // A pipe can be read only once; its end is no change.
    const text = this.#textNow() === '' ? '' : options.loaded.text
    this.#taken = digestOf(text, resolvedOf(this.#plain))
    options.onHangup(() => {
      this.#isRequested = true
      this.#wake.abort()
    })
  }

  /** Resolves true for a SIGHUP or change, false after `againMs`. Rejects at the signal. */
  async next(signal: AbortSignal, againMs: number, log: Log): Promise<boolean> {
    const { clock, file } = this.#options
    const againAt = clock.elapsed() + againMs
    let last = this.#taken
    let cannotOpen = false
    for (;;) {
      if (!this.#isRequested || cannotOpen) {
        this.#wake = new AbortController()
        await clock.sleep(POLL_MS, AbortSignal.any([signal, this.#wake.signal]))
      }
      signal.throwIfAborted()
      const seen = this.#digest()
      if (!seen && !cannotOpen)
        log.error(
          'The configuration file cannot be checked for changes, the current one stays in use; it is checked again',
          {
            file,
            error: OUT_OF_FILES,
          },
        )
      cannotOpen = !seen
      if (!seen) continue
      // A half-written file may be valid, so it must look the same twice.
      const isStable = seen !== this.#taken && seen === last
      last = seen
      const isDue = this.#isRequested || isStable
      if (!isDue && clock.elapsed() < againAt) continue
      this.#isRequested = false
      this.#taken = seen
      return isDue
    }
  }

  /** Undefined while no file can be opened, which is no change. */
  #digest(): string | undefined {
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

  /** Loads the file. Throws ConfigFaults. */
  load(): Config {
    const loaded = this.#options.load()
    this.#plain = plainReferences(loaded)
    this.#taken = digestOf(loaded.text, resolvedOf(this.#plain))
    return loaded.config
  }
}

const UNREADABLE = 'unreadable'

/** Undefined if no file can be opened. */
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

// Compares a reloaded configuration with the running one.

/** Values of unknown kinds count as different. */
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

/** Digest of the hash keys. A sink reads its key once, so a new key is a new configuration. */
function hashKeysDigest({ sinks }: Config, read: (path: string) => string): string {
  const digest = createHash('sha256')
  for (const { path } of sinks.flatMap(({ redact }) => policyFiles(redact))) {
    let text = ''
    try {
      text = read(path)
    } catch {
      // The sink waits for the file itself.
    }
    digest.update(`${path}\n${text.length}\n${text}\n`)
  }
  return digest.digest('hex')
}
