// Texts of a group that do not stand in its bytes as they are meant (written with escapes, or given by us): put behind the bytes when the group closes.
import { decodeString } from './json-string.ts'

interface Text {
  /** of its start in the group's columns */
  readonly column: number
  readonly bytes: Uint8Array
}

export class TextsBehind {
  #texts: Text[] = []
  /** of all of them */
  lengthBytes = 0

  add(column: number, bytes: Uint8Array): void {
    this.#texts.push({ column, bytes })
    this.lengthBytes += bytes.length
  }

  /** A text with half a surrogate pair has no UTF-8: it stays as it is written, so that two of them never become the same. */
  decode(column: number, written: Uint8Array): void {
    const text = decodeString(written)
    if (text.isWellFormed()) this.add(column, Buffer.from(text))
  }

  /** Into the room at the end of the group's slab; the columns point there from now on. Then there are none. */
  place(slab: Uint8Array, columns: Uint32Array): void {
    let at = slab.length - this.lengthBytes
    for (const { column, bytes } of this.#texts) {
      slab.set(bytes, at)
      columns[column] = at
      at += bytes.length
      columns[column + 1] = at
    }
    this.#texts = []
    this.lengthBytes = 0
  }
}
