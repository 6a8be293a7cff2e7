// Sums by kind and filters, for dead letters and quarantine alike.
import { afterEach, beforeEach, expect, test } from 'vitest'
import {
  dropLetters,
  exportLetters,
  listLetters,
  retryLetters,
} from '../../../../src/cli/records/dead-letters.ts'
import { dropQuarantine, exportQuarantine, listQuarantine } from '../../../../src/cli/records/quarantine.ts'
import { part, spec, usage } from '../../../contract/journal-parts.ts'
import { codeIn } from '../context.ts'
import { openSetup } from '../setup.ts'

let setup: ReturnType<typeof openSetup>

const element = (n: number, reason: 'no_id' | 'too_large') => ({
  ...{ reason, bytes: Buffer.from(`planted-${n}`), totalBytes: 9, sha256: String(n).padStart(64, '0') },
})

/**
 * For siem 700 dead letters of audit and one of the history with
 * another code. In quarantine 3 and 2 of audit, 1 of the history.
 */
beforeEach(async () => {
  setup = openSetup()
  const journal = await setup.openJournal()
  const many = Array.from({ length: 700 }, (_, i) => spec(i + 1))
  const quarantined = [1, 2, 3].map((n) => element(n, 'no_id'))
  await journal.append(part(many, { quarantined: [...quarantined, element(4, 'too_large')] }))
  const quarantinedToo = [element(5, 'no_id')]
  await journal.append(part([spec(701)], { stream: usage, quarantined: quarantinedToo }))
  const rejected = Array.from({ length: 701 }, (_, i) => ({
    ...{ seq: i + 1, code: i < 700 ? 'refused' : 'too_large', reason: 'no' },
  }))
  await journal.ack('siem', { first: 1, through: 701, rejected })
  await journal.close()
})
afterEach(() => setup.remove())

const options = (more: object = {}) => ({ config: setup.config, id: [], ...more })
const lines = () => setup.heard().stdout.trimEnd().split('\n')

test('a list ends with the total and the sums by kind, largest first', async () => {
  expect(await listLetters(setup.context, options({ limit: 2 }))).toBe(0)
  expect(lines().slice(3)).toEqual([
    'there are more than these 2: a larger --limit shows them, dead-letters export writes all of them into a file',
    '',
    expect.stringMatching(/^701 dead letters, .* KiB$/) as string,
    expect.stringMatching(/^COUNT +SIZE +SINK +WORKSPACE +SOURCE +CODE$/) as string,
    expect.stringMatching(/^700 +.* KiB +siem +acme +audit +refused$/) as string,
    expect.stringMatching(/^1 +.* B +siem +acme +history\.usage +too_large$/) as string,
  ])
  expect(await listQuarantine(setup.context, options())).toBe(0)
  expect(lines().slice(-5)).toEqual([
    '5 quarantined elements, 45 B',
    'COUNT  KEPT  WORKSPACE  SOURCE         REASON',
    '3      27 B  acme       audit          no_id',
    '1      9 B   acme       audit          too_large',
    '1      9 B   acme       history.usage  no_id',
  ])
})

test('--sums prints only the sums, also with --json', async () => {
  await listQuarantine(setup.context, options({ sums: true }))
  expect(lines()[0]).toBe('5 quarantined elements, 45 B')
  await listQuarantine(setup.context, options({ sums: true, json: true }))
  expect(lines().map((line) => JSON.parse(line) as unknown)).toEqual([
    { count: 3, kept_bytes: 27, workspace: 'acme', source: 'audit', reason: 'no_id' },
    { count: 1, kept_bytes: 9, workspace: 'acme', source: 'audit', reason: 'too_large' },
    { count: 1, kept_bytes: 9, workspace: 'acme', source: 'history.usage', reason: 'no_id' },
  ])
  await listLetters(setup.context, options({ sums: true, json: true, code: 'too_large' }))
  expect(JSON.parse(setup.heard().stdout)).toMatchObject({
    ...{ count: 1, sink: 'siem', workspace: 'acme', source: 'history.usage', code: 'too_large' },
  })
})

