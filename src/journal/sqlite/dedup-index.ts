// Dedup index: which entries were never seen before, by source, time and id.
import type { Database, Statement } from 'better-sqlite3'
import type { Entries } from '../../contracts/entries.ts'
import type { SourceName } from '../../contracts/source.ts'
import {
  KEY_BYTES,
  firstsOf,
  hasVersions,
  keyInto,
  newVersions,
  versionOf,
  versionToSend,
} from '../rules/dedup.ts'
import type { NewEntries } from '../rules/dedup.ts'

interface PageKeys {
  /** 16 bytes each */
  readonly ids: Buffer
  readonly firstUs: number
  /** JSON: offsets from `firstUs`, since small numbers are written and read in half the time */
  readonly times: string
}

export class DedupIndex {
  readonly #insertPage: Statement<[number, number, Buffer, string]>
  readonly #knownOfPage: Statement<[string, number, number, Buffer], number>
  readonly #find: Statement<[number, number, Buffer], Buffer>
  readonly #insert: Statement<[number, number, Buffer, Buffer]>
  readonly #update: Statement<[Buffer, number, number, Buffer]>
  #ids: Buffer = Buffer.allocUnsafeSlow(1000 * KEY_BYTES)
  /** Sources whose last page contained known entries: for these, looking first is faster. */
  readonly #rereading = new Set<number>()

