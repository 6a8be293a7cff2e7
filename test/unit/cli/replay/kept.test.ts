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

test.each([
  [
    false,
    /^auditferry: interrupted: 80 entries were queued, and perhaps those of one more step.*delivered twice/,
  ],
  [true, /^$/],
])(
  'a daemon that dies in the third step is reported with what was queued (dry run: %s)',
  async (dryRun, reported) => {
    let asked = 0
    const replay = async () => {
      if (++asked === 3) throw new ConnectorError('unreachable', 'gone')
      return step
    }
    const { context, heard } = openContext()
    const queued = queueKept({ replay }, { ...query, dryRun }, context, { sleep: async () => undefined })
    await expect(queued).rejects.toMatchObject({ code: 'unreachable' })
    expect(heard().stderr).toMatch(reported)
  },
)
