// Wraps a sink's networks: each request, and each activity on a stream, is reported to the sink's
// status reporter.
import type { Connect, HttpRequest, Transport } from '../contracts/platform.ts'
import { overlay } from '../core/overlay.ts'
import type { Asked, SinkReporter } from '../contracts/reporter.ts'

export type Ear = Pick<SinkReporter, 'asked' | 'heard'>

async function* passing(pieces: AsyncIterable<Uint8Array>, asked: Asked): AsyncGenerator<Uint8Array> {
  for await (const piece of pieces) {
    asked.moved()
    yield piece
  }
}

const heardRequest = (request: HttpRequest, asked: Asked): HttpRequest =>
  request.stream ? { ...request, stream: passing(request.stream, asked) } : request

export function heardTransport(send: Transport, ear: Ear): Transport {
  return async (request, signal) => {
    const asked = ear.asked()
    try {
      const reply = await send(heardRequest(request, asked), signal)
      asked.over(true)
      return reply
    } catch (error) {
      asked.over(false)
      throw error
    }
  }
}

export function heardConnect(connect: Connect, ear: Ear): Connect {
  return async (...to) => {
    const connection = await connect(...to)
    ear.heard()
    return overlay(connection, {
      async write(bytes, signal) {
        await connection.write(bytes, signal)
        ear.heard()
      },
      async read(signal) {
        const part = await connection.read(signal)
        if (part) ear.heard()
        return part
      },
    })
  }
}
