// The decorators leave each part unchanged: its private state, its optional members, its errors; objects have their spans too.
import { TracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace'
import { describe, expect, it } from 'vitest'
import { ConnectorError } from '../../../../src/core/errors.ts'
import type { Journal } from '../../../../src/contracts/journal.ts'
import type { ObjectContent, ObjectSink, OpenObject, StoredObject } from '../../../../src/contracts/sink.ts'
import { overlay } from '../../../../src/core/overlay.ts'
import { observedSink } from '../../../../src/observability/observed-sink.ts'
import { tracingOver } from '../../../../src/observability/tracing/traced.ts'

function open() {
  const exporter = new InMemorySpanExporter()
  const provider = new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] })
  const tracing = tracingOver(provider.getTracer('test'), () => provider.shutdown())
  return { tracing, spans: () => exporter.getFinishedSpans() }
}

const signal = new AbortController().signal
const group = {
  stream: { workspace: 'acme', source: 'audit' },
  day: '2026-11-21',
  replay: undefined,
} as const
const content: ObjectContent = { group, count: 7, first: 11, last: 20, firstAtUs: 0, lastAtUs: 0 }
const stored: StoredObject = {
  ...content,
  ...{
    key: 'planted/key',
    linesBytes: 700,
    linesSha256: '',
    bodySha256: '',
    bodyBytes: 70,
    alreadyStored: false,
  },
}

/** Stores at the second try. */
class Bucket {
  readonly #name = 'evidence'
  readonly type = 's3'
  #tries = 0
  readonly objects = { maxBytes: 1, maxAgeMs: 1 }

  get name(): string {
    return this.#name
  }

  async open(): Promise<OpenObject> {
    const put = async () => {
      if (++this.#tries === 1) throw new ConnectorError('unreachable', 'planted words of the bucket')
      return stored
    }
    const discard = async () => undefined
    return { write: discard, discard, end: async () => ({ put, discard }) }
  }
}

describe('an object', () => {
  it('has a span for each try, and its acknowledgement is a child of the last', async () => {
    const { tracing, spans } = open()
    const bucket = new Bucket() as unknown as ObjectSink
    const sink = observedSink(bucket, [tracing.sink(bucket)])
    const ready = await (await sink.open(0)).end(content)
    await expect(ready.put(signal)).rejects.toThrow('planted words')
    expect(await ready.put(signal)).toBe(stored)
    const journal = tracing.journal({ ack: async () => undefined } as unknown as Journal)
    await journal.ack('evidence', { first: 5, through: 20, parked: [] })
    const [failed, done, settled] = spans()
    expect(failed?.attributes).toEqual({
      ...{ 'auditferry.sink': 'evidence', 'auditferry.type': 's3', 'auditferry.entries': 7 },
      ...{ 'auditferry.outcome': 'unreachable', 'error.type': 'unreachable' },
    })
    expect(done?.attributes).toMatchObject({ 'auditferry.outcome': 'ok', 'auditferry.bytes': 70 })
    expect(settled?.name).toBe('ack')
    expect(settled?.parentSpanContext?.spanId).toBe(done?.spanContext().spanId)
    expect(
      JSON.stringify(spans().map(({ attributes, status, events }) => [attributes, status, events])),
    ).not.toContain('planted')
  })

  it('an acknowledgement that no try carried has no parent', async () => {
    const { tracing, spans } = open()
    const journal = tracing.journal({ ack: async () => undefined } as unknown as Journal)
    await journal.ack('evidence', { first: 1, through: 2, parked: [] })
    expect(spans()[0]?.parentSpanContext).toBeUndefined()
  })
})

describe('a part under a decorator', () => {
  it('keeps its private state, what it inherits, and what it lacks', () => {
    const sink = overlay(new Bucket() as unknown as ObjectSink, {})
    expect(sink.name).toBe('evidence')
    expect('objects' in sink).toBe(true)
    expect(sink.evidence).toBeUndefined()
  })

  it('a refused request has its status, a failed one its code; both throw or answer as before', async () => {
    const { tracing, spans } = open()
    const stream = { workspace: 'acme', source: 'audit' } as const
    const ask = {
      method: 'GET',
      url: 'https://api.example.com/?from=planted',
      headers: { authorization: 'planted' },
    } as const
    const refusal = { status: 403, headers: {}, body: (async function* () {})() }
    expect(await tracing.transport(stream, async () => refusal)(ask, signal)).toBe(refusal)
    const gone = new ConnectorError('aborted', 'stopped')
    await expect(tracing.transport(stream, () => Promise.reject(gone))(ask, signal)).rejects.toBe(gone)
    expect(spans().map(({ attributes, status }) => [attributes['auditferry.outcome'], status.code])).toEqual([
      ['403', 0],
      ['aborted', 0],
    ])
    expect(JSON.stringify(spans().map(({ attributes }) => attributes))).not.toContain('planted')
  })

  it('a bug is recorded only as a bug', async () => {
    const { tracing, spans } = open()
    const journal = tracing.journal({
      ack: () => Promise.reject(new Error('planted')),
    } as unknown as Journal)
    await expect(journal.ack('x', { first: 1, through: 2, parked: [] })).rejects.toThrow('planted')
    expect(spans()[0]).toMatchObject({
      attributes: { 'auditferry.outcome': 'bug' },
      status: { code: 2 },
      events: [],
    })
  })
})
