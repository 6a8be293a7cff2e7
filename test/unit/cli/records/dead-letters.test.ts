// The dead letters' and the quarantine's commands: with the journal to themselves, and through a daemon that holds it.
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  dropLetters,
  exportLetters,
  listLetters,
  retryLetters,
  showLetter,
} from '../../../../src/cli/records/dead-letters.ts'
import {
  dropQuarantine,
  exportQuarantine,
  listQuarantine,
  showQuarantine,
} from '../../../../src/cli/records/quarantine.ts'
import { knownConfig } from '../../../../src/cli/shared/config-file.ts'
import type { Journal } from '../../../../src/contracts/journal.ts'
import type { DeadLetterQuery } from '../../../../src/contracts/records.ts'
import { retryAcceptedDeadLetters } from '../../../../src/app/delivery.ts'
import { openControl } from '../../../../src/control/server.ts'
import type { Control } from '../../../../src/control/server.ts'
import { unasked } from '../../../fakes/unasked.ts'
import { entriesOf, idsOf, logOf, part, plenty, spec, uuid } from '../../../contract/journal-parts.ts'
import { openBoardStand } from '../../observability/board-stand.ts'
import { fill, openStand } from '../stand.ts'

let stand: ReturnType<typeof openStand>
let held: Journal | undefined
let control: Control | undefined

beforeEach(async () => {
  stand = openStand()
  const journal = await stand.openJournal()
  await fill(journal)
  await journal.close()
})
afterEach(async () => {
  await control?.close()
  await held?.close()
  control = undefined
  held = undefined
  stand.remove()
})

/** A daemon, as far as the commands see one. */
async function startDaemon(): Promise<Journal> {
  held = await stand.openJournal()
  const { registry, metrics, taps } = openBoardStand()
  const journal = held
  const { sinks } = knownConfig(stand.config, stand.context)
  const retry = (query: DeadLetterQuery) => retryAcceptedDeadLetters(journal, sinks, query)
  const parts = { registry, metrics, taps, journal, retry }
  control = await openControl({ ...unasked, journalPath: stand.path, log: logOf(), ...parts })
  return held
}

const options = (more: object = {}) => ({ config: stand.config, id: [], ...more })
const raw = (n: number) => Buffer.from(entriesOf([spec(n, { body: 'planted-content' })]).raw(0)).toString()

