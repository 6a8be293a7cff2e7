// What a daemon runs with, and how the next one takes over.
import type { Outside } from '../../outside.ts'
import type { Config } from '../../config/schema.ts'
import type { ConnectorError } from '../../model/errors.ts'

/** A configuration and the world that it runs in. */
export interface Setup {
  readonly config: Config
  readonly outside: Outside
}

/** What the daemon runs with now, and what it does for whoever brings the next. */
export interface CurrentSetup extends Setup {
  /** Makes sure that the next one can take over, and gets what only that needs. Throws ConnectorError `config_invalid` or `misconfigured`; then nothing has changed. */
  makeWayFor(next: Setup): Promise<void>
  /** Has the status say why the next one cannot be taken; undefined: what was brought is this one, and none is refused any more. */
  tellRefused(error: ConnectorError | undefined): void
}

/** Resolves with the setup that takes over from the current one; a configuration that is refused is told and waited on. */
export type NextSetup = (current: CurrentSetup, signal: AbortSignal) => Promise<Setup>