  constructor(db: Database) {
    // One statement per page is 2.5 times as fast as one per entry.
    this.#insertPage = db.prepare(
      `INSERT OR IGNORE INTO keys (source, at, id) SELECT ?, ? + value, substr(?, key * ${KEY_BYTES} + 1, ${KEY_BYTES}) FROM json_each(?)`,
    )
    this.#knownOfPage = db
      .prepare<[string, number, number, Buffer], number>(
        `SELECT page.key FROM json_each(?) page CROSS JOIN keys ON keys.source = ? AND keys.at = ? + page.value
         AND keys.id = substr(?, page.key * ${KEY_BYTES} + 1, ${KEY_BYTES})`,
      )
      .pluck()
    this.#find = db
      .prepare<[number, number, Buffer], Buffer>(
        'SELECT content FROM keys WHERE source = ? AND at = ? AND id = ?',
      )
      .pluck()
    this.#insert = db.prepare('INSERT INTO keys (source, at, id, content) VALUES (?, ?, ?, ?)')
    this.#update = db.prepare('UPDATE keys SET content = ? WHERE source = ? AND at = ? AND id = ?')
  }

  /**
   * Takes the keys of the entries of `wanted` (all if undefined) and returns which were free. Must
   * come first in its transaction: `restart` rolls back and begins again.
   */
  add(
    source: number,
    name: SourceName,
    entries: Entries,
    wanted: Uint32Array | undefined,
    restart: () => void,
  ): NewEntries {
    return hasVersions(name)
      ? this.#addVersions(source, entries, wanted)
      : this.#addFirsts(source, entries, wanted, restart)
  }

  /** One byte per entry: 1 if its key is taken, 2 if so and this content is a new version. */
  known(source: number, name: SourceName, entries: Entries): Uint8Array {
    const taken = new Uint8Array(entries.count)
    if (entries.count === 0) return taken
    const { ids, firstUs, times } = this.#keysOf(entries, undefined)
    if (!hasVersions(name)) {
      for (const index of this.#knownOfPage.all(times, source, firstUs, ids)) taken[index] = 1
      return taken
    }
    for (let i = 0; i < entries.count; i++) {
      const id = ids.subarray(i * KEY_BYTES, (i + 1) * KEY_BYTES)
      const before = this.#find.get(source, entries.at(i), id)
      if (before) taken[i] = versionOf(entries.raw(i), before).version === 0 ? 1 : 2
    }
    return taken
  }

  /**
   * Takes no key: returns the version of each entry, by its index; unknown content has the version
   * that it would get.
   */
  versions(source: number, name: SourceName, entries: Entries): Uint32Array | undefined {
    if (!hasVersions(name)) return undefined
    const { ids } = this.#keysOf(entries, undefined)
    const versions = new Uint32Array(entries.count)
    for (let i = 0; i < entries.count; i++) {
      const id = ids.subarray(i * KEY_BYTES, (i + 1) * KEY_BYTES)
      const mark = this.#find.get(source, entries.at(i), id)
      if (mark) versions[i] = versionToSend(entries.raw(i), mark)
    }
    return versions
  }

  #addFirsts(
    source: number,
    entries: Entries,
    wanted: Uint32Array | undefined,
    restart: () => void,
  ): NewEntries {
    const count = wanted?.length ?? entries.count
    const all = { fresh: undefined, freshCount: count, knownCount: 0, versions: undefined }
    if (count === 0) return all
    const keys = this.#keysOf(entries, wanted)
    if (!this.#rereading.has(source)) {
      const { changes } = this.#insertPage.run(source, keys.firstUs, keys.ids, keys.times)
      if (changes === count) return all
      this.#rereading.add(source)
      // The count alone shows that all are known. A mixture does not show which, so look first and
      // insert again.
      if (changes === 0)
        return { fresh: new Uint32Array(0), freshCount: 0, knownCount: count, versions: undefined }
      restart()
    }
    return this.#addMixed(source, entries, wanted, keys)
  }

  #addMixed(
    source: number,
    entries: Entries,
    wanted: Uint32Array | undefined,
    { ids, firstUs, times }: PageKeys,
  ): NewEntries {
    const count = wanted?.length ?? entries.count
    const taken = new Uint8Array(count)
    const known = this.#knownOfPage.all(times, source, firstUs, ids)
    for (const index of known) taken[index] = 1
    if (known.length === 0) this.#rereading.delete(source)
    const fresh = firstsOf(entries, wanted, ids, taken)
    if (fresh.length > 0) {
      const keys = this.#keysOf(entries, fresh)
      const { changes } = this.#insertPage.run(source, keys.firstUs, keys.ids, keys.times)
      if (changes !== fresh.length) throw new Error('Dedup keys that were free could not be taken')
    }
    return { fresh, freshCount: fresh.length, knownCount: count - fresh.length, versions: undefined }
  }

  #addVersions(source: number, entries: Entries, wanted: Uint32Array | undefined): NewEntries {
    return newVersions(entries, wanted, this.#keysOf(entries, wanted).ids, {
      get: (index, id) => this.#find.get(source, entries.at(index), id),
      put: (index, id, mark, before) => {
        if (before === undefined) this.#insert.run(source, entries.at(index), id, mark)
        else this.#update.run(mark, source, entries.at(index), id)
      },
    })
  }

  /** The dedup keys of these entries in one reused buffer: valid until the next call. */
  #keysOf(entries: Entries, wanted: Uint32Array | undefined): PageKeys {
    const count = wanted?.length ?? entries.count
    if (this.#ids.length < count * KEY_BYTES) this.#ids = Buffer.allocUnsafeSlow(count * KEY_BYTES)
    const firstUs = count === 0 ? 0 : entries.at(wanted?.[0] ?? 0)
    const times = new Array<number>(count)
    let isNear = true
    for (let i = 0; i < count; i++) {
      const at = keyInto(this.#ids, i, entries, wanted?.[i] ?? i)
      times[i] = at - firstUs
      isNear &&= Number.isSafeInteger(at - firstUs)
    }
    const ids = this.#ids.subarray(0, count * KEY_BYTES)
    if (isNear) return { ids, firstUs, times: JSON.stringify(times) }
    // Over centuries the difference of two integers is not exact.
    const whole = times.map((_, i) => entries.at(wanted?.[i] ?? i))
    return { ids, firstUs: 0, times: JSON.stringify(whole) }
  }
}
