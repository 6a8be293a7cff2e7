// The name of an object: derived from its content alone, so that a second try finds the object of
// the first.
import type { ObjectContent, ObjectGroup } from '../../contracts/sink.ts'

export const extensions = { gzip: '.ndjson.gz', zstd: '.ndjson.zst', none: '.ndjson' } as const

const SEQ_DIGITS = 16
const HASH_DIGITS = 16

const seqText = (seq: number): string => String(seq).padStart(SEQ_DIGITS, '0')

/** `name` under the sink's prefix. */
export const under = (prefix: string, name: string): string => (prefix === '' ? name : `${prefix}/${name}`)

function folderOf({ stream, day, replay }: ObjectGroup): string {
  const folder = `workspace=${stream.workspace}/source=${stream.source}/dt=${day}`
  return replay === undefined ? folder : `replay=${replay}/${folder}`
}

/** `linesSha256`: of the uncompressed lines, hex. */
export function objectKey(
  prefix: string,
  { group, first, last }: ObjectContent,
  linesSha256: string,
  compression: keyof typeof extensions,
): string {
  const name = `${seqText(first)}-${seqText(last)}-${linesSha256.slice(0, HASH_DIGITS)}`
  return under(prefix, `${folderOf(group)}/${name}${extensions[compression]}`)
}
