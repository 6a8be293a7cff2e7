// How a sink is declared: its options' schema beside the function that opens it. The map of all of them is sinks/index.ts.
import type { z } from 'zod'
import type { Clock, Random } from '../core/clock.ts'
import type { Connect, Disk, OpenDatagrams, TlsOptions, Transport } from './platform.ts'
import type { Log } from '../core/log.ts'
import type { Assurance, ObjectSink, Sink } from './sink.ts'

/** The world outside, as a sink may know it. */
export interface SinkDeps {
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
  readonly disk: Disk
  /** A transport of the sink's own, with the TLS material given. */
  transport(tls: TlsOptions | undefined): Transport
  /** A stream of the sink's own. */
  readonly connect: Connect
  readonly datagrams: OpenDatagrams
  /** Told whenever a certificate was seen: which one, and when it ends (epoch ms). Absent: nobody counts. */
  readonly certificateEnds?: (which: string, endsAt: number) => void
  /** The sink's file was removed with what stood in it, in words for a person; undefined: that is over. Absent: nobody listens. */
  readonly fileRemoved?: (message: string | undefined) => void
  /** Likewise, of a file that somebody made shorter. */
  readonly fileCut?: (message: string | undefined) => void
  /** Where the sink's file ended, kept for the next process; '': nothing is. Absent: nobody keeps it. */
  readonly lastEnd?: {
    kept(): Promise<string | undefined>
    keep(end: string): Promise<void>
  }
  /** Where `stdout` writes; resolves when the bytes were taken. */
  print(bytes: Uint8Array): Promise<void>
  readonly gzip: (bytes: Uint8Array) => Promise<Uint8Array>
  /** Host of a workspace's base_url: the default of HEC's `host`. */
  hostOf(workspace: string): string
  /** A folder of the sink's own for what it can make again: beside the journal, where there is room and a right to write. */
  readonly spoolFolder: string
}

export interface NamedFile {
  readonly field: string
  readonly path: string
  /** What is wrong with the file's text, without a word of it; undefined: nothing. `read` gives that of another one, or throws. */
  readonly fault?: (text: string, read: (path: string) => string) => string | undefined
  /** Given for a file that is written to: as it fills it is moved on, to `path.1` and up to so many, over what stands there. */
  readonly rotatedTo?: number
}

/** A key that has no effect beside the others, or hardly the one meant, and why. */
interface IdleKey {
  readonly field: string
  readonly why: string
}

export interface NamedPlace {
  readonly field: string
  /** in words, for messages */
  readonly name: string
}

export interface SinkKind<Schema extends z.ZodType, Opened extends Sink | ObjectSink = Sink> {
  /** strict: unknown keys are refused. Only what is particular to the kind; the common keys are config's. */
  readonly options: Schema
  /** As the opened sink says it. */
  assurance(options: z.output<Schema>): Assurance
  /** How long an object stays open at most, ms. Absent: it takes batches, which wait as long as `batch.linger` says. */
  maxAgeMs?(options: z.output<Schema>): number
  /** Whether its frame, or the name of an object, tells that a line is sent again by a replay, whatever the format. Absent: no. */
  marksReplay?(options: z.output<Schema>): boolean
  /** Hosts, files or the bucket that it delivers to, for the log; none where the type says it all. */
  to(options: z.output<Schema>): readonly string[]
  /** What it talks to, for the rule on plain http. */
  urls?(options: z.output<Schema>): readonly string[]
  /** Files that must be there and readable, each with the field that names it, such as `tls.ca_file`. */
  files?(options: z.output<Schema>): readonly NamedFile[]
  /** Files that this sink alone may write to: two sinks that share one are a fault. */
  outputs?(options: z.output<Schema>): readonly NamedFile[]
  /** What is worth a warning where somebody wrote it. */
  idle?(options: z.output<Schema>): readonly IdleKey[]
  /** Where elsewhere its lines come to lie, with the field that sets it apart: two sinks with one place are a fault. */
  place?(options: z.output<Schema>): NamedPlace
  /**
   * Before any sink runs: removes what a process that was killed left in the spool folders under `root`, one a sink, and says
   * how many files that were. Absent: it leaves none.
   */
  clearSpools?(disk: Disk, root: string): Promise<number>
  /** Connects to nothing yet. */
  open(name: string, options: z.output<Schema>, deps: SinkDeps): Opened
}
