// A folder for each test, and the journals that it opens there: closed and removed behind it.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach } from 'vitest'
import type { JournalOptions } from '../../../../src/journal/sqlite/open.ts'
import { openRegistered } from '../../../fakes/registered.ts'
import type { Registered } from '../../../fakes/registered.ts'
import type { Journal } from '../../../../src/contracts/journal.ts'
import { logOf, part, spec, TestClock } from '../../../contract/journal-parts.ts'

interface Stand {
  readonly folder: string
  /** where a journal is opened that is not told where */
  readonly path: string
  readonly opened: Journal[]
  /** what they log */
  readonly sentences: string[]
}

type Open = (settings?: Partial<JournalOptions & Registered>) => Promise<Journal>

/** `began` is called before each test. Answers how a journal is opened in it; `name`: from the folder on. */
export function journalStand(
  began: (stand: Stand) => unknown,
  name: string,
  defaults: Pick<JournalOptions, 'keepDeliveredBytes' | 'ballastBytes'>,
): Open {
  let stand: Stand
  beforeEach(async () => {
    const folder = await mkdtemp(join(tmpdir(), 'auditferry-journal-'))
    stand = { folder, path: join(folder, name), opened: [], sentences: [] }
    began(stand)
  })
  afterEach(async () => {
    for (const journal of stand.opened) await journal.close()
    await rm(stand.folder, { recursive: true, force: true })
  })
  return async (settings) => {
    const journal = await openRegistered({
      ...{ path: stand.path, maxBytes: 2 ** 30, keepKeysMs: 1e9, sinks: ['a'] },
      ...{ clock: new TestClock(), log: logOf(stand.sentences), ...defaults, ...settings },
    })
    stand.opened.push(journal)
    return journal
  }
}

/** 100,000 bytes. */
export const big = (n: number) => part([spec(n, { body: 'x'.repeat(100_000) })])
