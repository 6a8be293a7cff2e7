// A collector for OTLP over HTTP, as its JSON is published: traces are accepted at /v1/traces and decoded.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { z } from 'zod'

/** opentelemetry-proto, trace/v1 and common/v1, in its JSON mapping: ids as hex, 64-bit integers as decimal text, kinds as numbers. */
const value = z.strictObject({
  stringValue: z.string().optional(),
  intValue: z.union([z.int(), z.string().regex(/^-?\d+$/)]).optional(),
  doubleValue: z.number().optional(),
  boolValue: z.boolean().optional(),
  arrayValue: z.unknown().optional(),
})
const attributes = z.array(z.strictObject({ key: z.string(), value })).default([])
const traceId = z.string().regex(/^[0-9a-f]{32}$/)
const spanId = z.string().regex(/^[0-9a-f]{16}$/)
const span = z.looseObject({
  traceId,
  spanId,
  parentSpanId: spanId.optional(),
  name: z.string(),
  kind: z.int().min(1).max(5),
  startTimeUnixNano: z.string().regex(/^\d+$/),
  endTimeUnixNano: z.string().regex(/^\d+$/),
  attributes,
  links: z.array(z.looseObject({ traceId, spanId, attributes })).default([]),
  status: z.looseObject({ code: z.int().min(0).max(2).default(0), message: z.string().optional() }),
})
const request = z.strictObject({
  resourceSpans: z.array(
    z.looseObject({
      resource: z.looseObject({ attributes }),
      scopeSpans: z.array(
        z.looseObject({ scope: z.looseObject({ name: z.string() }), spans: z.array(span) }),
      ),
    }),
  ),
})

type Attributes = z.output<typeof attributes>

export interface Received {
  readonly name: string
  readonly kind: number
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId: string | undefined
  readonly links: readonly string[]
  readonly failed: boolean
  readonly facts: Readonly<Record<string, string | number | boolean | undefined>>
  readonly resource: Readonly<Record<string, string | number | boolean | undefined>>
}

function plain(list: Attributes): Received['facts'] {
  return Object.fromEntries(
    list.map(({ key, value: { stringValue, intValue, doubleValue, boolValue } }) => [
      key,
      stringValue ?? boolValue ?? doubleValue ?? (intValue === undefined ? undefined : Number(intValue)),
    ]),
  )
}

export async function openCollector() {
  const spans: Received[] = []
  const bodies: string[] = []
  const faults: unknown[] = []
  const server = createServer((asked, reply) => {
    const pieces: Buffer[] = []
    asked.on('data', (piece: Buffer) => pieces.push(piece))
    asked.on('end', () => {
      try {
        const text = Buffer.concat(pieces).toString()
        bodies.push(text)
        if (asked.url !== '/v1/traces' || asked.headers['content-type'] !== 'application/json')
          throw new Error(`${asked.url ?? ''} ${asked.headers['content-type'] ?? ''}`)
        for (const { resource, scopeSpans } of request.parse(JSON.parse(text)).resourceSpans)
          for (const { name, kind, links, status, attributes: own, ...ids } of scopeSpans.flatMap(
            (each) => each.spans,
          ))
            spans.push({
              ...{ name, kind, traceId: ids.traceId, spanId: ids.spanId, parentSpanId: ids.parentSpanId },
              links: links.map((link) => link.spanId),
              failed: status.code === 2,
              facts: plain(own),
              resource: plain(resource.attributes),
            })
      } catch (error) {
        faults.push(error)
      }
      reply.writeHead(200, { 'content-type': 'application/json' }).end('{}')
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    endpoint: `http://127.0.0.1:${port}`,
    spans,
    bodies,
    faults,
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
