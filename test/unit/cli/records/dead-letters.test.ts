// The commands for dead letters and quarantine: with
// the journal to themselves, and through a daemon.
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
import { retryWantedDeadLetters } from '../../../../src/app/delivery.ts'
import { openControl } from '../../../../src/control/server.ts'
import type { Control } from '../../../../src/control/server.ts'
import { unasked } from '../../../fakes/unasked.ts'
import { entriesOf, idsOf, logOf, part, plenty, spec, uuid } from '../../../contract/journal-parts.ts'
import { openRegistrySetup } from '../../observability/registry-setup.ts'
import { codeIn } from '../context.ts'
import { fill, openSetup } from '../setup.ts'

let setup: ReturnType<typeof openSetup>
let held: Journal | undefined
let control: Control | undefined

beforeEach(async () => {
  setup = openSetup()
  const journal = await setup.openJournal()
  await fill(journal)
  await journal.close()
})
afterEach(async () => {
  await control?.close()
  await held?.close()
  control = undefined
  held = undefined
  setup.remove()
})

/** A daemon, as far as the commands see it. */
async function startDaemon(): Promise<Journal> {
  held = await setup.openJournal()
  const { registry, metrics, taps } = openRegistrySetup()
  const journal = held
  const { sinks } = knownConfig(setup.config, setup.context)
  const retry = (query: DeadLetterQuery) => retryWantedDeadLetters(journal, sinks, query)
  const parts = { registry, metrics, taps, journal, retry }
  control = await openControl({ ...unasked, journalPath: setup.path, log: logOf(), ...parts })
  return held
}

const options = (more: object = {}) => ({ config: setup.config, id: [], ...more })
const raw = (n: number) => Buffer.from(entriesOf([spec(n, { body: 'planted-content' })]).raw(0)).toString()

