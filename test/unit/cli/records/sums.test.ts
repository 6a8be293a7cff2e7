// How much was set aside, of which kind, and only what is meant of it: dead letters and quarantine alike.
import { afterEach, beforeEach, expect, test } from 'vitest'
import {
  dropLetters,
  exportLetters,
  listLetters,
  retryLetters,
} from '../../../../src/cli/records/dead-letters.ts'
import { dropQuarantine, exportQuarantine, listQuarantine } from '../../../../src/cli/records/quarantine.ts'
import { part, spec, usage } from '../../../contract/journal-parts.ts'
import { openStand } from '../stand.ts'

let stand: ReturnType<typeof openStand>

const element = (n: number, reason: 'no_id' | 'too_large') => ({
  ...{ reason, bytes: Buffer.from(`planted-${n}`), totalBytes: 9, sha256: String(n).padStart(64, '0') },
})

/** Of siem 700 letters of audit and one of the history, of another code; in quarantine 3 and 2 of audit, 1 of the history. */
beforeEach(async () => {
  stand = openStand()
  const journal = await stand.openJournal()
  const many = Array.from({ length: 700 }, (_, i) => spec(i + 1))
  const quarantined = [1, 2, 3].map((n) => element(n, 'no_id'))
  await journal.append(part(many, { quarantined: [...quarantined, element(4, 'too_large')] }))
  const quarantinedToo = [element(5, 'no_id')]
  await journal.append(part([spec(701)], { stream: usage, quarantined: quarantinedToo }))
  const parked = Array.from({ length: 701 }, (_, i) => ({
    ...{ seq: i + 1, code: i < 700 ? 'refused' : 'too_large', reason: 'no' },
  }))
  await journal.ack('siem', { first: 1, through: 701, parked })
  await journal.close()
})
afterEach(() => stand.remove())

const options = (more: object = {}) => ({ config: stand.config, id: [], ...more })
const lines = () => stand.heard().stdout.trimEnd().split('\n')

test('a list ends with how many there are in all, by kind, the most first', async () => {
  expect(await listLetters(stand.context, options({ limit: 2 }))).toBe(0)
  expect(lines().slice(3)).toEqual([
    'there are more than these 2: a larger --limit shows them, dead-letters export writes all of them into a file',
    '',
    expect.stringMatching(/^701 dead letters, .* KiB$/) as string,
    expect.stringMatching(/^COUNT +SIZE +SINK +WORKSPACE +SOURCE +CODE$/) as string,
    expect.stringMatching(/^700 +.* KiB +siem +acme +audit +refused$/) as string,
    expect.stringMatching(/^1 +.* B +siem +acme +history\.usage +too_large$/) as string,
  ])
  expect(await listQuarantine(stand.context, options())).toBe(0)
  expect(lines().slice(-5)).toEqual([
    '5 quarantined elements, 45 B',
    'COUNT  KEPT  WORKSPACE  SOURCE         REASON',
    '3      27 B  acme       audit          no_id',
    '1      9 B   acme       audit          too_large',
    '1      9 B   acme       history.usage  no_id',
  ])
})

test('--sums tells these alone, also as data', async () => {
  await listQuarantine(stand.context, options({ sums: true }))
  expect(lines()[0]).toBe('5 quarantined elements, 45 B')
  await listQuarantine(stand.context, options({ sums: true, json: true }))
  expect(lines().map((line) => JSON.parse(line) as unknown)).toEqual([
    { count: 3, kept_bytes: 27, workspace: 'acme', source: 'audit', reason: 'no_id' },
    { count: 1, kept_bytes: 9, workspace: 'acme', source: 'audit', reason: 'too_large' },
    { count: 1, kept_bytes: 9, workspace: 'acme', source: 'history.usage', reason: 'no_id' },
  ])
  await listLetters(stand.context, options({ sums: true, json: true, code: 'too_large' }))
  expect(JSON.parse(stand.heard().stdout)).toMatchObject({
    ...{ count: 1, sink: 'siem', workspace: 'acme', source: 'history.usage', code: 'too_large' },
  })
})