describe.each(['none running', 'through a daemon'])('%s', (how) => {
  beforeEach(async () => {
    if (how === 'through a daemon') await startDaemon()
  })

  test('a type however long is cut in what list and show print, and never in half a character', async () => {
    const journal = held ?? (await stand.openJournal())
    const long = { time: '2026-11-21T12:34:56+02:00', type: `${'t'.repeat(79)}${'\u{1f4dc}'.repeat(35_000)}` }
    await journal.append(part([spec(5, long)]))
    await journal.ack('siem', {
      first: 5,
      through: 5,
      parked: [{ seq: 5, code: 'refused', reason: 'no' }],
    })
    if (!held) await journal.close()
    await listLetters(stand.context, options())
    const { stdout } = stand.heard()
    expect(stdout).toContain(`  2026-11-21 10:34:56  ${'t'.repeat(79)}…  `)
    expect(Math.max(...stdout.split('\n').map((line) => line.length))).toBeLessThan(250)
    await showLetter(stand.context, { config: stand.config, content: false }, 3)
    expect(stand.heard().stdout).toMatch(/^type +t{79}…$/m)
  })

  test('list tells each with its reason, and no content', async () => {
    expect(await listLetters(stand.context, options())).toBe(0)
    const { stdout } = stand.heard()
    expect(stdout.split('\n')).toHaveLength(8)
    expect(stdout).toMatch(/^ID {2}SINK {2}SOURCE {6}TIME \(UTC\) {2}/)
    expect(stdout).toContain('acme audit')
    // What a receiver says must not command the terminal.
    expect(stdout).toContain('Splunk said: \\u{1b}[31mno')
    expect(stdout).not.toContain('planted')
    await listLetters(stand.context, options({ limit: 1 }))
    expect(stand.heard().stdout).toContain(
      'there are more than these 1: a larger --limit shows them, dead-letters export writes all of them into a file\n',
    )
    await listLetters(stand.context, options({ sink: 'archive' }))
    expect(stand.heard().stdout).toBe('no dead letters match these options\n')
  })

  test('a list of ids that is cut blames none of those that it did not come to', async () => {
    const journal = held ?? (await stand.openJournal())
    const bytes = Buffer.from('{}')
    const more = ['cd', 'ef'].map((sha) => ({
      reason: 'no_id' as const,
      bytes,
      totalBytes: 2,
      sha256: sha.repeat(32),
    }))
    await journal.append(part([], { quarantined: more }))
    await journal.ack('archive', {
      ...{ first: 1, through: 4 },
      parked: [{ seq: 1, code: 'refused', reason: 'no' }],
    })
    if (!held) await journal.close()
    for (const list of [listLetters, listQuarantine]) {
      expect(await list(stand.context, options({ id: [1, 2, 3], limit: 1 }))).toBe(0)
      expect(await list(stand.context, options({ id: [1, 2, 3, 4] }))).toBe(1)
    }
  })

  test('show tells all but the content, and with --content the content alone, byte for byte', async () => {
    expect(await showLetter(stand.context, { config: stand.config, content: false }, 1)).toBe(0)
    const { stdout } = stand.heard()
    expect(stdout).toContain(uuid(2))
    expect(stdout).not.toContain('planted')
    expect(await showLetter(stand.context, { config: stand.config, content: true }, 1)).toBe(0)
    expect(stand.heard().stdout).toBe(`${raw(2)}\n`)
    expect(await showLetter(stand.context, { config: stand.config, content: true }, 99)).toBe(1)
    expect(stand.heard().stderr).toContain('no dead letter 99')
  })

  test('retry puts back by id, and tells of ids that are none', async () => {
    expect(await retryLetters(stand.context, options({ id: [2, 99] }))).toBe(1)
    const { stdout, stderr } = stand.heard()
    expect(stdout).toContain("1 dead letter put back at the journal's end")
    expect(stderr).toContain('no dead letter 99')
    const journal = held ?? (held = await stand.openJournal())
    const batch = await journal.take('siem', plenty)
    expect(idsOf(batch)).toEqual([uuid(3)])
    expect(batch?.slices[0]?.onlySink).toBe('siem')
    expect((await journal.deadLetters({})).map(({ id }) => id)).toEqual([1])
  })

  test('retry takes all of a sink, and needs to be told which', async () => {
    expect(await retryLetters(stand.context, options())).toBe(2)
    expect(stand.heard().stderr).toContain('which to retry?')
    expect(await retryLetters(stand.context, options({ sink: 'siem' }))).toBe(0)
    expect(stand.heard().stdout).toContain('2 dead letters put back')
  })

  test.each([
    ['sources', 'sources: [vault.projects]'],
    ['types', "types: ['*', '!user:create_query']"],
    ['deny', 'deny: { body: [planted-content] }'],
  ])(
    'a letter that its sink no longer wants by its %s is not put back, and that is told',
    async (key, setting) => {
      await control?.close()
      await held?.close()
      const text = readFileSync(stand.config, 'utf8').replace('name: siem,', `name: siem, ${setting},`)
      writeFileSync(stand.config, text)
      if (held) await startDaemon()
      expect(await retryLetters(stand.context, options({ sink: 'siem' }))).toBe(1)
      const { stdout, stderr } = stand.heard()
      expect(stdout).toContain('0 dead letters put back')
      expect(stderr).toContain(`2 dead letters left where they are: siem no longer takes them (its ${key})`)
      const journal = held ?? (held = await stand.openJournal())
      expect(await journal.deadLetters({})).toHaveLength(2)
      expect(await journal.take('siem', plenty)).toBeUndefined()
    },
  )

  test('drop needs --yes or explicit ids', async () => {
    expect(await dropLetters(stand.context, options())).toBe(2)
    expect(stand.heard().stderr).toContain('say --yes')
    expect(await dropLetters(stand.context, options({ sink: 'siem' }))).toBe(2)
    expect(stand.heard().stderr).toContain('say --yes')
    expect(await dropLetters(stand.context, options({ id: [1] }))).toBe(0)
    expect(await dropLetters(stand.context, options({ yes: true }))).toBe(0)
    expect(stand.heard().stdout).toBe('1 dead letter dropped\n1 dead letter dropped\n')
    await listLetters(stand.context, options())
    expect(stand.heard().stdout).toBe('no dead letters\n')
  })

  test('export writes lines with raw bytes and reasons to a private new file, or to standard output', async () => {
    const file = join(stand.folder, 'letters.ndjson')
    expect(await exportLetters(stand.context, options(), file)).toBe(0)
    const lines = readFileSync(file, 'utf8').trim().split('\n')
    expect(statSync(file).mode & 0o777).toBe(0o600)
    expect(lines).toHaveLength(2)
    expect(lines[0]).toContain(`"entry":${raw(2)}}`)
    expect(JSON.parse(lines[0] ?? '')).toMatchObject({
      id: 1,
      sink: 'siem',
      code: 'refused',
      entry_id: uuid(2),
    })
    stand.heard()
    expect(await exportLetters(stand.context, options({ id: [2] }), '-')).toBe(0)
    expect(stand.heard().stdout).toBe(`${lines[1] ?? ''}\n`)
  })

  test('an export to standard output that cannot be written says why', async () => {
    const print = () => Promise.reject(Object.assign(new Error('no'), { code: 'ENOSPC' }))
    const exporting = exportLetters({ ...stand.context, print }, options(), '-')
    await expect(exporting).rejects.toThrow('Cannot write to standard output: the disk is full')
  })

  test.each([
    ['ENOSPC', 'the disk is full'],
    ['EDQUOT', 'no room left (EDQUOT)'],
    ['EIO', 'EIO'],
  ])('content that cannot be shown (%s) is no bug: it says why', async (code, why) => {
    const print = () => Promise.reject(Object.assign(new Error('no'), { code }))
    const shown = { config: stand.config, content: true }
    const told = { code: 'misconfigured', message: `Cannot write to standard output: ${why}` }
    await expect(showLetter({ ...stand.context, print }, shown, 1)).rejects.toMatchObject(told)
    await expect(showQuarantine({ ...stand.context, print }, shown, 1)).rejects.toMatchObject(told)
  })

  test('a reader that wants no more of what is shown is no failure', async () => {
    const print = () => Promise.reject(Object.assign(new Error('no'), { code: 'EPIPE' }))
    const shown = { config: stand.config, content: true }
    expect(await showLetter({ ...stand.context, print }, shown, 1)).toBe(0)
    expect(await showQuarantine({ ...stand.context, print }, shown, 1)).toBe(0)
  })

  test('export overwrites nothing and leaves nothing half done', async () => {
    const file = join(stand.folder, 'precious')
    writeFileSync(file, 'precious')
    await expect(exportLetters(stand.context, options(), file)).rejects.toThrow('not overwritten')
    expect(readFileSync(file, 'utf8')).toBe('precious')
    await expect(exportLetters(stand.context, options(), join(file, 'below'))).rejects.toThrow('Cannot write')
    expect(existsSync(join(file, 'below'))).toBe(false)
  })

  test('list --json tells each as one object a line, as export does and without content; what is no data goes elsewhere', async () => {
    const facts = (text: string) =>
      text
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as Record<string, unknown>)
    expect(await exportLetters(stand.context, options(), '-')).toBe(0)
    const letters = facts(stand.heard().stdout).map((each) => ({ ...each, entry: undefined }))
    expect(await listLetters(stand.context, options({ json: true }))).toBe(0)
    expect(facts(stand.heard().stdout)).toEqual(letters)
    expect(letters.length).toBeGreaterThan(1)
    expect(await listLetters(stand.context, options({ json: true, limit: 1 }))).toBe(0)
    const { stdout, stderr } = stand.heard()
    expect(facts(stdout)).toEqual(letters.slice(0, 1))
    expect(stderr).toContain('there are more than these 1')
    expect(await exportQuarantine(stand.context, options(), '-')).toBe(0)
    const elements = facts(stand.heard().stdout).map((each) => ({ ...each, base64: undefined }))
    expect(await listQuarantine(stand.context, options({ json: true }))).toBe(0)
    const quarantined = stand.heard().stdout
    expect(facts(quarantined)).toEqual(elements)
    expect(stdout + quarantined).not.toContain('planted')
    await listLetters(stand.context, options({ json: true, sink: 'archive' }))
    expect(stand.heard().stdout).toBe('')
  })

  test('the quarantine is listed and shown without its bytes, and exported with them', async () => {
    expect(await listQuarantine(stand.context, options())).toBe(0)
    expect(await showQuarantine(stand.context, { config: stand.config, content: false }, 1)).toBe(0)
    const { stdout } = stand.heard()
    expect(stdout).toContain('no_id')
    expect(stdout).not.toContain('planted')
    expect(await showQuarantine(stand.context, { config: stand.config, content: true }, 1)).toBe(0)
    expect(stand.heard().stdout).toBe('{"planted":"\u001b"}')
    expect(await exportQuarantine(stand.context, options(), '-')).toBe(0)
    const line = JSON.parse(stand.heard().stdout) as { base64: string }
    expect(Buffer.from(line.base64, 'base64').toString()).toBe('{"planted":"\u001b"}')
    expect(await showQuarantine(stand.context, { config: stand.config, content: true }, 9)).toBe(1)
  })

  test('quarantine drop needs --yes or explicit ids, and tells of ids that are none', async () => {
    expect(await dropQuarantine(stand.context, options())).toBe(2)
    expect(stand.heard().stderr).toContain('say --yes')
    expect(await dropQuarantine(stand.context, options({ id: [9] }))).toBe(1)
    expect(stand.heard()).toMatchObject({
      stdout: '0 quarantined elements dropped\n',
      stderr: expect.stringContaining('nothing quarantined under 9') as string,
    })
    expect(await dropQuarantine(stand.context, options({ id: [1] }))).toBe(0)
    expect(await dropQuarantine(stand.context, options({ yes: true }))).toBe(0)
    const { stdout } = stand.heard()
    expect(stdout).toBe('1 quarantined element dropped\n0 quarantined elements dropped\n')
    await listQuarantine(stand.context, options())
    expect(stand.heard().stdout).toBe('nothing is quarantined\n')
  })
})