describe.each(['without a daemon', 'through a daemon'])('%s', (how) => {
  beforeEach(async () => {
    if (how === 'through a daemon') await startDaemon()
  })

  test('list and show cut a long type, and never within a character', async () => {
    const journal = held ?? (await setup.openJournal())
    const long = { time: '2026-11-21T12:34:56+02:00', type: `${'t'.repeat(79)}${'\u{1f4dc}'.repeat(35_000)}` }
    await journal.append(part([spec(5, long)]))
    await journal.ack('siem', {
      first: 5,
      through: 5,
      rejected: [{ seq: 5, code: 'refused', reason: 'no' }],
    })
    if (!held) await journal.close()
    await listLetters(setup.context, options())
    const { stdout } = setup.heard()
    expect(stdout).toContain(`  2026-11-21 10:34:56  ${'t'.repeat(79)}…  `)
    expect(Math.max(...stdout.split('\n').map((line) => line.length))).toBeLessThan(250)
    await showLetter(setup.context, { config: setup.config, content: false }, 3)
    expect(setup.heard().stdout).toMatch(/^type +t{79}…$/m)
  })

  test('list prints each dead letter with its reason, without content', async () => {
    expect(await listLetters(setup.context, options())).toBe(0)
    const { stdout } = setup.heard()
    expect(stdout.split('\n')).toHaveLength(8)
    expect(stdout).toMatch(/^ID {2}SINK {2}SOURCE {6}TIME \(UTC\) {2}/)
    expect(stdout).toContain('acme audit')
    // The receiver's text must not control the terminal.
    expect(stdout).toContain('Splunk said: \\u{1b}[31mno')
    expect(stdout).not.toContain('planted')
    await listLetters(setup.context, options({ limit: 1 }))
    expect(setup.heard().stdout).toContain(
      'there are more than these 1: a larger --limit shows them, dead-letters export writes all of them into a file\n',
    )
    await listLetters(setup.context, options({ sink: 'archive' }))
    expect(setup.heard().stdout).toBe('no dead letters match these options\n')
  })

  test('a list of ids that was cut does not report ids beyond its end as missing', async () => {
    const journal = held ?? (await setup.openJournal())
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
      rejected: [{ seq: 1, code: 'refused', reason: 'no' }],
    })
    if (!held) await journal.close()
    for (const list of [listLetters, listQuarantine]) {
      expect(await list(setup.context, options({ id: [1, 2, 3], limit: 1 }))).toBe(0)
      expect(await list(setup.context, options({ id: [1, 2, 3, 4] }))).toBe(1)
    }
  })

  test('show prints everything but the content, and with --content only the content, byte for byte', async () => {
    expect(await showLetter(setup.context, { config: setup.config, content: false }, 1)).toBe(0)
    const { stdout } = setup.heard()
    expect(stdout).toContain(uuid(2))
    expect(stdout).not.toContain('planted')
    expect(await showLetter(setup.context, { config: setup.config, content: true }, 1)).toBe(0)
    expect(setup.heard().stdout).toBe(`${raw(2)}\n`)
    expect(await showLetter(setup.context, { config: setup.config, content: true }, 99)).toBe(1)
    expect(setup.heard().stderr).toContain('no dead letter 99')
  })

  test('retry puts dead letters back by id, and reports unknown ids', async () => {
    expect(await retryLetters(setup.context, options({ id: [2, 99] }))).toBe(1)
    const { stdout, stderr } = setup.heard()
    expect(stdout).toContain("1 dead letter put back at the journal's end")
    expect(stderr).toContain('no dead letter 99')
    const journal = held ?? (held = await setup.openJournal())
    const batch = await journal.take('siem', plenty)
    expect(idsOf(batch)).toEqual([uuid(3)])
    expect(batch?.slices[0]?.onlySink).toBe('siem')
    expect((await journal.deadLetters({})).map(({ id }) => id)).toEqual([1])
  })

  test('retry takes all of a sink, and requires a choice', async () => {
    expect(await codeIn(setup.context, retryLetters(setup.context, options()))).toBe(2)
    expect(setup.heard().stderr).toContain('which to retry?')
    expect(await retryLetters(setup.context, options({ sink: 'siem' }))).toBe(0)
    expect(setup.heard().stdout).toContain('2 dead letters put back')
  })

  test('retry of an unknown id says only that', async () => {
    expect(await retryLetters(setup.context, options({ id: [99_999] }))).toBe(1)
    expect(setup.heard()).toMatchObject({
      stdout: '',
      stderr: 'auditferry: no dead letter 99999: see dead-letters list\n',
    })
  })

  test.each([
    ['sources', 'sources: [vault.projects]'],
    ['types', "types: ['*', '!user:create_query']"],
    ['deny', 'deny: { body: [planted-content] }'],
  ])(
    'a dead letter that its sink no longer takes because of its %s is not put back, and the command says so',
    async (key, setting) => {
      await control?.close()
      await held?.close()
      const text = readFileSync(setup.config, 'utf8').replace('name: siem,', `name: siem, ${setting},`)
      writeFileSync(setup.config, text)
      if (held) await startDaemon()
      expect(await retryLetters(setup.context, options({ sink: 'siem' }))).toBe(1)
      const { stdout, stderr } = setup.heard()
      expect(stdout).toContain('0 dead letters put back')
      expect(stderr).toContain(`2 dead letters left where they are: siem no longer takes them (its ${key})`)
      const journal = held ?? (held = await setup.openJournal())
      expect(await journal.deadLetters({})).toHaveLength(2)
      expect(await journal.take('siem', plenty)).toBeUndefined()
    },
  )

  test('drop needs --yes or explicit ids', async () => {
    expect(await codeIn(setup.context, dropLetters(setup.context, options()))).toBe(2)
    expect(setup.heard().stderr).toContain('say --yes')
    expect(await codeIn(setup.context, dropLetters(setup.context, options({ sink: 'siem' })))).toBe(2)
    expect(setup.heard().stderr).toContain('say --yes')
    expect(await dropLetters(setup.context, options({ id: [1] }))).toBe(0)
    expect(await dropLetters(setup.context, options({ yes: true }))).toBe(0)
    expect(setup.heard().stdout).toBe('1 dead letter dropped\n1 dead letter dropped\n')
    await listLetters(setup.context, options())
    expect(setup.heard().stdout).toBe('no dead letters\n')
  })

  test('export writes lines with raw bytes and reasons to a private new file, or to standard output', async () => {
    const file = join(setup.folder, 'letters.ndjson')
    expect(await exportLetters(setup.context, options(), file)).toBe(0)
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
    setup.heard()
    expect(await exportLetters(setup.context, options({ id: [2] }), '-')).toBe(0)
    expect(setup.heard().stdout).toBe(`${lines[1] ?? ''}\n`)
  })

  test('an export to an unwritable standard output says why', async () => {
    const print = () => Promise.reject(Object.assign(new Error('no'), { code: 'ENOSPC' }))
    const exporting = exportLetters({ ...setup.context, print }, options(), '-')
    await expect(exporting).rejects.toThrow('Cannot write to standard output: the disk is full')
  })

  test.each([
    ['ENOSPC', 'the disk is full'],
    ['EDQUOT', 'no room left (EDQUOT)'],
    ['EIO', 'EIO'],
  ])('content that cannot be printed (%s) is reported with the reason, not as a bug', async (code, why) => {
    const print = () => Promise.reject(Object.assign(new Error('no'), { code }))
    const shown = { config: setup.config, content: true }
    const reported = { code: 'misconfigured', message: `Cannot write to standard output: ${why}` }
    await expect(showLetter({ ...setup.context, print }, shown, 1)).rejects.toMatchObject(reported)
    await expect(showQuarantine({ ...setup.context, print }, shown, 1)).rejects.toMatchObject(reported)
  })

  test('a closed pipe while showing content is no failure', async () => {
    const print = () => Promise.reject(Object.assign(new Error('no'), { code: 'EPIPE' }))
    const shown = { config: setup.config, content: true }
    expect(await showLetter({ ...setup.context, print }, shown, 1)).toBe(0)
    expect(await showQuarantine({ ...setup.context, print }, shown, 1)).toBe(0)
  })

  test('export overwrites no file and leaves none half written', async () => {
    const file = join(setup.folder, 'precious')
    writeFileSync(file, 'precious')
    await expect(exportLetters(setup.context, options(), file)).rejects.toThrow('not overwritten')
    expect(readFileSync(file, 'utf8')).toBe('precious')
    await expect(exportLetters(setup.context, options(), join(file, 'below'))).rejects.toThrow('Cannot write')
    expect(existsSync(join(file, 'below'))).toBe(false)
  })

  test('list --json prints one object per line like export, without content; notices go to standard error', async () => {
    const facts = (text: string) =>
      text
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as Record<string, unknown>)
    expect(await exportLetters(setup.context, options(), '-')).toBe(0)
    const letters = facts(setup.heard().stdout).map((each) => ({ ...each, entry: undefined }))
    expect(await listLetters(setup.context, options({ json: true }))).toBe(0)
    expect(facts(setup.heard().stdout)).toEqual(letters)
    expect(letters.length).toBeGreaterThan(1)
    expect(await listLetters(setup.context, options({ json: true, limit: 1 }))).toBe(0)
    const { stdout, stderr } = setup.heard()
    expect(facts(stdout)).toEqual(letters.slice(0, 1))
    expect(stderr).toContain('there are more than these 1')
    expect(await exportQuarantine(setup.context, options(), '-')).toBe(0)
    const elements = facts(setup.heard().stdout).map((each) => ({ ...each, base64: undefined }))
    expect(await listQuarantine(setup.context, options({ json: true }))).toBe(0)
    const quarantined = setup.heard().stdout
    expect(facts(quarantined)).toEqual(elements)
    expect(stdout + quarantined).not.toContain('planted')
    await listLetters(setup.context, options({ json: true, sink: 'archive' }))
    expect(setup.heard().stdout).toBe('')
  })

  test('quarantine is listed and shown without bytes, and exported with them', async () => {
    expect(await listQuarantine(setup.context, options())).toBe(0)
    expect(await showQuarantine(setup.context, { config: setup.config, content: false }, 1)).toBe(0)
    const { stdout } = setup.heard()
    expect(stdout).toContain('no_id')
    expect(stdout).not.toContain('planted')
    expect(await showQuarantine(setup.context, { config: setup.config, content: true }, 1)).toBe(0)
    expect(setup.heard().stdout).toBe('{"planted":"\u001b"}')
    expect(await exportQuarantine(setup.context, options(), '-')).toBe(0)
    const line = JSON.parse(setup.heard().stdout) as { base64: string }
    expect(Buffer.from(line.base64, 'base64').toString()).toBe('{"planted":"\u001b"}')
    expect(await showQuarantine(setup.context, { config: setup.config, content: true }, 9)).toBe(1)
  })

  test('quarantine drop needs --yes or explicit ids, and reports unknown ids', async () => {
    expect(await codeIn(setup.context, dropQuarantine(setup.context, options()))).toBe(2)
    expect(setup.heard().stderr).toContain('say --yes')
    expect(await dropQuarantine(setup.context, options({ id: [9] }))).toBe(1)
    expect(setup.heard()).toMatchObject({
      stdout: '0 quarantined elements dropped\n',
      stderr: expect.stringContaining('nothing quarantined under 9') as string,
    })
    expect(await dropQuarantine(setup.context, options({ id: [1] }))).toBe(0)
    expect(await dropQuarantine(setup.context, options({ yes: true }))).toBe(0)
    const { stdout } = setup.heard()
    expect(stdout).toBe('1 quarantined element dropped\n0 quarantined elements dropped\n')
    await listQuarantine(setup.context, options())
    expect(setup.heard().stdout).toBe('nothing is quarantined\n')
  })
})

