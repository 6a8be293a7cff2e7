// A process with a small file size limit: fills a journal, delivers, appends again and prints the
// results.
// `node limited.ts SETTINGS`
import type { JournalOptions } from '../../../../src/journal/sqlite/open.ts'
import { openRegistered } from '../../../fakes/registered.ts'
import { ConnectorError } from '../../../../src/core/errors.ts'
import { logOf, part, acknowledgement, spec, TestClock } from '../../../contract/journal-parts.ts'

export interface Met {
  readonly kept: number
  /** up to where the sink has acknowledged */
  readonly position: number
  readonly full: string
  readonly settled: string
  readonly again: string
  readonly sentences: readonly string[]
}

const reportedOf = async (work: () => Promise<unknown>): Promise<string> => {
  try {
    await work()
    return 'done'
  } catch (error) {
    return error instanceof ConnectorError ? `${error.code}: ${error.message}` : String(error)
  }
}

const settings = JSON.parse(process.argv[2] ?? '{}') as Pick<JournalOptions, 'path'>
const sentences: string[] = []
const journal = await openRegistered({
  ...{ maxBytes: 2 ** 30, keepKeysMs: 1e9, keepDeliveredBytes: 0, sinks: ['a'] },
  ...{ clock: new TestClock(), log: logOf(sentences), ...settings },
})
const big = (n: number) => part([spec(n, { body: 'x'.repeat(500_000) })])
let kept = 0
let position = 0
const full = await reportedOf(async () => {
  for (; kept < 300; kept++) await journal.append(big(kept + 1))
})
const settled = await reportedOf(async () => {
  for (; position < kept - 1; position++) await journal.ack('a', acknowledgement(position + 1, position + 1))
  while (await journal.prune()) continue
})
const again = await reportedOf(() => journal.append(big(kept + 1)))
await journal.close()
const met: Met = { kept, position, full, settled, again, sentences }
process.stdout.write(JSON.stringify(met))
