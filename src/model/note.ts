// What is remembered under a name, beside entries and cursors.

export interface Note {
  readonly name: string
  readonly value: string
}

export interface NoteChange {
  readonly drop: readonly string[]
  readonly put: readonly Note[]
}