test('a journal in use without a socket is a clear error', async () => {
  held = await stand.openJournal()
  await expect(listLetters(stand.context, options())).rejects.toThrow(
    /is in use, and its process does not answer/,
  )
})

test('a journal that is not there is named by its whole path: a relative one begins at the folder of the configuration', async () => {
  const name = `not-there-${process.pid}.db`
  const text = readFileSync(stand.config, 'utf8').replace(stand.path, `./${name}`)
  writeFileSync(stand.config, text)
  await expect(listLetters(stand.context, options())).rejects.toThrow(
    `There is no journal at ${join(dirname(stand.config), name)} yet: nothing`,
  )
})

test('where nothing has run there is no journal, and none is made', async () => {
  stand.remove()
  stand = openStand()
  await expect(listLetters(stand.context, options())).rejects.toThrow(
    `There is no journal at ${stand.path} yet: nothing has run on this configuration`,
  )
  expect(existsSync(stand.path)).toBe(false)
})

describe.each([
  ['list', (sink: string) => listLetters(stand.context, options({ sink }))],
  ['retry', (sink: string) => retryLetters(stand.context, options({ sink }))],
  ['drop', (sink: string) => dropLetters(stand.context, options({ sink, yes: true }))],
  ['export', (sink: string) => exportLetters(stand.context, options({ sink }), '-')],
])('%s of a sink', (verb, ask) => {
  test('that there is none of is wrong usage, and tells which there are', async () => {
    expect(await ask('nope')).toBe(2)
    expect(stand.heard()).toEqual({
      stdout: '',
      stderr: 'error: there is no sink nope; there are siem, archive\n',
    })
  })

  test('that left the configuration reaches its letters', async () => {
    writeFileSync(stand.config, readFileSync(stand.config, 'utf8').replace('name: siem', 'name: other'))
    expect(await ask('siem')).toBe(verb === 'retry' ? 1 : 0)
    stand.heard()
    expect(await ask('nope')).toBe(2)
    const left = verb === 'drop' ? '' : ', siem'
    expect(stand.heard().stderr).toContain(`there are other, archive${left}\n`)
  })
})

