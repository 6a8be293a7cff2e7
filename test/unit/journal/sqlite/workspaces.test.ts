// What the log says at a start about new and removed workspaces.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { logOf, part, spec, TestClock } from '../../../contract/journal-parts.ts'
import { openTestJournal } from '../../../fakes/journal.ts'

let folder: string

beforeEach(() => void (folder = mkdtempSync(join(tmpdir(), 'auditferry-workspaces-'))))
afterEach(() => rmSync(folder, { recursive: true, force: true }))

/**
 * Starts once with these workspaces and returns the log as
 * `met NAME` and `left NAME`. `read`: acme reads a page.
 */
async function start(names: readonly string[], read = false): Promise<string[]> {
  const reported: string[] = []
  const collect = (word: string) => (sentence: string, fields?: object) => {
    if (/^(New workspace|A workspace )/.test(sentence))
      reported.push(`${word} ${Object.values(fields ?? {}).join()}`)
  }
  const log = { ...logOf(), info: collect('met'), warn: collect('left') }
  const workspaces = names.map((name) => ({ name, starts: {} }))
  const { journal } = await openTestJournal({ clock: new TestClock(), log, workspaces }, folder)
  if (read) await journal.append(part([spec(1)]))
  await journal.close()
  return reported
}

test('the first start of an empty journal logs no workspace', async () => {
  expect(await start(['acme', 'beta'], true)).toEqual([])
  expect(await start(['acme', 'beta'])).toEqual([])
})

test('a workspace without a page is logged as new once, not at each start', async () => {
  await start(['acme'], true)
  expect(await start(['acme', 'beta'])).toEqual(['met beta'])
  expect(await start(['acme', 'beta'])).toEqual([])
})

test('a workspace removed before its first page is not logged as removed, and is new again later', async () => {
  await start(['acme'], true)
  await start(['acme', 'beta'])
  expect(await start(['acme'])).toEqual([])
  expect(await start(['acme', 'beta'])).toEqual(['met beta'])
})

test('a workspace removed after its first page is logged once, and continues when it is back', async () => {
  await start(['acme'], true)
  expect(await start(['beta'])).toEqual(['met beta', 'left acme'])
  expect(await start(['beta'])).toEqual([])
  expect(await start(['acme', 'beta'])).toEqual([])
})

test('a workspace that came back and is removed again is logged again', async () => {
  await start(['acme'], true)
  expect(await start(['beta'])).toEqual(['met beta', 'left acme'])
  await start(['acme', 'beta'])
  expect(await start(['beta'])).toEqual(['left acme'])
})