test('as data a list has its objects alone, and none is lost to the sums', async () => {
  await listLetters(stand.context, options({ json: true, limit: 600 }))
  const { stdout, stderr } = stand.heard()
  expect(stdout.trimEnd().split('\n')).toHaveLength(600)
  expect(stdout).not.toContain('count')
  expect(stderr).toContain('there are more than these 600')
})

test.each([
  [{ source: 'history.usage' }, 1],
  [{ code: 'refused', limit: 1000 }, 700],
  [{ code: 'refused', limit: 3 }, 3],
  [{ workspace: 'acme', source: 'audit', code: 'too_large' }, 0],
])('letters by %j: so many are listed, exported, put back, let go', async (filter, count) => {
  await listLetters(stand.context, options({ json: true, ...filter }))
  expect(lines().filter((line) => line !== '')).toHaveLength(count)
  await exportLetters(stand.context, options(filter), '-')
  expect(lines().filter((line) => line !== '')).toHaveLength(count)
  await dropLetters(stand.context, options({ ...filter, yes: true }))
  expect(stand.heard().stdout).toMatch(new RegExp(`^${count} dead letters? dropped\n$`))
})

test.each([{ workspace: 'acme' }, { source: 'history.usage' }, { code: 'refused' }])(
  'retry needs no sink where %j says what is meant',
  async (filter) => {
    expect(await retryLetters(stand.context, options(filter))).toBe(0)
    expect(stand.heard().stdout).toMatch(/^[1-9]\d* dead letters? put back/)
  },
)

test('retry puts back of a sink what is meant', async () => {
  await retryLetters(stand.context, options({ sink: 'siem', source: 'history.usage' }))
  expect(stand.heard().stdout).toContain('1 dead letter put back')
  await listLetters(stand.context, options({ sums: true, json: true }))
  expect(JSON.parse(stand.heard().stdout)).toMatchObject({ count: 700, code: 'refused' })
})

test.each([
  [{ source: 'history.usage' }, 1],
  [{ reason: 'no_id' }, 4],
  [{ workspace: 'acme', reason: 'too_large' }, 1],
])('what is quarantined by %j: so many are listed, exported, let go', async (filter, count) => {
  await listQuarantine(stand.context, options({ json: true, ...filter }))
  expect(lines()).toHaveLength(count)
  await exportQuarantine(stand.context, options(filter), '-')
  expect(lines()).toHaveLength(count)
  await dropQuarantine(stand.context, options({ ...filter, yes: true }))
  expect(stand.heard().stdout).toMatch(new RegExp(`^${count} quarantined elements? dropped\n$`))
})

/** What another workspace has beside that: a letter and a malformed element. */
async function addOfAnother() {
  const journal = await stand.openJournal()
  const stream = { workspace: 'other', source: 'audit' } as const
  await journal.append(part([spec(702)], { stream, quarantined: [element(6, 'no_id')] }))
  await journal.ack('siem', {
    ...{ first: 702, through: 702, parked: [{ seq: 702, code: 'refused', reason: 'no' }] },
  })
  await journal.close()
}

test('what is let go or put back of one workspace is none of another, also of one that left the configuration', async () => {
  await addOfAnother()
  await dropQuarantine(stand.context, options({ workspace: 'other', yes: true }))
  await retryLetters(stand.context, options({ workspace: 'other' }))
  expect(stand.heard().stdout).toMatch(/^1 quarantined element dropped\n1 dead letter put back /)
  await dropLetters(stand.context, options({ workspace: 'acme', source: 'history.usage', yes: true }))
  expect(stand.heard().stdout).toBe('1 dead letter dropped\n')
})

test('no more is let go or put back than --limit says', async () => {
  await retryLetters(stand.context, options({ sink: 'siem', limit: 3 }))
  await dropLetters(stand.context, options({ yes: true, limit: 4 }))
  await dropQuarantine(stand.context, options({ yes: true, limit: 2 }))
  expect(stand.heard().stdout).toMatch(
    /^3 dead letters put back .*\n4 dead letters dropped\n2 quarantined elements dropped\n$/,
  )
  await listLetters(stand.context, options({ sums: true }))
  expect(lines()[0]).toMatch(/^694 dead letters, /)
})

