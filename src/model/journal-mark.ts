// Whose a SQLite file is: by the mark of this program, and by what its journals from before the mark are known by.

/** SQLite's mark of whose a file is: "afJr", in a place that each of its files has. */
export const APPLICATION_ID = 0x61664a72
/**
 * The schema of today's journals: so many steps has `journal/schema.ts`.
 * @internal for tests
 */
export const SCHEMA = 5
/** Journals up to this schema bear no mark. */
const LAST_UNMARKED = 4
/** Tables that journals have had from the first on. */
const TELLING = ['chunks', 'intents', 'dead_letters', 'quarantine'] as const

/**
 * `user_version` holds the schema in its lowest byte and a random stamp above it, which tells one journal from another: a log
 * names no database, and SQLite would write it into whichever lies beside it.
 */
const SCHEMA_BITS = 8
const STAMPS = 2 ** (31 - SCHEMA_BITS)

export const schemaIn = (version: number): number => version & (2 ** SCHEMA_BITS - 1)

/** `version` with another schema, and the stamp that it has. */
export const withSchema = (version: number, schema: number): number =>
  ((version >>> SCHEMA_BITS) << SCHEMA_BITS) | schema

/** `version` with a stamp: its own, or else a new one. `random`: as `randomInt` of node:crypto. */
export const stamped = (version: number, random: (least: number, below: number) => number): number =>
  version >>> SCHEMA_BITS === 0 ? (random(1, STAMPS) << SCHEMA_BITS) | version : version

/** By the first page; 0: it has none. */
export const stampOf = (page: Buffer): number =>
  page.length < HEADER_BYTES ? 0 : versionOf(page) >>> SCHEMA_BITS

interface Known {
  readonly mark: number
  readonly version: number
  readonly isEmpty: boolean
  readonly hasTable: (name: string) => boolean
}

/** An empty database becomes a journal. */
export function isJournal({ mark, version, isEmpty, hasTable }: Known): boolean {
  if (mark !== 0) return mark === APPLICATION_ID
  if (version === 0) return isEmpty
  return version <= LAST_UNMARKED && TELLING.every(hasTable)
}

/** What is wrong with a journal of this schema; undefined: nothing. */
export function newerFault(version: number): string | undefined {
  const schema = schemaIn(version)
  if (schema <= SCHEMA) return undefined
  return `was written by a newer version of this program (its schema is ${schema}, this one knows ${SCHEMA}): run that version, or set journal.path to another file`
}

/** How every SQLite file begins. */
const MAGIC = Buffer.from('SQLite format 3\0')
const HEADER_BYTES = 100
/** of the page behind the header, which holds the tables' names: all of them, and not where others lie */
const LEAF = 0x0d

export const MOST_PAGE_BYTES = 65_536

const versionOf = (page: Buffer): number => page.readInt32BE(60)

export const isSqlite = (head: Buffer): boolean => head.subarray(0, MAGIC.length).equals(MAGIC)

/**
 * By the first page alone, for who may neither open nor lock the file: true where it is somebody else's for sure. Of ours each older
 * state is one of a journal too.
 */
export function isForeign(head: Buffer): boolean {
  if (!isSqlite(head) || head.length < HEADER_BYTES) return false
  const pageBytes = head.readUInt16BE(16)
  const page = head.subarray(0, pageBytes === 1 ? MOST_PAGE_BYTES : pageBytes)
  return !isJournal({
    mark: page.readInt32BE(68),
    version: versionOf(page),
    // A table has a page of its own.
    isEmpty: page.readUInt32BE(28) <= 1,
    hasTable: (name) => page[HEADER_BYTES] !== LEAF || page.includes(name),
  })
}

/** `newerFault` by the first page alone; one that is cut short tells nothing. */
export function newerPageFault(page: Buffer): string | undefined {
  return page.length < HEADER_BYTES ? undefined : newerFault(versionOf(page))
}
