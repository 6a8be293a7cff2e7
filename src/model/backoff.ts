// How long to wait before the next try: exponential with full jitter in its upper half, capped. Pure.
import type { Random } from './clock.ts'

interface BackoffSpan {
  readonly baseMs: number
  readonly capMs: number
}

/** `attempt` counts from 1. Between half and all of min(cap, base × 2^(attempt−1)), so that many daemons never march in step. */
export function backoffMs(attempt: number, span: BackoffSpan, random: Random): number {
  const full = Math.min(span.capMs, span.baseMs * 2 ** Math.min(attempt - 1, 40))
  return Math.round(full * (0.5 + random() / 2))
}
