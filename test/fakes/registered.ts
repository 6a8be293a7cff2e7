// A journal as the app opens it: with its sinks registered.
import type { ConfiguredWorkspace, Journal } from '../../src/contracts/journal.ts'
import { openJournal } from '../../src/journal/sqlite/open.ts'
import type { JournalOptions } from '../../src/journal/sqlite/open.ts'

export interface Registered {
  readonly sinks: readonly string[]
  readonly workspaces?: readonly ConfiguredWorkspace[]
}

export async function openRegistered(
  { sinks, workspaces, ...options }: JournalOptions & Registered,
  open = openJournal,
): Promise<Journal> {
  const journal = await open(options)
  try {
    await journal.registerSinks(sinks, workspaces)
  } catch (error) {
    await journal.close()
    throw error
  }
  return journal
}
