// The mock's record of its requests: the ground truth of rate limits, bounded.
import type { Area } from './keys.ts'
import type { FaultName } from './switches.ts'

/** Instants are epoch ms by the true clock. */
export interface RequestRecord {
  /** when it arrived, which is when it counted */
  readonly at: number
  /** when its last byte was sent or its connection broke */
  readonly answeredAt: number | undefined
  readonly area: Area | undefined
  readonly endpoint: string | undefined
  /** path and query as sent */
  readonly target: string
  readonly workspace: string | undefined
  /** the user of its key, never the secret */
  readonly key: string | undefined
  /** 0 if the connection was reset before an answer */
  readonly status: number
  /** Whether it counted against the rate limit. */
  readonly counted: boolean
  readonly faults: readonly FaultName[]
  /** elements in the body */
  readonly elements: number
  readonly whole: boolean
}

export type OpenRecord = { -readonly [K in keyof RequestRecord]: RequestRecord[K] }

export interface RequestLog {
  readonly records: readonly RequestRecord[]
  begin(at: number, target: string): OpenRecord
}

/** Keeps at least the last `bound` requests. */
export function openRequestLog(bound: number): RequestLog {
  const records: OpenRecord[] = []
  const begin = (at: number, target: string) => {
    const record: OpenRecord = {
      at,
      answeredAt: undefined,
      area: undefined,
      endpoint: undefined,
      target,
      workspace: undefined,
      key: undefined,
      status: 0,
      counted: false,
      faults: [],
      elements: 0,
      whole: false,
    }
    if (records.length >= 2 * bound) records.splice(0, records.length - bound + 1)
    records.push(record)
    return record
  }
  return { records, begin }
}