test('without --yes nothing unnamed is let go, however the command line says no', async () => {
  for (const yes of [false, undefined]) {
    expect(await dropLetters(stand.context, options({ sink: 'siem', yes }))).toBe(2)
    expect(await dropQuarantine(stand.context, options({ yes }))).toBe(2)
  }
  expect(stand.heard().stdout).toBe('')
})

test('ids that --limit leaves out are not told to be gone', async () => {
  await listLetters(stand.context, options({ json: true, limit: 2 }))
  const id = lines().map((line) => (JSON.parse(line) as { id: number }).id)
  stand.heard()
  expect(await dropLetters(stand.context, options({ id, limit: 1 }))).toBe(0)
  expect(stand.heard()).toEqual({ stdout: '1 dead letter dropped\n', stderr: '' })
})

test('a list that was not cut tells which ids are not there, also where it is as long as --limit', async () => {
  await listLetters(stand.context, options({ json: true, limit: 1 }))
  const { id } = JSON.parse(lines()[0] ?? '') as { id: number }
  expect(await listLetters(stand.context, options({ id: [id, 99_999], limit: 1 }))).toBe(1)
  expect(stand.heard().stderr).toContain('no dead letter 99999: ')
})

test('a letter that the other options do not mean is not told to be gone', async () => {
  await listLetters(stand.context, options({ json: true, limit: 1 }))
  const { id } = JSON.parse(lines()[0] ?? '') as { id: number }
  expect(await dropLetters(stand.context, options({ id: [id], code: 'nope' }))).toBe(1)
  expect(stand.heard().stderr).toContain(`no dead letter ${id} that the other options mean too: `)
})

test('a code that no letter has is told with those that there are and fails each command, beside what it says anyway; with no letter at all it does not', async () => {
  const told = 'auditferry: no dead letter has the code nope; known codes: refused, too_large\n'
  const nope = options({ code: 'nope', json: true, yes: true })
  const commands = [
    listLetters,
    retryLetters,
    dropLetters,
    (context: typeof stand.context) => exportLetters(context, nope, '-'),
  ]
  for (const command of commands) {
    expect(await command(stand.context, nope)).toBe(1)
    expect(stand.heard().stderr).toContain(told)
  }
  await listLetters(stand.context, options({ code: 'too_large', workspace: 'acme', source: 'audit' }))
  expect(stand.heard().stderr).toBe('')
  await dropLetters(stand.context, options({ yes: true }))
  stand.heard()
  expect(await listLetters(stand.context, nope)).toBe(0)
  expect(stand.heard()).toEqual({ stdout: '', stderr: '' })
})

test('where nothing matches the options, that is told as there being nothing only where there is nothing', async () => {
  await listLetters(stand.context, options({ code: 'nope' }))
  await retryLetters(stand.context, options({ code: 'nope' }))
  await listQuarantine(stand.context, options({ reason: 'unreadable_page' }))
  expect(stand.heard().stdout.split('\n')).toEqual([
    'no dead letters match these options',
    'no dead letters match these options: nothing is put back',
    'nothing quarantined matches these options',
    '',
  ])
  await dropLetters(stand.context, options({ yes: true }))
  await dropQuarantine(stand.context, options({ yes: true }))
  stand.heard()
  expect(await listLetters(stand.context, options({ code: 'nope' }))).toBe(0)
  expect(await retryLetters(stand.context, options({ code: 'nope' }))).toBe(0)
  expect(await listQuarantine(stand.context, options({ reason: 'unreadable_page' }))).toBe(0)
  expect(stand.heard()).toEqual({
    stdout: 'no dead letters\nno dead letters: nothing is put back\nnothing is quarantined\n',
    stderr: '',
  })
})

test.each([
  ['dead letters', listLetters],
  ['quarantine', listQuarantine],
])('a workspace that there is none of is wrong usage: %s', async (_, list) => {
  expect(await list(stand.context, options({ workspace: 'nope' }))).toBe(2)
  expect(stand.heard()).toEqual({
    stdout: '',
    stderr: 'error: there is no workspace nope; there are acme\n',
  })
})
