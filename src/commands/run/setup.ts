// What a daemon runs with, and how the next one takes over.
import type { Outside } from '../../outside.ts'
import type { Config } from '../../config/schema.ts'
import type { ConnectorError } from '../../model/errors.ts'

/** A configuration and the world that it runs in. */
export interface Setup {
  readonly config: Config
  readonly outside: Outside
}

export interface CurrentSetup extends Setup {
  /** Gets what only the next configuration needs. Throws ConnectorError `config_invalid` or `misconfigured`; then nothing has changed. */
  prepare(next: Setup): Promise<void>
  /** a next one was asked for, and cannot be taken; undefined: it was this one, and none is refused any more */
  refused(error: ConnectorError | undefined): void
}

/** Resolves with the setup that takes over from the current one; a configuration that is refused is told and waited on. */
export type NextSetup = (current: CurrentSetup, signal: AbortSignal) => Promise<Setup>
