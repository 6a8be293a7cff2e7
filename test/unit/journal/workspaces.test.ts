// What is told of workspaces that come and go: renaming one sends everything again, and must not do so without a word.
import { expect, it } from 'vitest'
import { logOf, part, spec } from '../../contract/journal-parts.ts'
import { journalStand } from './stand.ts'

const open = journalStand(() => undefined, 'a.db', { keepSettledBytes: 0, ballastBytes: 0 })

async function toldOf(...names: string[]) {
  const told: unknown[] = []
  const note = (level: string) => (sentence: string, fields?: object) => {
    if (sentence.startsWith('A workspace ')) told.push([level, fields])
  }
  const workspaces = names.map((name) => ({ name, starts: { auditStart: 'earliest' } }))
  const journal = await open({ workspaces, log: { ...logOf(), info: note('info'), warn: note('warn') } })
  return { journal, told }
}

it('of an empty journal no workspace is told as new', async () => {
  const { told } = await toldOf('acme')
  expect(told).toEqual([])
})

it('a renamed workspace is told as a new one, with where it is read from, and as one left behind, once', async () => {
  const first = await toldOf('acme')
  await first.journal.append(part([spec(1)]))
  await first.journal.close()
  const renamed = await toldOf('other')
  expect(renamed.told).toEqual([
    ['info', { workspace: 'other', auditStart: 'earliest' }],
    ['warn', { workspace: 'acme' }],
  ])
  await renamed.journal.append({ ...part([spec(1)]), origin: { workspace: 'other', source: 'audit' } })
  await renamed.journal.close()
  const again = await toldOf('other')
  expect(again.told).toEqual([])
  await again.journal.close()
  const both = await toldOf('acme', 'other')
  expect(both.told).toEqual([])
  await both.journal.close()
  // It came back: that it leaves once more is news.
  const left = await toldOf('other')
  expect(left.told).toEqual([['warn', { workspace: 'acme' }]])
})