test('a journal in use without a socket is a clear error', async () => {
  held = await setup.openJournal()
  await expect(listLetters(setup.context, options())).rejects.toThrow(
    /is in use, and its process does not answer/,
  )
})

test('a missing journal is reported with its full path, relative to the folder of the configuration', async () => {
  const name = `not-there-${process.pid}.db`
  const text = readFileSync(setup.config, 'utf8').replace(setup.path, `./${name}`)
  writeFileSync(setup.config, text)
  await expect(listLetters(setup.context, options())).rejects.toThrow(
    `There is no journal at ${join(dirname(setup.config), name)} yet: nothing`,
  )
})

test('before the first run there is no journal, and the command creates none', async () => {
  setup.remove()
  setup = openSetup()
  await expect(listLetters(setup.context, options())).rejects.toThrow(
    `There is no journal at ${setup.path} yet: nothing has run on this configuration`,
  )
  expect(existsSync(setup.path)).toBe(false)
})

describe.each([
  ['list', (sink: string) => listLetters(setup.context, options({ sink }))],
  ['retry', (sink: string) => retryLetters(setup.context, options({ sink }))],
  ['drop', (sink: string) => dropLetters(setup.context, options({ sink, yes: true }))],
  ['export', (sink: string) => exportLetters(setup.context, options({ sink }), '-')],
])('%s by sink', (verb, ask) => {
  test('is wrong usage for an unknown sink, and lists the known ones', async () => {
    expect(await codeIn(setup.context, ask('nope'))).toBe(2)
    expect(setup.heard()).toEqual({
      stdout: '',
      stderr: 'error: there is no sink nope; there are siem, archive\n',
    })
  })

  test('works for the dead letters of a removed sink', async () => {
    writeFileSync(setup.config, readFileSync(setup.config, 'utf8').replace('name: siem', 'name: other'))
    expect(await ask('siem')).toBe(verb === 'retry' ? 1 : 0)
    setup.heard()
    expect(await codeIn(setup.context, ask('nope'))).toBe(2)
    const left = verb === 'drop' ? '' : ', siem'
    expect(setup.heard().stderr).toContain(`there are other, archive${left}\n`)
  })
})

