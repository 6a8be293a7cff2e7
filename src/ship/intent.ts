// What a sink is about to be sent, written down before it goes out: after a crash that batch is the one in doubt.
import type { Intent, Journal } from '../model/journal.ts'
import type { Sink } from '../model/sink.ts'
import type { Loaded } from './lines.ts'

interface Intending {
  readonly sink: Sink
  /** what the lines' bytes depend on besides the entries */
  readonly shape: string
}

/** Throws what the sink throws. */
export async function intentOf(
  { sink, shape }: Intending,
  { first, last, lines }: Loaded,
  signal: AbortSignal,
): Promise<Intent> {
  const detail = (await sink.prepare?.(lines, signal)) ?? ''
  return { first, last, shape, detail }
}

/** Throws what the sink or the journal throws; nothing is written then. */
export async function writeIntent(
  options: Intending & { readonly journal: Pick<Journal, 'intend'> },
  loaded: Loaded,
  signal: AbortSignal,
): Promise<Intent> {
  const intent = await intentOf(options, loaded, signal)
  await options.journal.intend(options.sink.name, intent)
  return intent
}
