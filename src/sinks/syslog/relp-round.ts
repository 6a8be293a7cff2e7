// What went out together in one RELP session, and what was answered to each piece of it.
import type { Command } from './relp-frame.ts'

export class Round {
  readonly first: number
  readonly datas: readonly Uint8Array[]
  readonly command: Command
  /** 0: not answered */
  readonly codes: Uint16Array
  sent = 0
  answered = 0
  /** `answered` when the receiver was last heard */
  heard = 0
  /** `answered` when something was last written */
  carried = 0
  /** how much of the last frame is written: it counts as sent when all of it is */
  lastBytes = 0
  /** nothing more is to be sent: only what is under way is waited for */
  halted = false
  /** data of the last answer, of all but `syslog` */
  said: Uint8Array = new Uint8Array(0)
  #wake: () => void = () => undefined

  constructor(first: number, command: Command, datas: readonly Uint8Array[]) {
    this.first = first
    this.command = command
    this.datas = datas
    this.codes = new Uint16Array(datas.length)
  }

  get open(): number {
    return this.sent - this.answered
  }

  get whole(): boolean {
    return this.answered === (this.halted && this.lastBytes === 0 ? this.sent : this.datas.length)
  }

  change(): Promise<void> {
    return new Promise((resolve) => (this.#wake = resolve))
  }

  wake(): void {
    this.#wake()
  }
}
