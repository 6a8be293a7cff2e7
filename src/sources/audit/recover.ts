// How a drain continues when its head is gone or an entry cannot be read: by time (invariant 6).
import { ConnectorError } from '../../core/errors.ts'
import type { PageChunk } from '../../contracts/source.ts'
import { SECOND_US } from '../../core/time.ts'
import type { Group } from '../splitter/entries-builder.ts'
import { toldAs } from '../http/reply.ts'
import { anchorAt, brokenEntry, reachUs, readLatest } from './lookup.ts'
import type { Found } from './lookup.ts'
import { forgetFailures, jumpTo } from './cursor.ts'
import type { Drain, Position } from './cursor.ts'
import type { PageView } from './page.ts'
import { BAD_TRIES, probeAfter, quarantinedPage, skip } from './skip.ts'
import type { Probe } from './skip.ts'
import { endByTime, endDrain, giveUpDrain, newGap } from './end.ts'
import { horizonUs, isFuture } from './clock.ts'
import type { Step, Parts } from './step.ts'
import { lastChunk } from './step.ts'
import { isRightBehind, LEAVE_TRIES } from './walk.ts'

/** A long drain asks once where the head is, so that its lag can be shown meanwhile. */
export async function* askHead(step: Step, drain: Drain): Parts {
  await readLatest(step)
  drain.pages++
  yield lastChunk(step)
}

/** Finds the place by time: once a drain, so that a server that contradicts itself cannot eat the budget. */
export async function* reanchor(step: Step, drain: Drain): Parts {
  const { cursor } = step
  const head = cursor.head as Position
  if (drain.reanchored) {
    giveUpDrain(step, drain)
    const message =
      'No page leads on from the last entry although there are newer ones; trying again at the next poll'
    yield lastChunk(step, { fault: new ConnectorError('bad_reply', message) })
    return
  }
  const atUs = Math.min(head.at, cursor.headUs)
  let found = await anchorAt(step, atUs, 'live')
  const isThere = found.position?.id === head.id
  // The same dead entry again leads nowhere: on to the next second.
  if (isThere) found = await anchorAt(step, atUs + SECOND_US, 'live')
  if (!found.unreadable) drain.badTries = 0
  else if (++drain.badTries < BAD_TRIES) {
    yield lastChunk(step, { fault: brokenEntry() })
    return
  }
  if (isThere && found.position && askHeadAgain(drain)) {
    const message = 'The API reported the last entry as gone but still shows it; its page is requested again'
    yield lastChunk(step, { fault: new ConnectorError('bad_reply', message) })
    return
  }
  cursor.lost ??= head
  if (!found.position && !found.unreadable) {
    yield* endByTime(step, drain, cursor.headUs + 1, await readLatest(step))
    return
  }
  if (isFuture(step, found)) {
    yield endBeforeFuture(step, drain, found)
    return
  }
  drain.reanchored = true
  if (found.position) stepOver(step, drain, found.position)
  else passByTime(step, drain)
  yield lastChunk(step, { ...found.group, gaps: found.position ? gapAfter(step, found.position) : 0 })
}

/** The error may pass: only then is something missing. */
function askHeadAgain(drain: Drain): boolean {
  drain.askedAgain = (drain.askedAgain ?? 0) + 1
  if (drain.askedAgain >= BAD_TRIES) return false
  drain.doubt = 'none'
  return true
}

/** Nothing follows but what is dated in the future: the next poll asks again whether something came before it. */
function endBeforeFuture(step: Step, drain: Drain, { group }: Found): PageChunk {
  endDrain(step, drain)
  return lastChunk(step, group)
}

/** Goes on at an entry found by time; the head stays where it is until something newer is read. */
function stepOver({ cursor }: Step, drain: Drain, position: Position): void {
  drain.doubt = 'none'
  drain.probe = null
  // It may be an earlier one of the same second: what follows it is met again.
  drain.ends = []
  jumpTo(drain, position)
  drain.passedHead = true
  cursor.head = position
  cursor.headUs = Math.max(cursor.headUs, position.at)
}

