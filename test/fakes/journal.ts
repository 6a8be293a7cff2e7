// A real journal in a folder of its own, in memory if the machine has a file system for that.
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { openJournal } from '../../src/journal/sqlite/open.ts'
import type { JournalOptions } from '../../src/journal/sqlite/open.ts'
import type { Journal } from '../../src/contracts/journal.ts'

type Options = Partial<JournalOptions> & Pick<JournalOptions, 'clock' | 'log'>

const DAY_MS = 86_400_000

/** For one sink called archive, unless `options` says otherwise. `close` removes the folder. */
export async function openTestJournal(
  options: Options,
  folder = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'auditferry-test-')),
): Promise<{ readonly journal: Journal; readonly close: () => Promise<void> }> {
  const journal = await openJournal({
    path: join(folder, 'journal.db'),
    maxBytes: 2 ** 31,
    keepKeysMs: 35 * DAY_MS,
    keepSettledBytes: 0,
    sinks: ['archive'],
    ballastBytes: 0,
    ...options,
  })
  return {
    journal,
    close: async () => {
      await journal.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** One that lives as long as the test. */
export async function journalOfTest(options: Options): Promise<Journal> {
  const { journal, close } = await openTestJournal(options)
  onTestFinished(close)
  return journal
}
