// Whether what the log begins with lies in the future. Where only our clock says so, the log itself is asked, since that clock may be slow.
import type { Appended } from '../model/journal.ts'
import type { Part } from '../model/source.ts'
import { search } from './audit-by-time.ts'
import type { Found } from './audit-by-time.ts'
import { horizonUs, isFuture, MOST_FUTURE } from './audit-clock.ts'
import { walkFrom } from './audit-cursor.ts'
import type { Position } from './audit-cursor.ts'
import type { PageView } from './audit-page.ts'
import { midPart } from './audit-step.ts'
import type { Step } from './audit-step.ts'
import { readPage } from './audit-walk.ts'

/** `unknown`: the log could not be asked, as the last part told. */
type Dated = 'now' | 'future' | 'unknown'

/** Of `latest`, nothing follows the entry found and nothing before it is shipped: what lies ahead of our clock is looked at alone. */
export async function* datedOf(
  step: Step,
  found: Found,
  latest: boolean,
): AsyncGenerator<Part, Dated, Appended> {
  if (!isFuture(step, found)) return 'now'
  if (found.serverAt !== undefined) return 'future'
  if (!found.position) return 'now'
  if (!latest) {
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
  let from = position
  for (let ahead = 0; ;) {
    let view: PageView | undefined
    yield* readPage(step, {
      walk: walkFrom(from),
      lane: 'live',
      take: MOST_FUTURE + 1,
      stopUs: () => null,
      passedHead: false,
      whole: (page) => {
        view = page
        return {}
      },
      bad: () => ({}),
    })
    if (!view) return 'unknown'
    const { count, malformed, last, lastOfAll } = view
    ahead += count - malformed
    if (last || ahead >= MOST_FUTURE) return 'now'
    if (lastOfAll === null || lastOfAll.id === from.id) return 'future'
    from = lastOfAll
  }
}
