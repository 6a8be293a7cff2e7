// What a sink may have of the entries: its content policy as settings, and what follows from it for whoever delivers.
import { createHash } from 'node:crypto'
import type { Run } from '../contracts/journal.ts'
import { readHashKey } from '../core/secret.ts'
import type { StepResult, Stepper } from './loop.ts'
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

type Wanted = (run: Run, index: number) => boolean

export interface Policy {
  /** What is `wanted` and not denied; what is addressed to this sink alone may be denied too. */
  readonly allowed: (wanted: Wanted) => Wanted
  readonly redact: Redact | undefined
  /** settings that shape what goes out; none without a policy. Of a key its hash, no key. */
  readonly shapes: readonly string[]
}

/**
 * What `open` makes of the policy. Where that needs a key which cannot be had now, it is opened at the first step at which it
 * can: until then each step throws what is wrong.
 */
export function openAfterKeys(
  settings: PolicySettings,
  read: (path: string) => string,
  open: (policy: Policy) => Stepper,
): Stepper {
  const opened = () => open(policyOf(settings, read))
  return settings.redact?.some((rule) => rule.with === 'hash') ? new AfterKeys(opened) : opened()
}

function policyOf({ redact = [], deny = {} }: PolicySettings, read: (path: string) => string): Policy {
  const rules = redact.map((setting) => ruleOf(setting, read))
  const denied = Object.keys(deny).length > 0 ? deniedBy(deny) : undefined
  return {
    allowed: (wanted) => (denied ? (run, index) => wanted(run, index) && !denied(run, index) : wanted),
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

// A delivery that cannot begin before something is there, such as the key of a hash: what is missing holds the sink, and nothing goes out without it.

/** @internal for tests */
export class AfterKeys implements Stepper {
  readonly #open: () => Stepper
  #opened: Stepper | undefined

  /** `open` throws ConnectorError as long as it cannot be; it is asked again at each step until then. */
  constructor(open: () => Stepper) {
    this.#open = open
  }

  async step(signal: AbortSignal): Promise<StepResult> {
    this.#opened ??= this.#open()
    return this.#opened.step(signal)
  }

  async hearOut(signal: AbortSignal): Promise<void> {
    await this.#opened?.hearOut?.(signal)
  }

  /** Nobody knows before it is open. */
  get unfinished(): boolean {
    return this.#opened ? this.#opened.unfinished === true : true
  }
}
