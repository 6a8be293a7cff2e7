// Whether what the log begins with lies in the future. Where only our clock says so, the log itself is asked, since that clock may be slow.
import type { Appended } from '../../model/appended.ts'
import type { Part } from '../../model/source.ts'
import { brokenEntry, search } from './by-time.ts'
import type { Found } from './by-time.ts'
import { horizonUs, isFuture, MOST_FUTURE } from './clock.ts'
import { goOn, walkFrom } from './cursor.ts'
import type { Position } from './cursor.ts'
import type { PageView } from './page.ts'
import { probeAfter, readableAt, unreadableAt } from './probe.ts'
import { midPart } from './step.ts'
import type { Step } from './step.ts'
import { readPage } from './walk.ts'

/** As far as half a year, and back to the second. */
const MOST_PROBES = 50

/** `unknown`: the log could not be asked, as the last part told. */
type Dated = 'now' | 'future' | 'unknown'

/** Of `latest`, nothing follows the entry found and nothing before it is shipped: what lies ahead of our clock is looked at alone. */
export async function* datedOf(
  step: Step,
  found: Found,
  fromNow: boolean,
): AsyncGenerator<Part, Dated, Appended> {
  const dated = yield* judged(step, found, fromNow)
  if (dated !== 'unknown') delete step.cursor.ahead
  return dated
}

async function* judged(step: Step, found: Found, fromNow: boolean): AsyncGenerator<Part, Dated, Appended> {
  if (!isFuture(step, found)) return 'now'
  if (found.serverAt !== undefined) return 'future'
  if (!found.position) return 'now'
  if (!fromNow) {
    // Before what follows it, as it stands in the feed.
    yield midPart(step, found.group ?? {})
    return yield* datedByLog(step, found.position)
  }
  const { position } = await search(step, horizonUs(step), 'live')
  if (!position) return 'future'
  const looks = datedByLog(step, position)
  for (let look = await looks.next(); ; look = await looks.next()) {
    if (look.done) return look.value
    if (look.value.fault) yield look.value
  }
}

/** Reads on from `position` and ships what it reads: in the future lie no more than a few entries, and none that does not stands behind them. */
async function* datedByLog(step: Step, position: Position): AsyncGenerator<Part, Dated> {
  // A page that was unreadable before is asked for in smaller pieces, as in a drain.
  const walk = (step.cursor.ahead ??= { ...walkFrom(position), entries: 0 })
  for (;;) {
    const seen: { view?: PageView; isUnreadableAlone?: true } = {}
    yield* readPage(step, {
      walk,
      lane: 'live',
      // One alone may be `from` itself.
      take: Math.max(2, Math.min(walk.narrowTake ?? Infinity, MOST_FUTURE + 1)),
      stopUs: () => null,
      passedHead: false,
      whole: (view) => {
        seen.view = view
        const read = view.count - view.malformed
        // In small pages `from` itself, where that is included, would be half of what is counted.
        walk.entries += walk.narrowTake !== null && read > 1 ? read - 1 : read
        return {}
      },
      leave: () => {
        seen.isUnreadableAlone = true
        return {}
      },
    })
    const { view, isUnreadableAlone = false } = seen
    if (!view && !isUnreadableAlone) return 'unknown'
    if (view?.last || walk.entries >= MOST_FUTURE) return 'now'
    const next = view ? view.lastOfAll : await readableBehind(step, walk.from)
    if (!next || next.id === walk.from.id) return 'future'
    if (!view) walk.entries++
    goOn(walk, next)
  }
}

/** What stays unreadable is passed by time; a drain that goes on from here meets it again, and counts it. */
async function readableBehind(step: Step, { at }: Position): Promise<Position | undefined> {
  let probe = probeAfter(at)
  for (let tries = 0; tries < MOST_PROBES; tries++) {
    const { position, unreadable, unreadableUs } = await search(step, probe.atUs, 'live')
    const next = unreadable ? unreadableAt(probe, unreadableUs) : readableAt(probe)
    if (!next) return position
    probe = next
  }
  throw brokenEntry()
}
