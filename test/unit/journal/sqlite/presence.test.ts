// A journal whose file is removed while the process runs says so, and what to do.
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Journal } from '../../../../src/contracts/journal.ts'
import { logOf, part, spec, TestClock } from '../../../contract/journal-parts.ts'
import { openTestJournal } from '../../../fakes/journal.ts'

let folder: string
let journal: Journal
let close: () => Promise<void>
const at = (name: string) => join(folder, name)

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'presence-'))
  ;({ journal, close } = await openTestJournal({ clock: new TestClock(), log: logOf() }, folder))
})
afterEach(async () => {
  await close()
  rmSync(folder, { recursive: true, force: true })
})

test('writes, checkpoints and pruning do not count as a lost file', async () => {
  for (let n = 1; n < 4_000; n += 500)
    await journal.append(
      part(Array.from({ length: 500 }, (_, i) => spec(n + i, { body: 'x'.repeat(4_000) }))),
    )
  await journal.prune()
  expect(await journal.lost()).toBeUndefined()
})

test.each(['journal.db', 'journal.db-wal'])('a removed %s is reported until it is back', async (name) => {
  renameSync(at(name), at('aside'))
  expect(await journal.lost()).toContain(`${at(name)} is gone`)
  expect(await journal.lost()).toContain(`put ${at('journal.db')} and ${at('journal.db')}-wal back`)
  renameSync(at('aside'), at(name))
  expect(await journal.lost()).toBeUndefined()
})

test('another file at its path is reported', async () => {
  renameSync(at('journal.db'), at('aside'))
  writeFileSync(at('journal.db'), 'another')
  expect(await journal.lost()).toContain('is another file than the one that was opened')
})

test('a removed folder is reported', async () => {
  renameSync(folder, `${folder}-aside`)
  expect(await journal.lost()).toContain('is gone')
  renameSync(`${folder}-aside`, folder)
})
