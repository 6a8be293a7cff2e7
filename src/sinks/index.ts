// Maps `type` of the configuration to the sink. A new receiver is one folder and one line here.
import type { z } from 'zod'
import type { SinkKind } from '../contracts/sink-kind.ts'
import type { ObjectSink, Sink } from '../contracts/sink.ts'
import { file } from './file/sink.ts'
import { s3 } from './s3/sink.ts'
import { splunkHec } from './splunk-hec/sink.ts'
import { stdout } from './stdout.ts'
import { syslog } from './syslog/sink.ts'

export const sinkKinds = { stdout, file, splunk_hec: splunkHec, syslog, s3 } as const satisfies Readonly<
  Record<string, SinkKind<z.ZodType, Sink | ObjectSink>>
>

export type SinkType = keyof typeof sinkKinds

/** One kind without its types: what goes in must have come out of its own `options`. */
export type AnyKind = SinkKind<z.ZodObject, Sink | ObjectSink>

export function kindOf(type: SinkType): AnyKind {
  return sinkKinds[type]
}