/** The lost entry is no gap when it is met again before anything newer. */
function gapAfter(step: Step, position: Position): number {
  const { cursor, options } = step
  if (!cursor.lost || position.at <= cursor.lost.at) return 0
  const gaps = newGap(cursor, cursor.lost)
  cursor.lost = null
  if (gaps > 0)
    options.log.error(
      'Possible gap: the cursor was lost and found again by time; compare with the API for that day',
    )
  return gaps
}

export function settleLost(step: Step, view: PageView): number {
  const { cursor } = step
  if (!cursor.lost) return 0
  if (view.metLost) cursor.lost = null
  else if (view.pastLost) return gapAfter(step, { id: '', at: Number.MAX_SAFE_INTEGER })
  return 0
}

/**
 * Continues with `search` after an entry that stays unreadable. If that answer cannot be read either, the next entry is
 * bad too or the server is failing: only a readable entry proves the former.
 */
export async function* followProbe(step: Step, drain: Drain, probe: Probe): Parts {
  const found = await anchorAt(step, probe.atUs, 'live')
  const skipped = await skip(step, probe, found, {
    priority: 'live',
    from: drain.from,
    knownUs: Math.min(drain.from.at, step.cursor.headUs),
    endUs: horizonUs(step, found.serverAt) + 1,
  })
  if (skipped.next === 'again') {
    drain.probe = skipped.probe
    yield lastChunk(step, { fault: brokenEntry() })
  } else if (skipped.next === 'on') {
    drain.probe = skipped.probe
    yield lastChunk(step, found.group)
  } else if (skipped.next === 'readable') {
    yield await passed(step, drain, probe, skipped.position, found.group)
  } else if (skipped.next === 'nothing') {
    if (found.position) yield endBeforeFuture(step, drain, found)
    else yield* endRightBehind(step, drain, probe)
  } else {
    giveUpDrain(step, drain)
    const message =
      'The answers of the API are unreadable at every time that was tried; retrying at the next poll'
    yield lastChunk(step, { fault: new ConnectorError('bad_reply', message) })
  }
}

async function passed(
  step: Step,
  drain: Drain,
  { kept }: Probe,
  to: Position,
  group: Group | undefined,
): Promise<PageChunk> {
  const behind = await isRightBehind(step, to, kept, 'live')
  if (behind instanceof ConnectorError && ++drain.badTries < LEAVE_TRIES)
    return lastChunk(step, {
      fault: toldAs(behind, 'the page that shows whether an entry is missing failed'),
    })
  const isNext = behind === true
  stepOver(step, drain, to)
  const { log } = step.options
  if (isNext) log.warn('An unreadable entry was skipped; its bytes are quarantined')
  else
    log.error(
      'Possible gap: an unreadable entry was skipped by time; its bytes are quarantined, and others beside it may be missing',
    )
  return lastChunk(step, { ...group, gaps: isNext ? 0 : 1 })
}

/** Nothing from the next second on. What `latest` shows in the unreadable's own second is the last there is, and `search` never finds it. */
async function* endRightBehind(step: Step, drain: Drain, probe: Probe): Parts {
  const newest = await readLatest(step)
  const { position, group } = newest
  if (position && position.at > step.cursor.headUs && position.at < probe.atUs)
    yield await passed(step, drain, probe, position, group)
  else yield* endByTime(step, drain, probe.atUs, newest)
}

/** `keptTake`: so many elements of the page at `drain.from` are quarantined. */
export function passByTime(step: Step, drain: Drain, keptTake?: number): void {
  const { cursor } = step
  // The first entry of all may have no time: then from where `search` reaches.
  drain.probe = probeAfter(drain.from.at || reachUs(step), quarantinedPage(drain, keptTake))
  forgetFailures(drain)
  cursor.trail = []
}