test('--json prints only objects, and the sums lose none', async () => {
  await listLetters(setup.context, options({ json: true, limit: 600 }))
  const { stdout, stderr } = setup.heard()
  expect(stdout.trimEnd().split('\n')).toHaveLength(600)
  expect(stdout).not.toContain('count')
  expect(stderr).toContain('there are more than these 600')
})

test.each([
  [{ source: 'history.usage' }, 1],
  [{ code: 'refused', limit: 1000 }, 700],
  [{ code: 'refused', limit: 3 }, 3],
  [{ workspace: 'acme', source: 'audit', code: 'too_large' }, 0],
])('dead letters by %j: list, export and drop select the same', async (filter, count) => {
  await listLetters(setup.context, options({ json: true, ...filter }))
  expect(lines().filter((line) => line !== '')).toHaveLength(count)
  await exportLetters(setup.context, options(filter), '-')
  expect(lines().filter((line) => line !== '')).toHaveLength(count)
  await dropLetters(setup.context, options({ ...filter, yes: true }))
  expect(setup.heard().stdout).toMatch(new RegExp(`^${count} dead letters? dropped\n$`))
})

test.each([{ workspace: 'acme' }, { source: 'history.usage' }, { code: 'refused' }])(
  'retry needs no sink if %j selects the dead letters',
  async (filter) => {
    expect(await retryLetters(setup.context, options(filter))).toBe(0)
    expect(setup.heard().stdout).toMatch(/^[1-9]\d* dead letters? put back/)
  },
)

test('retry of a sink puts back only the selected ones', async () => {
  await retryLetters(setup.context, options({ sink: 'siem', source: 'history.usage' }))
  expect(setup.heard().stdout).toContain('1 dead letter put back')
  await listLetters(setup.context, options({ sums: true, json: true }))
  expect(JSON.parse(setup.heard().stdout)).toMatchObject({ count: 700, code: 'refused' })
})

test.each([
  [{ source: 'history.usage' }, 1],
  [{ reason: 'no_id' }, 4],
  [{ workspace: 'acme', reason: 'too_large' }, 1],
])('quarantine by %j: list, export and drop select the same', async (filter, count) => {
  await listQuarantine(setup.context, options({ json: true, ...filter }))
  expect(lines()).toHaveLength(count)
  await exportQuarantine(setup.context, options(filter), '-')
  expect(lines()).toHaveLength(count)
  await dropQuarantine(setup.context, options({ ...filter, yes: true }))
  expect(setup.heard().stdout).toMatch(new RegExp(`^${count} quarantined elements? dropped\n$`))
})

/** Adds a dead letter and a malformed element of another workspace. */
async function addOfAnother() {
  const journal = await setup.openJournal()
  const stream = { workspace: 'other', source: 'audit' } as const
  await journal.append(part([spec(702)], { stream, quarantined: [element(6, 'no_id')] }))
  await journal.ack('siem', {
    ...{ first: 702, through: 702, rejected: [{ seq: 702, code: 'refused', reason: 'no' }] },
  })
  await journal.close()
}

test('drop and retry by workspace leave other workspaces alone, also one that was removed', async () => {
  await addOfAnother()
  await dropQuarantine(setup.context, options({ workspace: 'other', yes: true }))
  await retryLetters(setup.context, options({ workspace: 'other' }))
  expect(setup.heard().stdout).toMatch(/^1 quarantined element dropped\n1 dead letter put back /)
  await dropLetters(setup.context, options({ workspace: 'acme', source: 'history.usage', yes: true }))
  expect(setup.heard().stdout).toBe('1 dead letter dropped\n')
})

test('--limit limits how many are dropped or put back', async () => {
  await retryLetters(setup.context, options({ sink: 'siem', limit: 3 }))
  await dropLetters(setup.context, options({ yes: true, limit: 4 }))
  await dropQuarantine(setup.context, options({ yes: true, limit: 2 }))
  expect(setup.heard().stdout).toMatch(
    /^3 dead letters put back .*\n4 dead letters dropped\n2 quarantined elements dropped\n$/,
  )
  await listLetters(setup.context, options({ sums: true }))
  expect(lines()[0]).toMatch(/^694 dead letters, /)
})

