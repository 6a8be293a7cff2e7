// The world as the daemon may touch it, and what all of its parts share.
import type { Budgets } from './budgets.ts'
import type { Config } from './config/schema.ts'
import type { Clock, Random } from './model/clock.ts'
import type { Disk } from './model/disk.ts'
import type { Transport } from './model/http.ts'
import type { Journal } from './model/journal.ts'
import type { Log } from './model/log.ts'
import type { Room } from './model/room.ts'
import type { Connect, OpenDatagrams, TlsOptions } from './model/socket.ts'
import type { Tracing } from './model/trace.ts'
import type { Board } from './ops/board.ts'
import type { Taps } from './ops/taps.ts'

export interface Network {
  readonly send: Transport
  close(): Promise<void>
}

export interface Outside {
  readonly version: string
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
  readonly disk: Disk
  /** A workspace has no `tls` keys: what it is told of a certificate names what is set around the process. */
  network(to: 'api' | 'sink', tls?: TlsOptions): Network
  readonly connect: Connect
  readonly datagrams: OpenDatagrams
  print(bytes: Uint8Array): Promise<void>
  /** From outside as all that takes a while: the process may end in the middle. */
  gzip(bytes: Uint8Array): Promise<Uint8Array>
  /** Absent: nobody looks, and nothing is put in between. */
  readonly tracing?: Tracing | undefined
}

export interface Mode {
  /** read what is there now, deliver it, be done */
  readonly once: boolean
  /** epoch ms at which the process started, where another configuration ran before; absent: now */
  readonly startedAt?: number
  /** it is opened to ask for the past alone, and never run */
  readonly pastAlone?: boolean
}

export interface Shared {
  readonly config: Config
  readonly outside: Outside
  readonly mode: Mode
  readonly journal: Journal
  readonly board: Board
  readonly instance: string
  readonly taps: Taps
}

export interface SharedToRead extends Shared {
  /** the readers' part of the process's room */
  readonly room: Room
  /** the part of that in which answers may stream for hours */
  readonly longRoom: Room
  /** the part of that in which the past is read */
  readonly pastRoom: Room
  readonly budgets: Budgets
}

export interface SharedToShip extends Shared {
  /** the share of this sink alone */
  readonly room: Room
}
