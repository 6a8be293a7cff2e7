// What a switch of the mock is: its values, its default, and what it says of itself. Each area keeps a table of its own.

export interface SwitchSpec {
  /** the words allowed, or what is read from text: a whole number, or a duration (held in ms) */
  readonly values: readonly string[] | 'number' | 'duration'
  readonly default: string | number
  readonly says: string
}

export type SwitchTable = Readonly<Record<string, SwitchSpec>>
