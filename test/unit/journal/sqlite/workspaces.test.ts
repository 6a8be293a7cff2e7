// What a start tells of workspaces that the journal has not met, and of those that left.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { logOf, part, spec, TestClock } from '../../../contract/journal-parts.ts'
import { openTestJournal } from '../../../fakes/journal.ts'

let folder: string

beforeEach(() => void (folder = mkdtempSync(join(tmpdir(), 'auditferry-workspaces-'))))
afterEach(() => rmSync(folder, { recursive: true, force: true }))

/** One start with these: what it tells, as `met NAME` and `left NAME`. `read`: a page of acme lands. */
async function start(names: readonly string[], read = false): Promise<string[]> {
  const reported: string[] = []
  const tell = (word: string) => (sentence: string, fields?: object) => {
    if (/^(New workspace|A workspace )/.test(sentence))
      reported.push(`${word} ${Object.values(fields ?? {}).join()}`)
  }
  const log = { ...logOf(), info: tell('met'), warn: tell('left') }
  const workspaces = names.map((name) => ({ name, starts: {} }))
  const { journal } = await openTestJournal({ clock: new TestClock(), log, workspaces }, folder)
  if (read) await journal.append(part([spec(1)]))
  await journal.close()
  return reported
}

test('an empty journal has met nobody, and tells of nobody', async () => {
  expect(await start(['acme', 'beta'], true)).toEqual([])
  expect(await start(['acme', 'beta'])).toEqual([])
})

test('one that never got a page in is told as new once, and not at each start', async () => {
  await start(['acme'], true)
  expect(await start(['acme', 'beta'])).toEqual(['met beta'])
  expect(await start(['acme', 'beta'])).toEqual([])
})

test('one that left without a page is nothing to tell of, and as new as before when it comes again', async () => {
  await start(['acme'], true)
  await start(['acme', 'beta'])
  expect(await start(['acme'])).toEqual([])
  expect(await start(['acme', 'beta'])).toEqual(['met beta'])
})

test('one that left with pages is told once, and goes on where it was', async () => {
  await start(['acme'], true)
  expect(await start(['beta'])).toEqual(['met beta', 'left acme'])
  expect(await start(['beta'])).toEqual([])
  expect(await start(['acme', 'beta'])).toEqual([])
})

test('one that came back and leaves again is told again', async () => {
  await start(['acme'], true)
  expect(await start(['beta'])).toEqual(['met beta', 'left acme'])
  await start(['acme', 'beta'])
  expect(await start(['beta'])).toEqual(['left acme'])
})
