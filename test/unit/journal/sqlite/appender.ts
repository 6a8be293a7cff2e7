// A process for the test to kill: it appends pages, delivers to its own file, acknowledges and
// prunes.
// `node appender.ts PATH SINK_FILE`
import { appendFileSync } from 'node:fs'
import { openRegistered } from '../../../fakes/registered.ts'
import { idsOf, logOf, part, acknowledgement, spec, TestClock } from '../../../contract/journal-parts.ts'

const [, , path = '', received = ''] = process.argv
const journal = await openRegistered({
  ...{ path, maxBytes: 2 ** 20, keepKeysMs: 1e12, keepDeliveredBytes: 2000, sinks: ['a'] },
  ...{ clock: new TestClock(), log: logOf(), ballastBytes: 0 },
})
const next = Number((await journal.cursor({ workspace: 'acme', source: 'audit' })) ?? 0)
process.stdout.write('ready\n')
for (let from = next; ; from += 10) {
  const specs = Array.from({ length: 15 }, (_, i) => spec(from + i))
  await journal.append(part(specs, { cursor: String(from + 10) }))
  const batch = await journal.take('a', { maxEntries: 7, maxBytes: 1e6 })
  if (batch) {
    appendFileSync(
      received,
      idsOf(batch)
        .map((id, i) => `${batch.first + i} ${id}\n`)
        .join(''),
    )
    await journal.ack('a', acknowledgement(batch.first, batch.last))
  }
  await journal.prune()
}
