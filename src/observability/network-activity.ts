// Wraps a sink's networks: each request, and each activity on a stream, is reported to the sink's
// status reporter.
import type { Connect, HttpRequest, Transport } from '../contracts/platform.ts'
import { overlay } from '../core/overlay.ts'
import type { Asked, SinkReporter } from '../contracts/reporter.ts'

export type ActivityReporter = Pick<SinkReporter, 'asked' | 'active'>

async function* passing(pieces: AsyncIterable<Uint8Array>, asked: Asked): AsyncGenerator<Uint8Array> {
  for await (const piece of pieces) {
    asked.moved()
    yield piece
  }
}

const reportedRequest = (request: HttpRequest, asked: Asked): HttpRequest =>
  request.stream ? { ...request, stream: passing(request.stream, asked) } : request

export function reportedTransport(send: Transport, ear: ActivityReporter): Transport {
  return async (request, signal) => {
    const asked = ear.asked()
    try {
      const reply = await send(reportedRequest(request, asked), signal)
      asked.over(true)
      return reply
    } catch (error) {
      asked.over(false)
      throw error
    }
  }
}

export function reportedConnect(connect: Connect, ear: ActivityReporter): Connect {
  return async (...to) => {
    const connection = await connect(...to)
    ear.active()
    return overlay(connection, {
      async write(bytes, signal) {
        await connection.write(bytes, signal)
        ear.active()
      },
      async read(signal) {
        const part = await connection.read(signal)
        if (part) ear.active()
        return part
      },
    })
  }
}