test('an id that is not there is told by list too', async () => {
  expect(await listLetters(stand.context, options({ id: [99] }))).toBe(1)
  expect(stand.heard().stderr).toContain('no dead letter 99')
  expect(await listQuarantine(stand.context, options({ id: [99] }))).toBe(1)
  expect(stand.heard().stderr).toContain('nothing quarantined under 99')
})

test('while the file is at fault the names are those of the daemon', async () => {
  await startDaemon()
  writeFileSync(stand.config, `${readFileSync(stand.config, 'utf8')}nonsense: true\n`)
  expect(await listLetters(stand.context, options({ sink: 'nope' }))).toBe(2)
  expect(stand.heard().stderr).toContain('there is no sink nope; there are archive, siem')
})

test('a letter of a sink that left the configuration stays, and is told', async () => {
  writeFileSync(stand.config, readFileSync(stand.config, 'utf8').replace('name: siem', 'name: other'))
  expect(await retryLetters(stand.context, options({ sink: 'siem' }))).toBe(1)
  expect(stand.heard().stderr).toContain('2 dead letters left where they are: siem is not in')
})

test('letters by the thousand are put back in chunks, each once', async () => {
  const journal = await startDaemon()
  const many = Array.from({ length: 1200 }, (_, i) => spec(100 + i))
  const { part } = await import('../../../contract/journal-parts.ts')
  await journal.append(part(many))
  const parked = many.map((_, i) => ({ seq: 5 + i, code: 'refused', reason: 'no' }))
  await journal.ack('siem', { first: 5, through: 1204, parked })
  expect(await retryLetters(stand.context, options({ sink: 'siem' }))).toBe(0)
  expect(stand.heard().stdout).toContain('1,202 dead letters put back')
  expect(await journal.deadLetters({})).toEqual([])
})

test('through a daemon, a faulty configuration does not hide the dead letters', async () => {
  const text = readFileSync(stand.config, 'utf8')
  const spoil = () => writeFileSync(stand.config, `${text}nonsense: true\n`)
  spoil()
  await expect(listLetters(stand.context, options())).rejects.toThrow('nonsense')
  writeFileSync(stand.config, text)
  await startDaemon()
  spoil()
  expect(await listLetters(stand.context, options())).toBe(0)
  const { stdout, stderr } = stand.heard()
  expect(stdout.split('\n')).toHaveLength(8)
  expect(stderr).toContain('is invalid; a running daemon')
})

test('an export of none makes no file, and says so', async () => {
  const file = join(stand.folder, 'none.ndjson')
  expect(await exportLetters(stand.context, options({ sink: 'archive' }), file)).toBe(0)
  expect(stand.heard().stderr).toBe(`auditferry: no dead letters to export: ${file} was not made\n`)
  expect(await exportQuarantine(stand.context, options({ id: [99] }), file)).toBe(1)
  expect(stand.heard().stderr).toContain(`nothing quarantined to export: ${file} was not made\n`)
  expect(existsSync(file)).toBe(false)
})
