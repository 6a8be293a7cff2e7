// The map from the word in the configuration to the sink. A new receiver: one file or folder, one line here.
import type { z } from 'zod'
import type { SinkKind } from '../model/sink-kind.ts'
import { file } from './file.ts'
import { splunkHec } from './splunk-hec/sink.ts'
import { stdout } from './stdout.ts'

export const sinkKinds = { stdout, file, splunk_hec: splunkHec } as const satisfies Readonly<
  Record<string, SinkKind<z.ZodType>>
>
