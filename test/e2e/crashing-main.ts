// The daemon, which kills itself with SIGKILL at the nth time it reaches a named step: node crashing.js <config> <step> <nth>.
import { openApp } from '../../src/app/app.ts'
import type { Environment } from '../../src/app/environment.ts'
import { references } from '../../src/cli/shared/config-file.ts'
import { realEnvironment } from '../../src/cli/shared/environment.ts'
import { loadConfig } from '../../src/config/load.ts'
import { Shards } from '../../src/app/process.ts'
import { postgresSettings } from '../../src/cli/shared/postgres.ts'
import { randomDigits } from '../../src/core/clock.ts'
import { PostgresStore } from '../../src/journal/postgres/open.ts'
import { Replicas } from '../../src/journal/postgres/replicas.ts'
import { openJournal } from '../../src/journal/sqlite/open.ts'
import type { DiskFile, Transport } from '../../src/contracts/platform.ts'
import type { Journal } from '../../src/contracts/journal.ts'
import { withMethods } from '../fakes/with-methods.ts'
import type { CrashStep } from './steps.ts'

const [configPath = '', step = '', nth = '1'] = process.argv.slice(2)
let left = Number(nth)

function reached(name: CrashStep): boolean {
  return name === step && --left === 0
}

function die(): void {
  process.kill(process.pid, 'SIGKILL')
}

function at(name: CrashStep): void {
  if (reached(name)) die()
}

function mortalTransport(send: Transport): Transport {
  return async (request, signal) => {
    const api = request.url.includes('/api/')
    const history = request.url.includes('/history/')
    // The answer takes longer than this: the request is out, and its answer never arrives.
    if (api && reached('request sent')) setTimeout(die, 10)
    const reply = await send(request, signal)
    if (!api) at('HEC answered, not settled')
    return history ? { ...reply, body: mortalBody(reply.body) } : reply
  }
}

async function* mortalBody(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  for await (const chunk of body) {
    yield chunk.subarray(0, chunk.length >> 1)
    at('history answer half read')
    yield chunk.subarray(chunk.length >> 1)
  }
}

function mortalFile(file: DiskFile): DiskFile {
  return {
    identity: () => file.identity(),
    isNamed: () => file.isNamed(),
    size: () => file.size(),
    read: (offset, length) => file.read(offset, length),
    write: async (bytes, offset) => {
      if (reached('file half written')) {
        await file.write(bytes.subarray(0, bytes.length >> 1), offset)
        die()
      }
      await file.write(bytes, offset)
    },
    truncate: (size) => file.truncate(size),
    sync: async () => {
      at('file written, not synced')
      await file.sync()
      at('file synced, not settled')
    },
    close: () => file.close(),
  }
}

function mortalJournal(journal: Journal): Journal {
  return withMethods(journal, {
    append: async (part) => {
      at('page read, not appended')
      const appended = await journal.append(part)
      at('page appended')
      const { source } = part.stream
      if (source.startsWith('history.') && part.cursor === undefined) at('history part appended')
      if (source === 'vault.projects') at('vault page appended')
      return appended
    },
    resend: async (again) => {
      at('page read again, not kept')
      await journal.resend(again)
      at('page read again, kept')
    },
    recordInFlight: async (sink, inFlight) => {
      await journal.recordInFlight(sink, inFlight)
      at('intent written')
    },
    ack: async (sink, acknowledgement) => {
      await journal.ack(sink, acknowledgement)
      if (acknowledgement.next) at('intent written')
      at('batch settled')
    },
  })
}

const context = {
  env: process.env,
  version: '0.0.0-crashing',
  pid: process.pid,
  stdout: () => undefined,
  stderr: () => undefined,
  print: () => Promise.resolve(),
  signal: new AbortController().signal,
}
const config = loadConfig(configPath, references(context))
const real = realEnvironment(config, context)
const environment: Environment = {
  ...real,
  disk: { ...real.disk, open: async (path) => mortalFile(await real.disk.open(path)) },
  network: (to, tls) => {
    const network = real.network(to, tls)
    return { send: mortalTransport(network.send), close: () => network.close() }
  },
}
const { postgres } = config.journal
if (postgres) {
  const { clock, log, random } = environment
  const holder = randomDigits(random, 6)
  const { schema, lease: termMs } = postgres
  const database = { settings: postgresSettings(postgres), schema, holder, termMs, clock }
  const [store, replicas] = [new PostgresStore({ ...database, log }), new Replicas(database)]
  const shards = new Shards({
    ...{ config, environment, replicas, shards: postgres.shards },
    store: {
      async acquire(shard, options) {
        const journal = await store.acquire(shard, options)
        return journal && mortalJournal(journal)
      },
    },
    answer: () => Promise.reject(new Error('there is no other replica')),
  })
  await Promise.race([shards.run(), replicas.live()])
} else {
  const app = await openApp(config, environment, { once: false }, async (options) =>
    mortalJournal(await openJournal(options)),
  )
  await app.run()
}
