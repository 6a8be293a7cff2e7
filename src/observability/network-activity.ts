// Wraps a sink's networks: each request, and each activity on a stream, is reported to the sink's
// status reporter.
import type { Connect, HttpRequest, Transport } from '../contracts/platform.ts'
import { overlay } from '../core/overlay.ts'
import type { Asked, SinkReporter } from '../contracts/reporter.ts'

export type ActivityListener = Pick<SinkReporter, 'asked' | 'active'>

async function* passing(pieces: AsyncIterable<Uint8Array>, asked: Asked): AsyncGenerator<Uint8Array> {
  for await (const piece of pieces) {
    asked.moved()
    yield piece
  }
}

const observedRequest = (request: HttpRequest, asked: Asked): HttpRequest =>
  request.stream ? { ...request, stream: passing(request.stream, asked) } : request

export function observedTransport(send: Transport, listener: ActivityListener): Transport {
  return async (request, signal) => {
    const asked = listener.asked()
    try {
      const reply = await send(observedRequest(request, asked), signal)
      asked.over(true)
      return reply
    } catch (error) {
      asked.over(false)
      throw error
    }
  }
}

export function observedConnect(connect: Connect, listener: ActivityListener): Connect {
  return async (...to) => {
    const connection = await connect(...to)
    listener.active()
    return overlay(connection, {
      async write(bytes, signal) {
        await connection.write(bytes, signal)
        listener.active()
      },
      async read(signal) {
        const part = await connection.read(signal)
        if (part) listener.active()
        return part
      },
    })
  }
}