test('list reports unknown ids too', async () => {
  expect(await listLetters(setup.context, options({ id: [99] }))).toBe(1)
  expect(setup.heard().stderr).toContain('no dead letter 99')
  expect(await listQuarantine(setup.context, options({ id: [99] }))).toBe(1)
  expect(setup.heard().stderr).toContain('nothing quarantined under 99')
})

test('while the file is invalid the known names come from the daemon', async () => {
  await startDaemon()
  writeFileSync(setup.config, `${readFileSync(setup.config, 'utf8')}nonsense: true\n`)
  expect(await codeIn(setup.context, listLetters(setup.context, options({ sink: 'nope' })))).toBe(2)
  expect(setup.heard().stderr).toContain('there is no sink nope; there are archive, siem')
})

test('a dead letter of a removed sink stays, and the command says so', async () => {
  writeFileSync(setup.config, readFileSync(setup.config, 'utf8').replace('name: siem', 'name: other'))
  expect(await retryLetters(setup.context, options({ sink: 'siem' }))).toBe(1)
  expect(setup.heard().stderr).toContain('2 dead letters left where they are: siem is not in')
})

test('thousands of dead letters are put back in steps, each once', async () => {
  const journal = await startDaemon()
  const many = Array.from({ length: 1200 }, (_, i) => spec(100 + i))
  const { part } = await import('../../../contract/journal-parts.ts')
  await journal.append(part(many))
  const rejected = many.map((_, i) => ({ seq: 5 + i, code: 'refused', reason: 'no' }))
  await journal.ack('siem', { first: 5, through: 1204, rejected })
  expect(await retryLetters(setup.context, options({ sink: 'siem' }))).toBe(0)
  expect(setup.heard().stdout).toContain('1,202 dead letters put back')
  expect(await journal.deadLetters({})).toEqual([])
})

test('through a daemon, an invalid configuration does not hide the dead letters', async () => {
  const text = readFileSync(setup.config, 'utf8')
  const spoil = () => writeFileSync(setup.config, `${text}nonsense: true\n`)
  spoil()
  await expect(listLetters(setup.context, options())).rejects.toThrow('nonsense')
  writeFileSync(setup.config, text)
  await startDaemon()
  spoil()
  expect(await listLetters(setup.context, options())).toBe(0)
  const { stdout, stderr } = setup.heard()
  expect(stdout.split('\n')).toHaveLength(8)
  expect(stderr).toContain('is invalid; a running daemon')
})

test('an empty export creates no file, and says so', async () => {
  const file = join(setup.folder, 'none.ndjson')
  expect(await exportLetters(setup.context, options({ sink: 'archive' }), file)).toBe(0)
  expect(setup.heard().stderr).toBe(`auditferry: no dead letters to export: ${file} was not made\n`)
  expect(await exportQuarantine(setup.context, options({ id: [99] }), file)).toBe(1)
  expect(setup.heard().stderr).toContain(`nothing quarantined to export: ${file} was not made\n`)
  expect(existsSync(file)).toBe(false)
})
