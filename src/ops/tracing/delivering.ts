// Spans of delivery: one for each try to send a batch or an object, linked to the pages whose entries it carries; its settlement below it.
import type { Span } from '@opentelemetry/api'
import type { Journal, Settlement } from '../../model/journal.ts'
import type { Seq } from '../../model/seq.ts'
import type { ObjectContent, OpenObject, ReadyObject } from '../../model/object.ts'
import type { Lines, ObjectSink, Sink } from '../../model/sink.ts'
import { overlay } from '../../model/overlay.ts'
import type { Pages } from './pages.ts'
import { type Begin, type Facts, within } from './spans.ts'

/** So many tries of a sink are remembered; the settlement of an older one has no parent. */
const MOST_TRIES = 64

interface Try {
  readonly first: Seq
  readonly last: Seq
  readonly span: Span
}

/** The last tries of each sink, the newest last. */
type Tries = Map<string, Try[]>

export interface Delivering {
  readonly begin: Begin
  readonly pages: Pages
  readonly tries: Tries
}

function beginTry(
  { begin, pages, tries }: Delivering,
  sink: string,
  stretch: Omit<Try, 'span'>,
  facts: Facts,
): Span {
  const { first, last } = stretch
  const span = begin('deliver', { sink, ...facts }, { links: pages.links(first, last) })
  const known = tries.get(sink) ?? []
  tries.set(sink, known)
  known.push({ first, last, span })
  if (known.length > MOST_TRIES) known.shift()
  return span
}

export function tracedSettle(journal: Journal, { begin, tries }: Delivering) {
  return (sink: string, settlement: Settlement): Promise<void> => {
    const { first, through, parked } = settlement
    const parent = tries.get(sink)?.findLast((each) => each.first <= through && first <= each.last)?.span
    const facts = { sink, entries: through - first + 1, parked: parked.length }
    return within(begin('settle', facts, { parent }), () => journal.settle(sink, settlement))
  }
}

function stretchOf({ seqs, count }: Lines): Omit<Try, 'span'> {
  return { first: seqs[0] ?? 0, last: seqs[count - 1] ?? 0 }
}

function tracedBatches(sink: Sink, delivering: Delivering): Sink {
  const { name, type } = sink
  return overlay(sink, {
    deliver(delivery, signal) {
      const { lines, doubtful } = delivery
      const { count, ends } = lines
      const facts = { type, entries: count, bytes: ends[count - 1] ?? 0, again: doubtful }
      return within(
        beginTry(delivering, name, stretchOf(lines), facts),
        () => sink.deliver(delivery, signal),
        ({ settled, refused, later }) => ({
          settled,
          refused: refused.length,
          outcome: later ? 'pending' : 'ok',
        }),
      )
    },
  })
}

function tracedObjects(sink: ObjectSink, delivering: Delivering): ObjectSink {
  const { name, type } = sink
  const putTraced = (ready: ReadyObject, { first, last, count }: ObjectContent): ReadyObject =>
    overlay(ready, {
      put: (signal) =>
        within(
          beginTry(delivering, name, { first, last }, { type, entries: count }),
          () => ready.put(signal),
          ({ bodyBytes, there }) => ({ bytes: bodyBytes, again: there }),
        ),
    })
  const endTraced = (object: OpenObject): OpenObject =>
    overlay(object, { end: async (content) => putTraced(await object.end(content), content) })
  return overlay(sink, { open: async (...where) => endTraced(await sink.open(...where)) })
}

export const tracedSink = (sink: Sink | ObjectSink, delivering: Delivering): Sink | ObjectSink =>
  'objects' in sink ? tracedObjects(sink, delivering) : tracedBatches(sink, delivering)
