// A journal, a sink and the dispatcher between them, on a clock that the test drives: the base of the delivery cases.
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { openRegistered } from '../fakes/registered.ts'
import type { Clock } from '../../src/core/clock.ts'
import type { Journal } from '../../src/contracts/journal.ts'
import type { DeadLetter } from '../../src/contracts/records.ts'
import type { Assurance } from '../../src/contracts/sink.ts'
import { runDispatcher } from '../../src/delivery/loop.ts'
import type { Dispatcher } from '../../src/delivery/loop.ts'
import type { BatchLimits } from '../../src/delivery/loader.ts'
import type { DispatcherOptions } from '../../src/delivery/dispatcher.ts'
import { rawFormat } from '../fakes/lines.ts'
import { Share } from '../fakes/share.ts'
import { LogLines, StepClock } from '../fakes/sink-deps.ts'
import { SinkNotes } from '../fakes/reporters.ts'
import { part, spec } from './journal-parts.ts'
import { withMethods } from '../fakes/with-methods.ts'

/** In real time: a case that takes longer goes in circles. */
const PATIENCE_MS = 15_000

/** All that delivery needs beside the sink itself. */
export type Parts = Omit<DispatcherOptions, 'sink'> & { readonly journal: Journal }

interface Started {
  readonly sink: { readonly name: string; readonly assurance: Assurance; close(): Promise<void> }
  readonly stepper: Dispatcher
}

export type Start = (parts: Parts) => Started

export interface Rig {
  readonly reporter: SinkNotes
  readonly assurance: Assurance
  /** `count` more entries, numbered on from 1, as one page. */
  append(count: number): Promise<void>
  /** Starts a process with its loop. */
  sail(): void
  /** Starts one that dies when it is about to acknowledge; true once it did. */
  sailUntilSettling(): () => boolean
  /** Stops the loop and closes the sink, in order. */
  stop(): Promise<void>
  /** Time continues from one sleeper to the next until it is so. */
  until(condition: () => boolean): Promise<void>
  /** So much time passes. */
  pass(ms: number): Promise<void>
  /** So many turns of the event loop; no time passes. */
  turns(count: number): Promise<void>
  now(): number
  pending(): number
  usedBytes(): number
  deadLetters(): Promise<readonly DeadLetter[]>
}

const turn = () => new Promise<void>((resolve) => void setImmediate(resolve))

async function openTemporary(sink: string, clock: Clock, log: LogLines): Promise<Journal> {
  const folder = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'auditferry-quay-'))
  const bounds = { maxBytes: 2 ** 30, keepKeysMs: 1e12, keepDeliveredBytes: 0, ballastBytes: 0 }
  const journal = await openRegistered({
    path: join(folder, 'journal.db'),
    ...bounds,
    sinks: [sink],
    clock,
    log,
  })
  onTestFinished(async () => {
    await journal.close()
    rmSync(folder, { recursive: true, force: true })
  })
  return journal
}

/** The same journal for a process that never learns of its acknowledgement, nor records it. */
function deadly(journal: Journal, died: () => void): Journal {
  return withMethods(journal, {
    ack: () => {
      died()
      return new Promise(() => undefined)
    },
  })
}

/** A journal that knows this sink, and the parts of a process that delivers from it. */
export async function openParts(
  sink: string,
  clock: Clock,
  limits: Partial<BatchLimits>,
): Promise<Parts & { reporter: SinkNotes }> {
  const log = new LogLines()
  return {
    journal: await openTemporary(sink, clock, log),
    format: rawFormat,
    limits: { maxEntries: 1000, maxBytes: 2 ** 20, lingerMs: 0, ...limits },
    wanted: ({ onlySink }) => onlySink === undefined || onlySink === sink,
    shape: 'one',
    reporter: new SinkNotes(),
    log,
    clock,
    random: () => 0.5,
    memory: new Share(),
    nothingMoreComes: () => false,
    lookAgainMs: Infinity,
  }
}

export async function openRig(
  bench: { readonly name: string; readonly start: Start; readonly clock?: StepClock | undefined },
  limits: Partial<BatchLimits>,
): Promise<Rig> {
  const clock = bench.clock ?? new StepClock()
  const parts = await openParts(bench.name, clock, limits)
  const { journal, reporter } = parts
  let memory = new Share()
  let running: { started: Started; stopping: AbortController; loop: Promise<void> } | undefined
  let assurance: Assurance = 'sent'
  let made = 0
  /** what must stop a process */
  let failure: unknown

  const begin = (through: Journal) => {
    memory = new Share()
    const own = { ...parts, journal: through, memory }
    const started = bench.start(own)
    assurance = started.sink.assurance
    const stopping = new AbortController()
    const loop = runDispatcher(started.stepper, { ...own, sink: started.sink }, stopping.signal)
    loop.catch((error: unknown) => (failure = error))
    return { started, stopping, loop }
  }
  const stop = async () => {
    const ended = running
    running = undefined
    ended?.stopping.abort()
    await ended?.loop
    await ended?.started.sink.close()
  }
  const drive = async (done: () => boolean) => {
    const deadline = performance.now() + PATIENCE_MS
    for (;;) {
      await turn()
      await turn()
      if (failure !== undefined) throw failure as Error
      if (done()) return
      clock.advance()
      if (performance.now() > deadline) throw new Error('this goes in circles')
    }
  }
  onTestFinished(stop)
  return {
    reporter,
    get assurance() {
      return assurance
    },
    append: async (count) => {
      await journal.append(part(Array.from({ length: count }, () => spec(++made))))
    },
    sail: () => {
      running = begin(journal)
    },
    sailUntilSettling: () => {
      let dead = false
      begin(deadly(journal, () => (dead = true)))
      return () => dead
    },
    stop,
    until: drive,
    pass: async (ms) => {
      const end = clock.now() + ms
      await drive(() => clock.now() >= end)
    },
    turns: async (count) => {
      for (let i = 0; i < count; i++) await turn()
    },
    now: () => clock.now(),
    pending: () => journal.stats().entries,
    usedBytes: () => memory.usedBytes,
    deadLetters: () => journal.deadLetters({}),
  }
}
