// A folder for each test and the journals opened in it, closed and removed afterwards.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach } from 'vitest'
import type { JournalOptions } from '../../../../src/journal/sqlite/open.ts'
import { openRegistered } from '../../../fakes/registered.ts'
import type { Registered } from '../../../fakes/registered.ts'
import type { Journal } from '../../../../src/contracts/journal.ts'
import { logOf, part, spec, TestClock } from '../../../contract/journal-parts.ts'

interface Setup {
  readonly folder: string
  /** the path of a journal opened without one */
  readonly path: string
  readonly opened: Journal[]
  /** what the journals log */
  readonly sentences: string[]
}

type Open = (settings?: Partial<JournalOptions & Registered>) => Promise<Journal>

/** Calls `began` before each test. Returns how to open a journal in the folder; `name` is its path there. */
export function journalSetup(
  began: (setup: Setup) => unknown,
  name: string,
  defaults: Pick<JournalOptions, 'keepDeliveredBytes' | 'ballastBytes'>,
): Open {
  let setup: Setup
  beforeEach(async () => {
    const folder = await mkdtemp(join(tmpdir(), 'auditferry-journal-'))
    setup = { folder, path: join(folder, name), opened: [], sentences: [] }
    began(setup)
  })
  afterEach(async () => {
    for (const journal of setup.opened) await journal.close()
    await rm(setup.folder, { recursive: true, force: true })
  })
  return async (settings) => {
    const journal = await openRegistered({
      ...{ path: setup.path, maxBytes: 2 ** 30, keepKeysMs: 1e9, sinks: ['a'] },
      ...{ clock: new TestClock(), log: logOf(setup.sentences), ...defaults, ...settings },
    })
    setup.opened.push(journal)
    return journal
  }
}

/** 100,000 bytes. */
export const big = (n: number) => part([spec(n, { body: 'x'.repeat(100_000) })])

/** Undoes the renaming of schema 6. */
export const undoRenaming = `
  ALTER TABLE sinks RENAME COLUMN reported TO told;
  ALTER TABLE acknowledged_ranges RENAME TO ahead;
  ALTER TABLE in_flight RENAME TO intents;
  ALTER TABLE intents ADD COLUMN attempt INTEGER NOT NULL DEFAULT 1;
  ALTER TABLE state RENAME TO notes;
  ALTER TABLE accounts RENAME TO deliveries;
  ALTER TABLE deliveries RENAME COLUMN dead_lettered TO parked;`
