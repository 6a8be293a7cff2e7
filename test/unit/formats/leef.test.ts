// LEEF, read back by a parser of the tests’ own.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { documentedTypes, eventType } from '../../../src/formats/event-types.ts'
import { leef } from '../../../src/formats/leef.ts'
import { readJson } from '../../fakes/json-reader.ts'
import type { Json } from '../../fakes/json-reader.ts'
import { parseLeef } from '../../fakes/leef-parser.ts'
import type { LeefEvent } from '../../fakes/leef-parser.ts'
import { anyEntry, hostileEntries, lineOf, membersOf, plain, runOfJson, sources } from './field-entries.ts'

const ofText: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  audit: { entryId: 'id', usrName: 'user', src: 'ip', userAgent: 'user_agent' },
  history: {
    entryId: 'unique_usage_id',
    usrName: 'user',
    cat: 'product_surface_area',
    action: 'action',
    url: 'link',
    cmId: 'cm_id',
  },
  vault: { entryId: 'id', usrName: 'creator_email', name: 'name' },
}
const ofNumber = { parentThreadId: 'parent_thread_id', filesCount: 'files_count', sizeBytes: 'size_bytes' }

/** The entry's members, as docs/formats.md says to get them back. */
function membersIn(source: string, { eventId, attributes }: LeefEvent): Map<string, Json> {
  const reported = new Map<string, Json>()
  if (['audit', 'vault.projects'].includes(source) && eventId !== source) reported.set('type', eventId)
  for (const [key, member] of Object.entries(ofText[source.split('.')[0] ?? ''] ?? {})) {
    const value = attributes.get(key)
    if (value !== undefined) reported.set(member, value)
  }
  reported.set(attributes.get('timeField') ?? '', attributes.get('time') ?? '')
  for (const [key, member] of [
    ...Object.entries(ofNumber),
    ['details', attributes.get('detailsField') ?? ''] as const,
  ]) {
    const value = attributes.get(key)
    if (value !== undefined) reported.set(member, readJson(value))
  }
  const others = attributes.get('otherFields')
  if (others !== undefined) for (const [member, value] of membersOf(others)) reported.set(member, value)
  return reported
}

const lineFor = (source: (typeof sources)[number], entry: object) =>
  lineOf(leef(), runOfJson(source, JSON.stringify(entry)))

describe('any entry can be read back from its line of LEEF, member by member, and forges nothing', () => {
  test.each(sources)('%s', (source) => {
    const format = leef()
    fc.assert(
      fc.property(anyEntry(source), (json) => {
        const run = runOfJson(source, json)
        const event = parseLeef(lineOf(format, run))
        const [reported, wanted] = [membersIn(source, event), membersOf(json)]
        // Of the older history: the field of the user has the value that is under this name among the others.
        if (wanted.has('email') && !wanted.has('user')) reported.delete('user')
        expect(reported).toEqual(wanted)
        expect([event.vendor, event.product, event.version]).toEqual(['Auditferry', 'Workspace', '1'])
        const { name, severity } = eventType(source, run.entries.type(0))
        const fixed = { sev: String(severity), eventName: name, workspace: 'acme', source }
        const devTime = String(Math.floor(run.entries.at(0) / 1000))
        expect(Object.fromEntries(event.attributes)).toMatchObject({ ...fixed, devTime })
      }),
      { numRuns: 300 },
    )
  })

  test('a hostile text in every member at once', () => {
    for (const { source, json } of hostileEntries()) {
      const event = parseLeef(lineOf(leef(), runOfJson(source, json)))
      expect(membersIn(source, event), json).toEqual(membersOf(json))
    }
  })
})

describe('an attribute of LEEF', () => {
  test('has a space for a tab, CR and LF; the value itself is among the others', () => {
    const { attributes } = parseLeef(lineFor('audit', { ...plain.audit, user: 'a\tsev=10\r\nb\u0000' }))
    expect(attributes.get('usrName')).toBe('a sev=10  b\\u0000')
    expect(attributes.get('otherFields')).toBe('{"user":"a\\tsev=10\\r\\nb\\u0000"}')
  })

  test('may have pipes, equals signs and backslashes as they are', () => {
    const user = 'a|b=c\\d'
    const { attributes } = parseLeef(lineFor('audit', { ...plain.audit, user }))
    expect([attributes.get('usrName'), attributes.has('otherFields')]).toEqual([user, false])
  })

  test('src has an address of either kind', () => {
    const of = (ip: string) => parseLeef(lineFor('audit', { ...plain.audit, ip })).attributes.get('src')
    expect([of('203.0.113.7'), of('2001:db8::1'), of('unknown')]).toEqual([
      '203.0.113.7',
      '2001:db8::1',
      undefined,
    ])
  })

  test('a pipe in the type becomes an underscore in the header; the type is among the others', () => {
    const event = parseLeef(lineFor('audit', { ...plain.audit, type: 'a|b' }))
    expect([event.eventId, event.attributes.get('otherFields')]).toEqual(['a_b', '{"type":"a|b"}'])
  })

  test('a version from 2 on and a replay are included', () => {
    const run = runOfJson('history.usage', JSON.stringify(plain['history.usage']), { replay: true })
    run.entries.columns[7] = 3
    const { attributes } = parseLeef(lineOf(leef(), run))
    expect([attributes.get('version'), attributes.get('replay')]).toEqual(['3', 'true'])
  })
})

test('a line of LEEF of each documented type, of unknown ones and of each source is unchanged', async () => {
  const types = [
    ...documentedTypes.map(({ classId }) => classId),
    'user:not_known_yet',
    'no_group',
    'a|b\\c=d',
    '',
  ]
  const lines = types.map((type) => lineFor('audit', { ...plain.audit, type }))
  for (const source of sources.slice(1)) lines.push(lineFor(source, plain[source]))
  await expect(`${lines.join('\n')}\n`).toMatchFileSnapshot('../../fixtures/formats/types.leef')
})
