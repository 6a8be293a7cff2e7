// A process with a file size limit: a `file` sink and spooled objects, until they reach it. `node limited.ts FILE FOLDER`
import { randomBytes } from 'node:crypto'
import { ConnectorError } from '../../../src/core/errors.ts'
import { disk } from '../../../src/platform/disk.ts'
import { sinkKinds } from '../../../src/sinks/index.ts'
import { Spool } from '../../../src/sinks/s3/spool.ts'
import { linesOf, runOf, someEntries } from '../../fakes/lines.ts'
import { sinkDeps } from '../../fakes/sink-deps.ts'

export interface Met {
  /** whole batches of ten entries */
  readonly delivered: number
  /** of the batch that did not fit */
  readonly detail: string
  readonly reported: readonly string[]
}

const [, , path = '', folder = ''] = process.argv
const never = new AbortController().signal
const reported: string[] = []
const tell = (error: unknown) =>
  void reported.push(error instanceof ConnectorError ? `${error.code}: ${error.message}` : String(error))

const { file } = sinkKinds
const sink = file.open('archive', file.options.parse({ path }), sinkDeps({ disk }))
let delivered = 0
let detail = ''
const next = () => linesOf(runOf(someEntries(10, 1 + delivered * 10)), sink.frame)
try {
  for (; delivered < 1000; delivered++) {
    detail = (await sink.prepare?.(next(), never)) ?? ''
    await sink.deliver({ lines: next(), detail, possibleDuplicate: false }, never)
  }
} catch (error) {
  tell(error)
}
await sink.deliver({ lines: next(), detail, possibleDuplicate: true }, never).catch(tell)

for (const compression of ['none', 'gzip'] as const) {
  const spool = await Spool.open(disk, folder, 0, compression)
  try {
    for (let i = 0; i < 100; i++) await spool.write(randomBytes(10_000))
    await spool.end()
  } catch (error) {
    tell(error)
  }
  await spool.discard()
}
const met: Met = { delivered, detail, reported }
process.stdout.write(JSON.stringify(met))
