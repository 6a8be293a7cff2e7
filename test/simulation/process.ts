// One life of the daemon in the simulation: production code whose every step into the environment may be its last.
import { openApp } from '../../src/app/app.ts'
import type { App } from '../../src/app/app.ts'
import type { Mode } from '../../src/app/access.ts'
import type { Environment } from '../../src/app/environment.ts'
import type { Config } from '../../src/config/schema.ts'
import { gzip } from '../../src/platform/gzip/gzip.ts'
import { openJournal } from '../../src/journal/sqlite/open.ts'
import type { JournalOptions } from '../../src/journal/sqlite/open.ts'
import type { Clock, Random } from '../../src/core/clock.ts'
import type { Disk, DiskFile, Transport } from '../../src/contracts/platform.ts'
import type { Append, Journal, Acknowledgement, State } from '../../src/contracts/journal.ts'
import type { Log } from '../../src/core/log.ts'

/** Where a life has its journal. */
export interface LifeJournal {
  open(options: JournalOptions, life: Life): Promise<Journal>
  /** Each call goes through it: no virtual time passes while a database works. */
  counted<T>(work: () => Promise<T>): Promise<T>
  /** A call that changes the journal has succeeded. */
  changed(life: Life, call: string): void
  /** The process is gone: all that it had open ends silently. */
  end(): Promise<void>
}

/** Every life finds the file as the last one left it. */
function fileJournal(): LifeJournal {
  let journal: Journal | undefined
  return {
    open: async (options) => (journal = await openJournal(options)),
    counted: (work) => work(),
    changed: () => undefined,
    end: async () => journal?.close(),
  }
}

export interface Surroundings {
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
  readonly disk: Disk
  readonly transport: Transport
  readonly print: (bytes: Uint8Array) => Promise<void>
  /** How many chunks of history answers one life receives. */
  readonly fatalChunk: number
  /** Called with each acknowledgement before it lands. */
  readonly settling: (journal: Journal, sink: string, acknowledgement: Acknowledgement) => void
  /** absent: a file */
  readonly journal?: LifeJournal
  /** absent: the only one, with a file */
  readonly shard?: NonNullable<Mode['shard']>
}

const never = () => new Promise<never>(() => undefined)

/** Counts steps into the environment; at the fatal one everything stops forever. */
export class Life {
  steps = 0
  dead = false
  /** Another process has its shard: nothing that it writes may land. */
  superseded = false
  chunks = 0
  readonly #fatalStep: number
  readonly #fatalChunk: number
  #notesLeft = 0
  #frozen: PromiseWithResolvers<void> | undefined
  #stepsToFreeze = 0
  #freezes: () => void = () => undefined
  readonly #die: () => void

  constructor(fatalStep: number, fatalChunk: number, die: () => void) {
    this.#fatalStep = fatalStep
    this.#fatalChunk = fatalChunk
    this.#die = die
  }

  step(): Promise<void> | undefined {
    if (this.dead) return never()
    if (++this.steps === this.#fatalStep) return this.#end()
    if (--this.#stepsToFreeze === 0) {
      this.#frozen ??= Promise.withResolvers()
      this.#freezes()
    }
    return this.#frozen?.promise
  }

  /** From that step on it takes no further one until it thaws, and notices nothing. */
  freeze(steps: number, freezes: () => void): void {
    this.#stepsToFreeze = steps
    this.#freezes = freezes
  }

  thaw(): void {
    this.#frozen?.resolve()
    this.#frozen = undefined
  }

  /** Ends when so many more state entries of jobs have landed: right behind the last of them. */
  doom(notes: number): void {
    this.#notesLeft = notes
  }

  noted(): Promise<void> | undefined {
    return --this.#notesLeft === 0 && !this.dead ? this.#end() : undefined
  }

  /** One more chunk of a history answer has come. */
  chunk(): Promise<void> | undefined {
    return ++this.chunks === this.#fatalChunk && !this.dead ? this.#end() : undefined
  }

  #end(): Promise<never> {
    this.dead = true
    this.#die()
    return never()
  }

  /** The call happens or it does not; its result may never arrive. */
  guard<A extends unknown[], R>(call: (...args: A) => Promise<R>): (...args: A) => Promise<R> {
    return async (...args) => {
      await this.step()
      try {
        return await call(...args)
      } finally {
        await this.step()
      }
    }
  }
}

function mortalDisk(disk: Disk, life: Life): Disk {
  const mortalFile = (file: DiskFile): DiskFile => ({
    identity: life.guard(() => file.identity()),
    isNamed: life.guard(() => file.isNamed()),
    size: life.guard(() => file.size()),
    read: life.guard((offset, length) => file.read(offset, length)),
    write: life.guard((bytes, offset) => file.write(bytes, offset)),
    truncate: life.guard((size) => file.truncate(size)),
    sync: life.guard(() => file.sync()),
    close: life.guard(() => file.close()),
  })
  return {
    open: life.guard(async (path) => mortalFile(await disk.open(path))),
    openNew: life.guard(async (path) => mortalFile(await disk.openNew(path))),
    openToRead: life.guard(async (path) => mortalFile(await disk.openToRead(path))),
    exists: life.guard((path) => disk.exists(path)),
    look: life.guard((path) => disk.look(path)),
    list: life.guard((folder) => disk.list(folder)),
    rename: life.guard((from, to) => disk.rename(from, to)),
    remove: life.guard((path) => disk.remove(path)),
    syncFolder: life.guard((folder) => disk.syncFolder(folder)),
  }
}

