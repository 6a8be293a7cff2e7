// The lines of a sink, each read once: of which source it is, and what distinguishes it from others.

type LineSource = 'audit' | 'history.usage' | 'history.query' | 'vault.projects'

export interface Line {
  readonly source: LineSource
  /** undefined: a row of the history's version 1 has none */
  readonly id: string | undefined
  /** one character a byte */
  readonly text: string
  /** of the vault only: the record as it reads */
  readonly record: Readonly<Record<string, unknown>> | undefined
}

/** Throws if `text` is no JSON. */
export function lineOf(text: string): Line {
  const fields = JSON.parse(Buffer.from(text, 'latin1').toString()) as Record<string, unknown>
  const usageId = fields['unique_usage_id']
  const record = typeof fields['seen_at'] === 'string' ? fields : undefined
  if (usageId === undefined && typeof fields['id'] === 'string')
    return {
      source: record ? 'vault.projects' : 'audit',
      id: fields['id'],
      text,
      record,
    }
  const source = fields['query'] === undefined ? 'history.usage' : 'history.query'
  return {
    source,
    id: typeof usageId === 'string' ? usageId : undefined,
    text,
    record: undefined,
  }
}

/** Between CR and LF outside of strings is all that raw may lack. */
export function onOneLine(raw: Uint8Array): string {
  return Buffer.from(raw)
    .toString('latin1')
    .replace(/[\r\n]/g, '')
}

/** The errors in a sink's lines, and how many of them are there once more. */
export interface Judged {
  readonly faults: readonly string[]
  readonly repeats: number
}
