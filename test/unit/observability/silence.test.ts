// A receiver that does not answer is shown as failing within half a minute, long before the request is given up.
import { describe, expect, it } from 'vitest'
import { ConnectorError } from '../../../src/core/errors.ts'
import type { Connection, HttpReply, Transport } from '../../../src/contracts/platform.ts'
import { observedConnect, observedTransport } from '../../../src/observability/network-activity.ts'
import { openRegistrySetup, ack } from './registry-setup.ts'

const never = new AbortController().signal
const request = { method: 'POST', url: 'https://siem.test', headers: {} } as const
const fine: HttpReply = { status: 200, headers: {}, body: (async function* () {})() }

function openPromise<T>() {
  let resolve: (value: T) => void = () => undefined
  let reject: (error: unknown) => void = () => undefined
  const promise = new Promise<T>((...both) => ([resolve, reject] = both))
  return { promise, resolve, reject }
}

/** One sink with a scripted receiver. */
function openReceiver() {
  const setup = openRegistrySetup()
  ack(setup)
  const answers: ReturnType<typeof openPromise<HttpReply>>[] = []
  const deaf: Transport = () => {
    const answer = openPromise<HttpReply>()
    answers.push(answer)
    return answer.promise
  }
  const shown = () => setup.registry.status().sinks[0]
  return { ...setup, answers, shown, transport: observedTransport(deaf, setup.sink), deaf }
}

describe('a request', () => {
  it('without an answer for 25 s shows its sink as failing, and as healthy again once it is answered', async () => {
    const { clock, registry, shown, answers, transport, sink, metrics } = openReceiver()
    sink.state('sending')
    const asking = transport(request, never)
    clock.pass(24_999)
    expect(shown()).toMatchObject({ state: 'sending', error: null })
    expect(registry.status().ok).toBe(true)
    clock.pass(1)
    expect(shown()).toMatchObject({
      state: 'failing',
      error: {
        code: 'timeout',
        message:
          'no answer for 25 s, and the request is still open: check the receiver and the network between',
        since: '2026-11-21T10:00:00.000Z',
      },
    })
    expect(registry.status().ok).toBe(false)
    expect(registry.status().summary).toContain('archive is failing: no answer for 25 s')
    expect(await metrics.render()).toContain('auditferry_sink_state{sink="archive",state="failing"} 1')
    answers[0]?.resolve(fine)
    await asking
    expect(shown()).toMatchObject({ state: 'sending', error: null })
    expect(registry.status().ok).toBe(true)
  })

  it('in progress makes an idle sink a sending one', async () => {
    const { shown, answers, transport } = openReceiver()
    const asking = transport(request, never)
    expect(shown()?.state).toBe('sending')
    answers[0]?.resolve(fine)
    await asking
    expect(shown()?.state).toBe('idle')
  })

  it('that is given up after a silence hands it to the next one: the silence is as long as both', async () => {
    const { clock, shown, answers, transport } = openReceiver()
    const asking = transport(request, never)
    clock.pass(60_000)
    answers[0]?.reject(new ConnectorError('timeout', 'not answered'))
    await expect(asking).rejects.toThrow('not answered')
    const again = transport(request, never)
    expect(shown()).toMatchObject({ state: 'failing', error: { code: 'timeout' } })
    answers[1]?.resolve(fine)
    await again
    expect(shown()).toMatchObject({ state: 'idle', error: null })
  })

  it('that is given up after a silence fails since the silence began', async () => {
    const { clock, shown, sink, answers, transport } = openReceiver()
    const asking = transport(request, never)
    clock.pass(60_000)
    const { since } = shown()?.error ?? expect.fail()
    const timeout = new ConnectorError('timeout', 'not answered')
    answers[0]?.reject(timeout)
    await expect(asking).rejects.toThrow('not answered')
    sink.state('failing', timeout)
    expect(shown()?.error).toMatchObject({ message: 'not answered', since })
  })

  it('whose body is still being sent is not silent; from its last piece on it may be', async () => {
    const { clock, shown, sink } = openReceiver()
    async function* slowly() {
      for (let i = 0; i < 5; i++) {
        clock.pass(20_000)
        yield Buffer.from('x')
      }
    }
    const sent = openPromise<undefined>()
    const reading: Transport = async ({ stream }) => {
      for await (const piece of stream ?? []) expect(piece).toHaveLength(1)
      sent.resolve(undefined)
      return new Promise(() => undefined)
    }
    void observedTransport(reading, sink)({ ...request, stream: slowly() }, never)
    await sent.promise
    expect(shown()?.state).toBe('sending')
    clock.pass(25_000)
    expect(shown()?.state).toBe('failing')
  })

  it('that is answered does not count for another that is not', async () => {
    const { clock, shown, answers, transport } = openReceiver()
    void transport(request, never)
    clock.pass(20_000)
    const other = transport(request, never)
    answers[1]?.resolve(fine)
    await other
    clock.pass(5_000)
    expect(shown()?.state).toBe('failing')
  })
})

describe('a delivery', () => {
  it('without a sign for 25 s shows its sink as failing, whatever it goes through', () => {
    const { clock, shown, sink } = openReceiver()
    sink.state('sending')
    const over = sink.delivering()
    clock.pass(25_000)
    expect(shown()?.state).toBe('failing')
    over()
    expect(shown()?.state).toBe('sending')
  })

  it('that is given up after a silence fails since that began; a later failure of its own since it came', () => {
    const { clock, shown, sink } = openReceiver()
    const fails = () => sink.state('failing', new ConnectorError('timeout', 'not answered'))
    const over = sink.delivering()
    clock.pass(60_000)
    const { since } = shown()?.error ?? expect.fail()
    over()
    fails()
    expect(shown()?.error).toMatchObject({ message: 'not answered', since })
    sink.success()
    const slow = sink.delivering()
    clock.pass(60_000)
    slow()
    sink.delivering()()
    clock.pass(1_000)
    fails()
    expect(shown()?.error?.since).toBe(new Date(clock.now()).toISOString())
  })

  it('whose stream takes or sends something is not silent', async () => {
    const { clock, shown, sink } = openReceiver()
    const connection = {
      write: async () => undefined,
      read: async () => Buffer.from('x'),
    } as unknown as Connection
    const connect = observedConnect(async () => connection, sink)
    const heard = await connect({ host: 'siem.test', port: 514 }, undefined, 1_000, never)
    sink.delivering()
    for (const sign of [() => heard.write(Buffer.from('x'), never), () => heard.read(never)]) {
      clock.pass(20_000)
      await sign()
      clock.pass(20_000)
      expect(shown()?.state).not.toBe('failing')
    }
    clock.pass(5_000)
    expect(shown()?.state).toBe('failing')
  })

  it('that fails on its own is reported with its own reason', () => {
    const { clock, shown, sink } = openReceiver()
    sink.delivering()
    sink.state('failing', new ConnectorError('unreachable', 'nobody there'))
    clock.pass(25_000)
    expect(shown()).toMatchObject({ state: 'failing', error: { code: 'unreachable' } })
  })
})
