// Which entries a sink may receive: its content policy as settings, and the functions that delivery
// uses.
import { createHash } from 'node:crypto'
import type { ChunkSlice } from '../contracts/journal.ts'
import { readHashKey } from '../core/secret.ts'
import type { StepResult, Dispatcher } from './loop.ts'
import { deniedBy, redactBy } from './redact.ts'
import type { Change, Denied, Redact, Rule } from './redact.ts'

type RedactSetting = { readonly fields: readonly string[] } & (
  | { readonly with: 'drop' }
  | { readonly with: 'hash'; readonly keyFile: string }
  | { readonly with: 'truncate'; readonly bytes: number }
)

export interface PolicySettings {
  readonly redact?: readonly RedactSetting[] | undefined
  readonly deny?: Denied | undefined
}

type Wanted = (slice: ChunkSlice, index: number) => boolean

export interface Policy {
  /** `wanted` without denied entries; entries for this sink alone can be denied too. */
  readonly allowed: (wanted: Wanted) => Wanted
  readonly redact: Redact | undefined
  /** settings that shape the bytes sent; none without a policy. For a key only its hash. */
  readonly shapes: readonly string[]
}

/**
 * The policy as `open` returns it. If it needs a key that is not available yet, each step tries
 * again and throws the error until it is.
 */
export function openAfterKeys(
  settings: PolicySettings,
  read: (path: string) => string,
  open: (policy: Policy) => Dispatcher,
): Dispatcher {
  const opened = () => open(policyOf(settings, read))
  return settings.redact?.some((rule) => rule.with === 'hash') ? new AfterKeys(opened) : opened()
}

function policyOf({ redact = [], deny = {} }: PolicySettings, read: (path: string) => string): Policy {
  const rules = redact.map((setting) => ruleOf(setting, read))
  const denied = Object.keys(deny).length > 0 ? deniedBy(deny) : undefined
  return {
    allowed: (wanted) => (denied ? (slice, index) => wanted(slice, index) && !denied(slice, index) : wanted),
    redact: rules.length > 0 ? redactBy(rules) : undefined,
    shapes: rules.length > 0 || denied ? [JSON.stringify({ redact: rules.map(shapeOf), deny })] : [],
  }
}

function ruleOf(setting: RedactSetting, read: (path: string) => string): Rule {
  const { fields } = setting
  if (setting.with !== 'hash') return { fields, change: setting }
  return { fields, change: { with: 'hash', key: readHashKey(setting.keyFile, read) } }
}

function shapeOf({ fields, change }: Rule): readonly unknown[] {
  return [fields, change.with, detailOf(change)]
}

function detailOf(change: Change): string | number | undefined {
  if (change.with === 'hash') return createHash('sha256').update(change.key).digest('hex')
  return change.with === 'truncate' ? change.bytes : undefined
}

// Delivery that needs something before it can begin, such as the key of a hash. Until it is there
// the sink is blocked and sends nothing.

/** @internal for tests */
export class AfterKeys implements Dispatcher {
  readonly #open: () => Dispatcher
  #opened: Dispatcher | undefined

  /** `open` throws ConnectorError until it succeeds; each step calls it again. */
  constructor(open: () => Dispatcher) {
    this.#open = open
  }

  async step(signal: AbortSignal): Promise<StepResult> {
    this.#opened ??= this.#open()
    return this.#opened.step(signal)
  }

  async awaitConfirmations(signal: AbortSignal): Promise<void> {
    await this.#opened?.awaitConfirmations?.(signal)
  }

  /** Unknown until it is open. */
  get unfinished(): boolean {
    return this.#opened ? this.#opened.unfinished === true : true
  }
}
