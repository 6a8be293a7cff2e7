// The one wrapper around a sink: it behaves as before, and its observers see what it sends.
import type { SinkObserver } from '../contracts/reporter.ts'
import type { ObjectSink, ReadyObject, Sink } from '../contracts/sink.ts'
import { overlay } from '../core/overlay.ts'

export function observedSink<Kind extends Sink | ObjectSink>(
  sink: Kind,
  observers: readonly SinkObserver[],
): Kind {
  if (observers.length === 0) return sink
  const methods = 'objects' in sink ? observedObjects(sink, observers) : observedBatches(sink, observers)
  return overlay(sink, methods as Partial<Kind>)
}

function observedBatches(sink: Sink, observers: readonly SinkObserver[]): Partial<Sink> {
  return {
    deliver: (delivery, signal) =>
      observers.reduce(
        (send, observer) => () => observer.deliver?.(delivery, send) ?? send(),
        () => sink.deliver(delivery, signal),
      )(),
  }
}

function observedObjects(sink: ObjectSink, observers: readonly SinkObserver[]): Partial<ObjectSink> {
  return {
    async open(slot) {
      const object = await sink.open(slot)
      return overlay(object, {
        async write(lines) {
          for (const observer of observers) observer.write?.(lines)
          await object.write(lines)
        },
        async end(content) {
          const ready = await object.end(content)
          const put: ReadyObject['put'] = (signal) =>
            observers.reduce(
              (send, observer) => () => observer.put?.(content, send) ?? send(),
              () => ready.put(signal),
            )()
          return overlay(ready, { put })
        },
      })
    },
  }
}