function mortalTransport(transport: Transport, life: Life): Transport {
  return life.guard(async (request, signal) => {
    const reply = await transport(request, signal)
    const isHistory = /\/api\/v\d\/history\//.test(request.url)
    return { ...reply, body: mortalBody(reply.body, life, isHistory) }
  })
}

async function* mortalBody(
  body: AsyncIterable<Uint8Array>,
  life: Life,
  isHistory: boolean,
): AsyncGenerator<Uint8Array> {
  for await (const chunk of body) {
    await life.step()
    if (isHistory) await life.chunk()
    yield chunk
  }
}

/** The progress of a backfill or a replay, alone or with its entries. */
function isOfPast(name: keyof Journal | keyof State, given: unknown): boolean {
  // With the page, made of its outcome.
  if (name === 'append') return typeof (given as Append).state === 'function'
  if (name === 'put') return /^(backfill|replay)/.test(String(given))
  return name === 'resend' || name === 'change'
}

function mortalState(state: State, life: Life, around: LifeJournal): State {
  return new Proxy(state, {
    get(target, name: keyof State) {
      if (name === 'scope') return (scope: string) => mortalState(target.scope(scope), life, around)
      if (name === 'entry') return target.entry.bind(target)
      return mortalMethod(target, name, life, around)
    },
  })
}

const isChange = (name: string) =>
  /^(append|ack|recordInFlight|resend|replay|put|putIfAbsent|change|compareAndSet)$/.test(name)

function mortalMethod<T extends Journal | State>(
  target: T,
  name: keyof T & (keyof Journal | keyof State),
  life: Life,
  around: LifeJournal,
) {
  const call = target[name] as (...args: unknown[]) => Promise<unknown>
  // It waits for other calls, not for the database.
  const counted =
    name === 'arrival'
      ? (work: () => Promise<unknown>) => work()
      : <T>(work: () => Promise<T>) => around.counted(work)
  return life.guard(async (...args: unknown[]) => {
    const wasSuperseded = life.superseded
    const answer: unknown = await counted(() => call.apply(target, args))
    if (wasSuperseded && isChange(name)) around.changed(life, name)
    if (isOfPast(name, args[0])) await life.noted()
    return answer
  })
}

/** Every method of the journal is a step; its file is closed at death, as the kernel would. */
function mortalJournal(
  journal: Journal,
  life: Life,
  around: LifeJournal,
  settling: Surroundings['settling'],
): Journal {
  return new Proxy(journal, {
    get(target, name: keyof Journal) {
      if (name === 'state') return mortalState(target.state, life, around)
      if (name === 'leaseEnd') return target.leaseEnd
      // Not a promise, and not to be taken for one.
      if (typeof target[name] !== 'function') return undefined
      if (name === 'stats' || name === 'pressure') return () => target[name]()
      // Its file is never moved away here; looking for that every few seconds would be half of all events.
      if (name === 'lost') return never
      if (name === 'ack')
        return life.guard((...args: Parameters<Journal['ack']>) => {
          settling(target, ...args)
          const landed = around.counted(() => target.ack(...args))
          if (life.superseded) landed.then(() => around.changed(life, name), () => undefined) // prettier-ignore
          return landed
        })
      return mortalMethod(target, name, life, around)
    },
  })
}

export interface Process {
  readonly app: App
  readonly life: Life
  /** what must stop the process, if anything did */
  readonly failed: () => unknown
  /** The process is gone: its journal is closed silently. */
  bury(): Promise<void>
}

/** Starts the daemon; it dies at its `fatalStep`th step into the environment. Undefined: it died while it started. */
export async function startProcess(
  config: Config,
  around: Surroundings,
  once: boolean,
  fatalStep: number,
): Promise<Process | { buried: Promise<void> }> {
  let died: () => void = () => undefined
  const death = new Promise<void>((resolve) => {
    died = resolve
  })
  const { clock, random, log, disk, transport, print, settling, fatalChunk, shard } = around
  const own = around.journal ?? fileJournal()
  const life = new Life(fatalStep, fatalChunk, () => died())
  const outside: Environment = {
    version: '0.0.0-simulated',
    clock: {
      now: () => clock.now(),
      elapsed: () => clock.elapsed(),
      sleep: life.guard((ms, signal) => clock.sleep(ms, signal)),
    },
    random,
    log,
    disk: mortalDisk(disk, life),
    network: () => ({ send: mortalTransport(transport, life), close: () => Promise.resolve() }),
    // No sink of the simulation uses a stream or datagrams.
    ...{ connect: never, datagrams: never },
    print: life.guard(print),
    gzip: life.guard(gzip),
  }
  const mode = { once, ...(shard ? { shard } : {}) }
  const opened = openApp(config, outside, mode, async (options) =>
    mortalJournal(await own.open(options, life), life, own, settling),
  )
  const bury = async () => {
    life.dead = true
    await own.end()
  }
  const app = await Promise.race([opened, death])
  if (!app) return { buried: bury() }
  let failure: unknown
  app.run().catch((error: unknown) => {
    failure = error
  })
  return { app, life, failed: () => failure, bury }
}
