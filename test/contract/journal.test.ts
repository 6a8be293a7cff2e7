// The journal in SQLite, held to the contract.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openJournal } from '../../src/journal/sqlite/open.ts'
import { journalContract } from './journal.contract.ts'

journalContract('sqlite', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'auditferry-journal-'))
  return {
    open: (settings) =>
      openJournal({ ...settings, path: join(folder, 'state', 'journal.db'), ballastBytes: 0 }),
    remove: () => rm(folder, { recursive: true, force: true }),
  }
})
