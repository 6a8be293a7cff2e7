// Declaration of a sink type: its options schema and the function that opens it. All types are
// listed in sinks/index.ts.
import type { z } from 'zod'
import type { Clock, Random } from '../core/clock.ts'
import type { Connect, Disk, OpenDatagrams, TlsOptions, Transport } from './platform.ts'
import type { Log } from '../core/log.ts'
import type { Assurance, ObjectSink, Sink } from './sink.ts'

export const sinkWarnings = ['file_removed', 'file_cut'] as const
export type SinkWarning = (typeof sinkWarnings)[number]

/** The environment as a sink sees it. */
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
  /** Called for each certificate: which, and when it expires (epoch ms). Absent: not counted. */
  readonly certificateEnds?: (which: string, endsAt: number) => void
  /**
   * Warning for a person, shown for a day, across restarts; a later one of the same code replaces
   * it. Absent: not reported.
   */
  readonly warn?: (code: SinkWarning, message: string) => void
  /** Small facts of the sink, kept for the next process. Absent: not stored. */
  readonly state?: {
    get(name: string): Promise<string | undefined>
    put(name: string, value: string): Promise<void>
  }
  /** Where `stdout` writes; resolves when the bytes were accepted. */
  print(bytes: Uint8Array): Promise<void>
  readonly gzip: (bytes: Uint8Array) => Promise<Uint8Array>
  /** Host of a workspace's base_url: the default of HEC's `host`. */
  hostOf(workspace: string): string
  /** For data that the sink can recreate: next to the journal, writable and with space. */
  readonly spoolFolder: string
}

export interface NamedFile {
  readonly field: string
  readonly path: string
  /**
   * What is wrong with the file's text, without quoting it; undefined: nothing. `read` returns the
   * text of another file, or throws.
   */
  readonly fault?: (text: string, read: (path: string) => string) => string | undefined
  /**
   * Set for a file that is written to and rotated: it is renamed to `path.1` up to this number,
   * replacing existing files.
   */
  readonly rotatedTo?: number
}

/** A key that has no effect, or an unexpected one, in combination with the others, and why. */
interface IdleKey {
  readonly field: string
  readonly why: string
}

export interface Destination {
  readonly field: string
  /** as text, for messages */
  readonly name: string
}

export interface SinkKind<Schema extends z.ZodType, Opened extends Sink | ObjectSink = Sink> {
  /** Strict: unknown keys are rejected. Only this type's keys; common keys belong to config. */
  readonly options: Schema
  /** Same value as in the opened sink. */
  assurance(options: z.output<Schema>): Assurance
  /** How long an object stays open at most, ms. Absent: batches, which wait for `batch.linger`. */
  maxAgeMs?(options: z.output<Schema>): number
  /** Whether its frame or object names mark replayed lines, for any format. Absent: no. */
  marksReplay?(options: z.output<Schema>): boolean
  /** Hosts, files or the bucket that it delivers to, for the log; none if the type says it all. */
  to(options: z.output<Schema>): readonly string[]
  /** Receivers, for the rule on plain http. */
  urls?(options: z.output<Schema>): readonly string[]
  /** Files that must be readable, each with the field that names it, such as `tls.ca_file`. */
  files?(options: z.output<Schema>): readonly NamedFile[]
  /** Files that only this sink may write to: two sinks that share one are an error. */
  outputs?(options: z.output<Schema>): readonly NamedFile[]
  /** Settings worth a warning if they are configured explicitly. */
  idle?(options: z.output<Schema>): readonly IdleKey[]
  /** Where its lines go, with the field that distinguishes it: two sinks with one are an error. */
  destination?(options: z.output<Schema>): Destination
  /**
   * Runs before any sink: removes files that a killed process left in the spool folders under
   * `root`, one per sink, and returns how many. Absent: it leaves none.
   */
  clearSpools?(disk: Disk, root: string): Promise<number>
  /** Does not connect yet. */
  open(name: string, options: z.output<Schema>, deps: SinkDeps): Opened
}
