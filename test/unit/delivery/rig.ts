// A journal with entries in it, and dispatchers with scripted sinks.
import type { Journal, ChunkSlice } from '../../../src/contracts/journal.ts'
import type { MemoryBudget } from '../../../src/core/memory-budget.ts'
import { BatchDispatcher } from '../../../src/delivery/dispatcher.ts'
import type { StepResult } from '../../../src/delivery/loop.ts'
import type { BatchLimits } from '../../../src/delivery/loader.ts'
import type { DispatcherOptions } from '../../../src/delivery/dispatcher.ts'
import { part, spec } from '../../contract/journal-parts.ts'
import type { EntrySpec } from '../../contract/journal-parts.ts'
import { journalOfTest } from '../../fakes/journal.ts'
import { rawFormat } from '../../fakes/lines.ts'
import { Share } from '../../fakes/share.ts'
import { FakeSink } from '../../fakes/sink.ts'
import { LogLines } from '../../fakes/sink-deps.ts'
import { SinkNotes } from '../../fakes/reporters.ts'
import { settled, VirtualClock } from '../../simulation/virtual-clock.ts'

export const START = Date.UTC(2026, 10, 17, 10)
export const never = new AbortController().signal

export interface SinkRig {
  readonly sink: FakeSink
  readonly options: DispatcherOptions
  readonly reporter: SinkNotes
  /** its share in the current process */
  memory: MemoryBudget
  /** the memory budget around that, which others use too */
  around: MemoryBudget
  dispatcher: BatchDispatcher
  /** One step. */
  step(): Promise<StepResult>
  /** Steps until there is nothing to send. */
  empty(): Promise<void>
  /** The process dies and restarts, perhaps with other settings. */
  restart(changed?: Partial<DispatcherOptions>): void
}

export interface Rig {
  readonly clock: VirtualClock
  readonly journal: Journal
  readonly log: LogLines
  sinkRig(name?: string, more?: Partial<DispatcherOptions> & { batch?: Partial<BatchLimits> }): SinkRig
  /** Entries `from`, `from + 1`, … as one page. */
  append(count: number, rest?: Partial<EntrySpec>): Promise<void>
}

export async function openRig(sinks: readonly string[] = ['archive'], maxBytes = 2 ** 30): Promise<Rig> {
  const clock = new VirtualClock(START)
  const log = new LogLines()
  const journal = await journalOfTest({ clock, log, sinks, maxBytes, keepKeysMs: 1e12 })
  let made = 0
  return {
    clock,
    journal,
    log,
    append: async (count, rest = {}) => {
      await journal.append(part(Array.from({ length: count }, () => spec(++made, rest))))
    },
    sinkRig: (name = 'archive', { batch = {}, ...more } = {}) => {
      const sink = new FakeSink(name)
      sink.now = () => clock.now()
      const reporter = new SinkNotes()
      const share = new Share()
      const options: DispatcherOptions = {
        sink,
        journal,
        format: rawFormat,
        limits: { maxEntries: 1000, maxBytes: 2 ** 20, lingerMs: 0, ...batch },
        wanted: ({ onlySink }: ChunkSlice) => onlySink === undefined || onlySink === name,
        shape: 'one',
        reporter,
        log,
        clock,
        random: () => 0.5,
        memory: share,
        nothingMoreComes: () => false,
        lookAgainMs: Infinity,
        ...more,
      }
      return moored(sink, options, reporter, share.around)
    },
  }
}

function moored(
  sink: FakeSink,
  options: DispatcherOptions,
  reporter: SinkNotes,
  around: MemoryBudget,
): SinkRig {
  const sinkRig: SinkRig = {
    sink,
    options,
    reporter,
    memory: options.memory,
    around,
    dispatcher: new BatchDispatcher(options),
    step: () => sinkRig.dispatcher.step(never),
    empty: async () => {
      for (let i = 0; i < 10_000; i++) if (typeof (await sinkRig.step()) === 'number') return
      throw new Error('this goes in circles')
    },
    restart: (changed = {}) => {
      const share = new Share()
      sinkRig.around = share.around
      sinkRig.memory = changed.memory ?? share
      sinkRig.dispatcher = new BatchDispatcher({ ...options, memory: sinkRig.memory, ...changed })
    },
  }
  return sinkRig
}

/** Lets work that waits for its own turn of the event loop go on, and everything that follows from it. */
export async function nextTurn({ clock }: Rig): Promise<void> {
  await settled()
  clock.advance(clock.now())
}

/** `from`, `from + 1`, … `to`. */
export function range(from: number, to: number): number[] {
  return Array.from({ length: to - from + 1 }, (_, i) => from + i)
}
