// Buckets on the bench, behind the dispatcher of objects: in memory, and TLS over real sockets.
import type { Secret } from '../../src/core/secret.ts'
import type { TlsOptions, Transport } from '../../src/contracts/platform.ts'
import type { Clock } from '../../src/core/clock.ts'
import { openTransport } from '../../src/platform/transport.ts'
import { ObjectDispatcher } from '../../src/delivery/objects.ts'
import { sinkKinds } from '../../src/sinks/index.ts'
import { FakeS3, s3Transport } from '../fakes/s3.ts'
import { openS3Server, type S3Listener } from '../fakes/s3-server.ts'
import { sinkDeps, StepClock } from '../fakes/sink-deps.ts'
import type { DeliveryBench } from './delivery.contract.ts'
import type { Secured, Shown } from './tls.contract.ts'
import type { Parts, Start } from './rig.ts'

const NAME = 'archive'
const idOf = (line: string) => (JSON.parse(line) as { id: string }).id

/** No time passes while a step is at work: compressing and signing take turns that are none of the clock's. */
class WorkingClock extends StepClock {
  #working = 0
  #slow = 0

  override advance(): boolean {
    return this.#working > this.#slow || super.advance()
  }

  /** Like a server that answers slowly. */
  readonly serverSide: Clock = {
    now: () => this.now(),
    elapsed: () => this.elapsed(),
    sleep: async (ms, signal) => {
      this.#slow++
      await this.sleep(ms, signal).finally(() => this.#slow--)
    },
  }

  at<T>(work: () => Promise<T>): Promise<T> {
    this.#working++
    return work().finally(() => this.#working--)
  }
}

interface Opening {
  readonly more: object
  readonly send: () => Transport
  /** the current content of the key's file */
  readonly key?: () => string
}

function starting(
  { more, send, key = () => 'AK' }: Opening,
  clock = new WorkingClock(),
  deps = sinkDeps({ clock }),
): Start {
  const base = {
    bucket: 'logs',
    endpoint: 'https://s3.test',
    force_path_style: true,
    rotate: { max_age: '1s' },
  }
  return (parts: Parts) => {
    const keys = { access_key_id: key(), secret_access_key: 'planted-secret' }
    const options = sinkKinds.s3.options.parse({ ...base, ...keys, ...more })
    const own = options.access_key_id as Secret
    own.follow(key)
    const sink = sinkKinds.s3.open(NAME, options, { ...deps, transport: send })
    const dispatcher = new ObjectDispatcher({ ...parts, sink, lookAgainMs: Infinity })
    return { sink, stepper: { step: (signal) => clock.at(() => dispatcher.step(signal)) } }
  }
}

export function s3Bench(more: object = {}): DeliveryBench {
  const fake = new FakeS3({ keys: ['AK'] })
  const clock = new WorkingClock()
  const deps = sinkDeps({ clock })
  let key = 'AK'
  const fault = (each: FakeS3['faults'][number]) => () => void fake.faults.push(each)
  return {
    name: NAME,
    start: starting({ more, send: () => s3Transport(fake, clock.serverSide), key: () => key }, clock, deps),
    clock,
    received: () => fake.lines.map(idOf),
    down: () => (fake.faultOfAll = () => ({ kind: 'reset' })),
    up: () => (fake.faultOfAll = undefined),
    answers: {
      lost: fault({ kind: 'reset', stores: true }),
      slow: fault({ kind: 'slow', ms: 3_600_000 }),
      endless: fault({ kind: 'endless', stores: true }),
      'of a wrong type': fault({ kind: 'html', stores: true }),
      nonsense: fault({ kind: 'code', status: 500, code: '<>', stores: true }),
    },
    stall: fault({ kind: 'slow', ms: 3_600_000 }),
    key: {
      revoke: () => (fake.switches.keys = []),
      renew: () => {
        key = 'AK2'
        fake.switches.keys = ['AK2']
      },
    },
    secured: securedBucket,
    leftOpen: () => clock.sleeping + deps.disk.openFiles,
  }
}

const securedBucket: Secured = async (shown: Shown, tls: TlsOptions) => {
  const fake = new FakeS3()
  let server: S3Listener = await openS3Server(fake, shown)
  const { url } = server
  const transport = openTransport({ tls })
  const start = starting({ more: { endpoint: url, tls }, send: () => transport.send })
  return {
    // No loop is behind this one: what is open is closed by the next step.
    start: (parts) => start({ ...parts, nothingMoreComes: () => true }),
    received: () => fake.lines.map(idOf),
    show: async (other) => {
      await server.close()
      server = await openS3Server(fake, other, Number(new URL(url).port))
    },
    close: async () => {
      await transport.close()
      await server.close()
    },
  }
}
