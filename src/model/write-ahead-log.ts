// SQLite's log beside a database, as far as it tells the first page: for who may not open the database itself. Pure.

const HEADER_BYTES = 32
const FRAME_HEADER_BYTES = 24
/** The lowest bit says in which order its checksums are. */
const MAGIC = 0x377f0682
const LEAST_PAGE_BYTES = 512

/** The newest first page that was committed; undefined where there is none. Frames with another salt are left over. */
export function firstPageIn(log: Buffer): Buffer | undefined {
  if (log.length < HEADER_BYTES || log.readUInt32BE(0) >>> 1 !== MAGIC >>> 1) return undefined
  const pageBytes = log.readUInt32BE(8)
  if (pageBytes < LEAST_PAGE_BYTES) return undefined
  const salt = log.subarray(16, 24)
  let written: Buffer | undefined
  let committed: Buffer | undefined
  const frameBytes = FRAME_HEADER_BYTES + pageBytes
  for (let at = HEADER_BYTES; at + frameBytes <= log.length; at += frameBytes) {
    if (!log.subarray(at + 8, at + 16).equals(salt)) break
    if (log.readUInt32BE(at) === 1) written = log.subarray(at + FRAME_HEADER_BYTES, at + frameBytes)
    if (log.readUInt32BE(at + 4) !== 0) committed = written
  }
  return committed
}
