// A place in the budget of the key that a request goes out with: whoever waits for one looks whether the key is another one by now.
import { Tether } from '../../model/abort.ts'
import type { Clock } from '../../model/clock.ts'
import type { Lane } from '../../model/source.ts'
import { SECOND_MS } from '../../model/time.ts'
import type { SourceWatch } from '../../model/watch.ts'
import type { Budgeting } from './joint.ts'

const ROTATED = new Error('the key is another one')

interface Placing {
  readonly budget: Pick<Budgeting, 'enter'>
  readonly clock: Pick<Clock, 'sleep'>
  readonly watch: Pick<SourceWatch, 'state'>
  /** Looks where the key comes from, and says what it is now. */
  readonly keyNow: () => string
  /** It can become another one. */
  readonly mayRotate: boolean
}

/** A key that changes during the wait takes a place anew: a 429 of the one before is not waited out by a budget that does not know it. */
export async function takePlace(
  placing: Placing,
  lane: Lane,
  signal: AbortSignal,
): Promise<{ key: string; answered: () => void }> {
  const { budget, watch, keyNow, mayRotate } = placing
  for (;;) {
    const key = keyNow()
    const wait = new Tether(signal)
    const waiting = () => {
      watch.state('waiting')
      if (mayRotate) void lookOut(placing, key, wait)
    }
    try {
      const answered = await budget.enter(lane, wait.signal, waiting)
      if (keyNow() === key) return { key, answered }
      answered()
    } catch (error) {
      if (error !== ROTATED) throw error
    } finally {
      wait.close()
    }
  }
}

async function lookOut({ clock, keyNow }: Placing, key: string, wait: Tether): Promise<void> {
  const { signal } = wait
  do await clock.sleep(SECOND_MS, signal)
  while (!signal.aborted && keyNow() === key)
  // Where the wait is over already nobody hears it.
  wait.abort(ROTATED)
}
