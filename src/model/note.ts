// What is remembered under a name, beside entries and cursors.

/** A small fact of another room. Names are plain ASCII. */
export interface Note {
  readonly name: string
  readonly value: string
}

export interface NoteChange {
  readonly drop: readonly string[]
  readonly put: readonly Note[]
}