test('without --yes or ids nothing is dropped', async () => {
  for (const yes of [false, undefined]) {
    expect(await codeIn(setup.context, dropLetters(setup.context, options({ sink: 'siem', yes })))).toBe(2)
    expect(await codeIn(setup.context, dropQuarantine(setup.context, options({ yes })))).toBe(2)
  }
  expect(setup.heard().stdout).toBe('')
})

test('ids beyond --limit are not reported as missing', async () => {
  await listLetters(setup.context, options({ json: true, limit: 2 }))
  const id = lines().map((line) => (JSON.parse(line) as { id: number }).id)
  setup.heard()
  expect(await dropLetters(setup.context, options({ id, limit: 1 }))).toBe(0)
  expect(setup.heard()).toEqual({ stdout: '1 dead letter dropped\n', stderr: '' })
})

test('an uncut list reports missing ids, also if it is exactly as long as --limit', async () => {
  await listLetters(setup.context, options({ json: true, limit: 1 }))
  const { id } = JSON.parse(lines()[0] ?? '') as { id: number }
  expect(await listLetters(setup.context, options({ id: [id, 99_999], limit: 1 }))).toBe(1)
  expect(setup.heard().stderr).toContain('no dead letter 99999: ')
})

test('a dead letter that the other options exclude is not reported as missing', async () => {
  await listLetters(setup.context, options({ json: true, limit: 1 }))
  const { id } = JSON.parse(lines()[0] ?? '') as { id: number }
  expect(await dropLetters(setup.context, options({ id: [id], code: 'nope' }))).toBe(1)
  expect(setup.heard().stderr).toContain(`no dead letter ${id} that the other options mean too: `)
})

test('an unknown code is reported with the known ones and fails each command; with no dead letter at all it does not', async () => {
  const reported = 'auditferry: no dead letter has the code nope; known codes: refused, too_large\n'
  const nope = options({ code: 'nope', json: true, yes: true })
  const commands = [
    listLetters,
    retryLetters,
    dropLetters,
    (context: typeof setup.context) => exportLetters(context, nope, '-'),
  ]
  for (const command of commands) {
    expect(await command(setup.context, nope)).toBe(1)
    expect(setup.heard().stderr).toContain(reported)
  }
  await listLetters(setup.context, options({ code: 'too_large', workspace: 'acme', source: 'audit' }))
  expect(setup.heard().stderr).toBe('')
  await dropLetters(setup.context, options({ yes: true }))
  setup.heard()
  expect(await listLetters(setup.context, nope)).toBe(0)
  expect(setup.heard()).toEqual({ stdout: '', stderr: '' })
})

test('a filter without a match says so, and says that there is nothing only if there is nothing', async () => {
  await listLetters(setup.context, options({ code: 'nope' }))
  await retryLetters(setup.context, options({ code: 'nope' }))
  await listQuarantine(setup.context, options({ reason: 'unreadable_page' }))
  expect(setup.heard().stdout.split('\n')).toEqual([
    'no dead letters match these options',
    'no dead letters match these options: nothing is put back',
    'nothing quarantined matches these options',
    '',
  ])
  await dropLetters(setup.context, options({ yes: true }))
  await dropQuarantine(setup.context, options({ yes: true }))
  setup.heard()
  expect(await listLetters(setup.context, options({ code: 'nope' }))).toBe(0)
  expect(await retryLetters(setup.context, options({ code: 'nope' }))).toBe(0)
  expect(await listQuarantine(setup.context, options({ reason: 'unreadable_page' }))).toBe(0)
  expect(setup.heard()).toEqual({
    stdout: 'no dead letters\nno dead letters: nothing is put back\nnothing is quarantined\n',
    stderr: '',
  })
})

test.each([
  ['dead letters', listLetters],
  ['quarantine', listQuarantine],
])('an unknown workspace is wrong usage: %s', async (_, list) => {
  expect(await codeIn(setup.context, list(setup.context, options({ workspace: 'nope' })))).toBe(2)
  expect(setup.heard()).toEqual({
    stdout: '',
    stderr: 'error: there is no workspace nope; there are acme\n',
  })
})
