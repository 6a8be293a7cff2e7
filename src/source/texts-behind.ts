// Texts of a group that do not stand in its bytes as they are meant (written with escapes, or given by us): put behind the bytes when the group closes.
import { allocate } from '../model/large.ts'
import { decodeString } from './json-string.ts'

interface Text {
  /** of its start in the group's columns */
  readonly column: number
  readonly bytes: Uint8Array
}

export class TextsBehind {
  #texts: Text[] = []

  add(column: number, bytes: Uint8Array): void {
    this.#texts.push({ column, bytes })
  }

  /** A text with half a surrogate pair has no UTF-8: it stays as it is written, so that two of them never become the same. */
  decode(column: number, written: Uint8Array): void {
    const text = decodeString(written)
    if (text.isWellFormed()) this.add(column, Buffer.from(text))
  }

  /** The bytes with the texts behind them, to which the columns point from now on; then there are none. `withRoom` as in `EntriesBuilder.close`. */
  place(
    bytes: Uint8Array,
    columns: Uint32Array,
    withRoom: (roomBytes: number) => Uint8Array | undefined,
  ): Uint8Array {
    const texts = this.#texts
    if (texts.length === 0) return bytes
    const roomBytes = texts.reduce((sum, { bytes: text }) => sum + text.length, 0)
    const slab = withRoom(roomBytes) ?? copyWithRoom(bytes, roomBytes)
    let at = slab.length - roomBytes
    for (const { column, bytes: text } of texts) {
      slab.set(text, at)
      columns[column] = at
      at += text.length
      columns[column + 1] = at
    }
    this.#texts = []
    return slab
  }
}

function copyWithRoom(bytes: Uint8Array, roomBytes: number): Uint8Array {
  const copy = allocate(bytes.length + roomBytes)
  copy.set(bytes)
  return copy
}
