// What the parts of the daemon share, beside what each is built of.
import type { Budgets } from './budgets.ts'
import type { Config } from './config/schema.ts'
import type { Journal } from './model/journal.ts'
import type { KeyWaits } from './model/key-waits.ts'
import type { Room } from './model/room.ts'
import type { Board } from './ops/board.ts'
import type { Taps } from './ops/taps.ts'
import type { Outside } from './outside.ts'

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
  /** of all workspaces: several may have one key */
  readonly keyWaits: KeyWaits
}

export interface SharedToShip extends Shared {
  /** the share of this sink alone */
  readonly room: Room
}
