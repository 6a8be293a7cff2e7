// The daemon stops answering during the journal's part
// of a replay: what was sent is reported all the same.
import { expect, test } from 'vitest'
import { queueKept } from '../../../../src/cli/replay/kept.ts'
import { ConnectorError } from '../../../../src/core/errors.ts'
import type { Replayed } from '../../../../src/contracts/journal.ts'
import { openContext } from '../context.ts'

const step: Replayed = {
  ...{ entries: 40, bytes: 400, days: [], through: 40, until: 100, more: true, keptSince: undefined },
}
const query = { sink: 'siem', fromUs: 0, toUs: 1, sources: [], runAt: 7 }

const interrupted = /^auditferry: interrupted\. 80 entries were queued, and perhaps some more.*a second time/
const stopped = (queued: string) =>
  new RegExp(`^auditferry: the replay stopped early\\. ${queued}; .*a second time\\. What stopped it:\n$`)

test.each([
  [false, 3, 'unreachable', 'interrupt', interrupted],
  [false, 3, 'unreachable', 'error', stopped('80 entries are queued, and perhaps some more')],
  [false, 3, 'disk_full', 'error', stopped('80 entries are queued')],
  [false, 1, 'unreachable', 'error', stopped('0 entries are queued, and perhaps some more')],
  // Nothing can have been queued.
  [false, 1, 'disk_full', 'error', /^$/],
  [true, 3, 'unreachable', 'error', /^$/],
] as const)(
  'a daemon that dies over a step (dry run: %s, step %s, %s, %s)',
  async (dryRun, at, code, why, reported) => {
    let asked = 0
    const stop = new AbortController()
    const replay = async () => {
      if (++asked < at) return step
      if (why === 'interrupt') stop.abort()
      throw new ConnectorError(code, 'gone')
    }
    const { context: usual, heard } = openContext()
    const context = { ...usual, signal: stop.signal }
    const queued = queueKept({ replay }, { ...query, dryRun }, context, { sleep: async () => undefined })
    await expect(queued).rejects.toMatchObject({ code })
    expect(heard().stderr).toMatch(reported)
  },
)
