// CEF, read back by a parser of the tests’ own.
import fc from 'fast-check'
import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { cef } from '../../../src/formats/cef.ts'
import { documentedTypes, eventType } from '../../../src/formats/event-types.ts'
import { documentedTypes as typesOfMock } from '../../../src/mock/catalogue.ts'
import { neutralText } from '../../../src/formats/one-line.ts'
import { parseCef } from '../../fakes/cef-parser.ts'
import type { CefEvent } from '../../fakes/cef-parser.ts'
import { runOf } from '../../fakes/lines.ts'
import { readJson } from '../../fakes/json-reader.ts'
import type { Json } from '../../fakes/json-reader.ts'
import {
  anyEntry,
  hostile,
  hostileEntries,
  lineOf,
  membersOf,
  plain,
  runOfJson,
  sources,
} from './field-entries.ts'

const ofText: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  audit: { externalId: 'id', suser: 'user', src: 'ip', c6a2: 'ip', requestClientApplication: 'user_agent' },
  history: {
    externalId: 'unique_usage_id',
    suser: 'user',
    cat: 'product_surface_area',
    act: 'action',
    request: 'link',
  },
  vault: { externalId: 'id', suser: 'creator_email' },
}

/** The entry's members, as docs/formats.md says to get them back. */
function membersIn(source: string, { classId, extension }: CefEvent): Map<string, Json> {
  const reported = new Map<string, Json>()
  const group = source.split('.')[0] ?? ''
  if (['audit', 'vault.projects'].includes(source) && classId !== source) reported.set('type', classId)
  for (const [key, member] of Object.entries(ofText[group] ?? {})) {
    const value = extension.get(key)
    if (value !== undefined) reported.set(member, value)
  }
  const labelled = (key: string) => [extension.get(`${key}Label`) ?? '', extension.get(key)] as const
  for (const [label, value] of [labelled('cs2'), labelled('cs5')])
    if (value !== undefined) reported.set(label, value)
  for (const [label, value] of [labelled('cn2'), labelled('cn3'), labelled('cs1')])
    if (value !== undefined) reported.set(label, readJson(value))
  const [label, others] = labelled('cs4')
  if (others !== undefined) {
    expect(label).toBe('other_fields')
    for (const [member, value] of membersOf(others)) reported.set(member, value)
  }
  return reported
}

const escaped = (text: string) =>
  Array.from(
    { length: text.length },
    (_, i) => `\\u${text.charCodeAt(i).toString(16).padStart(4, '0')}`,
  ).join('')

const lineFor = (source: (typeof sources)[number], entry: object) =>
  lineOf(cef(), runOfJson(source, JSON.stringify(entry)))

describe('any entry can be read back from its line of CEF, member by member, and forges nothing', () => {
  test.each(sources)('%s', (source) => {
    const format = cef()
    fc.assert(
      fc.property(anyEntry(source), (json) => {
        const run = runOfJson(source, json)
        const event = parseCef(lineOf(format, run))
        const [reported, wanted] = [membersIn(source, event), membersOf(json)]
        // Of the older history: the field of the user has the value that is under this name among the others.
        if (wanted.has('email') && !wanted.has('user')) reported.delete('user')
        expect(reported).toEqual(wanted)
        const { name, severity } = eventType(source, run.entries.type(0))
        expect([event.name, event.severity]).toEqual([name, severity])
        expect([event.vendor, event.product, event.version]).toEqual(['Auditferry', 'Workspace', '1'])
        expect(event.extension.get('rt')).toBe(String(Math.floor(run.entries.at(0) / 1000)))
        expect(event.extension.get('deviceExternalId')).toBe('acme')
        expect([event.extension.get('cs3'), event.extension.get('cs3Label')]).toEqual([source, 'source'])
      }),
      { numRuns: 300 },
    )
  })

  test('a hostile text in every member at once', () => {
    for (const { source, json } of hostileEntries()) {
      const event = parseCef(lineOf(cef(), runOfJson(source, json)))
      expect(membersIn(source, event), json).toEqual(membersOf(json))
    }
  })
})

describe('a field of CEF', () => {
  test('has what it can of a value that it cannot represent exactly; the value itself is among the others', () => {
    const user = `${'x'.repeat(2000)}@example.com`
    const { extension } = parseCef(lineFor('audit', { ...plain.audit, user, user_agent: 'a\u0000b\tc' }))
    expect(extension.get('suser')).toBe('x'.repeat(1023))
    expect(extension.get('requestClientApplication')).toBe('a\\u0000b\\u0009c')
    expect(JSON.parse(extension.get('cs4') ?? '')).toEqual({ user, user_agent: 'a\u0000b\tc' })
  })

  test.each([' a', 'a ', ' é', 'é\u00a0', ''])(
    '%j is among the others too, since some readers trim',
    (user) => {
      const { extension } = parseCef(lineFor('audit', { ...plain.audit, user }))
      expect(extension.get('suser') ?? '').toBe(user)
      expect(JSON.parse(extension.get('cs4') ?? '')).toEqual({ user })
    },
  )

  test('keeps CR and LF as CEF writes them', () => {
    const line = lineFor('audit', { ...plain.audit, user_agent: 'a\r\nb' })
    expect(line).toContain(' requestClientApplication=a\\r\\nb ')
    expect(parseCef(line).extension.has('cs4')).toBe(false)
  })

  test('never has half of a character, wherever it is cut', () => {
    for (const [before, reported] of [
      [1021, `${'x'.repeat(1021)}😀`],
      [1022, 'x'.repeat(1022)],
      [1023, 'x'.repeat(1023)],
    ] as const) {
      const user = `${'x'.repeat(before)}😀😀`
      expect(parseCef(lineFor('audit', { ...plain.audit, user })).extension.get('suser')).toBe(reported)
    }
  })

  test('a long text may be written in any way and begin anywhere: only its beginning is decoded', () => {
    for (const unit of ['\u0001', 'é', '\ud83d\ude00', '\\', '"', '\u2028']) {
      for (const written of [JSON.stringify(unit).slice(1, -1), escaped(unit)]) {
        for (let before = 0; before < 6; before++) {
          const user = 'x'.repeat(before) + unit.repeat(9000)
          const json = JSON.stringify({ ...plain.audit, user: '@' }).replace(
            '@',
            () => 'x'.repeat(before) + written.repeat(9000),
          )
          const { extension } = parseCef(lineOf(cef(), runOfJson('audit', json)))
          const reported = neutralText(user, '').slice(0, 1023)
          expect(reported.startsWith(extension.get('suser') ?? '-')).toBe(true)
          expect(extension.get('suser')?.length).toBeGreaterThan(1021)
          expect(membersOf(extension.get('cs4') ?? '').get('user')).toBe(user)
        }
      }
    }
  })

  test('repeated JSON is written once, among the others', () => {
    const json = JSON.stringify(plain.audit).replace('"data":', '"data":1,"data":')
    const { extension } = parseCef(lineOf(cef(), runOfJson('audit', json)))
    expect([extension.has('cs1'), extension.get('cs4')]).toEqual([false, '{"data":1,"data":{}}'])
  })

  test('a class id is cut, so that the severity is never far from the start of a line', () => {
    for (const type of ['x'.repeat(10_000), '|'.repeat(10_000), '\u0000'.repeat(10_000)]) {
      const line = lineFor('audit', { ...plain.audit, type })
      expect(line.indexOf('|3|rt=')).toBeLessThan(2000)
      expect(JSON.parse(parseCef(line).extension.get('cs4') ?? '')).toEqual({ type })
    }
  })

  test('src has an IPv4 address, c6a2 an IPv6 one, and anything else is among the others', () => {
    const of = (ip: unknown) => parseCef(lineFor('audit', { ...plain.audit, ip })).extension
    expect(of('203.0.113.7').get('src')).toBe('203.0.113.7')
    expect([of('2001:db8::1').get('c6a2'), of('2001:db8::1').get('c6a2Label')]).toEqual([
      '2001:db8::1',
      'Source IPv6 Address',
    ])
    for (const ip of ['unknown', '', '1.2.3', 'fe80::1%eth0', ['203.0.113.7'], null, 7]) {
      expect([of(ip).has('src'), of(ip).has('c6a2')]).toEqual([false, false])
      expect(JSON.parse(of(ip).get('cs4') ?? '')).toEqual({ ip })
    }
  })

  test('an entry with a member twice has the last in the field and both among the others', () => {
    const json = JSON.stringify(plain.audit).replace('"user":', '"user":"eve@example.com","user":')
    const line = lineOf(cef(), runOfJson('audit', json))
    expect(line).toContain(' suser=ann@example.com ')
    expect(line).toContain(' cs4={"user":"eve@example.com","user":"ann@example.com"} ')
  })

  test('a member whose key is written with escapes has its field', () => {
    const line = lineOf(
      cef(),
      runOfJson('audit', JSON.stringify(plain.audit).replace('"user":', '"\\u0075ser":')),
    )
    expect(line).toContain(' suser=ann@example.com ')
    expect(parseCef(line).extension.has('cs4')).toBe(false)
  })

  test('JSON is written in its own bytes: numbers of any size, escapes, order', () => {
    const data = '{"n":123456789012345678901,"e":1e400,"s":"\\u00e9\\/","a":[ 1,2 ]}'
    const json = JSON.stringify(plain.audit).replace('"data":{}', `"data":${data}`)
    expect(parseCef(lineOf(cef(), runOfJson('audit', json))).extension.get('cs1')).toBe(data)
  })

  test('a version from 2 on and a replay are included', () => {
    const run = runOfJson('history.usage', JSON.stringify(plain['history.usage']), { replay: true })
    run.entries.columns[7] = 3
    const { extension } = parseCef(lineOf(cef(), run))
    expect([extension.get('cn1'), extension.get('cn1Label')]).toEqual(['3', 'version'])
    expect([extension.get('cs6'), extension.get('cs6Label')]).toEqual(['true', 'replay'])
  })
})

describe('a line of CEF', () => {
  test('of a row of the older history, which has neither id nor time of its own, has the assigned ones', () => {
    const raw = JSON.stringify({ email: 'ann@example.com', Task: 'Ask', 'Client Matter #': '1', source: 'x' })
    const run = runOf([{ id: 'f'.repeat(32), time: '2026-11-21 00:00:00', type: '', raw }], {
      stream: { workspace: 'acme', source: 'history.usage' },
    })
    const { extension } = parseCef(lineOf(cef(), run))
    expect([extension.get('externalId'), extension.get('cs2'), extension.get('cs2Label')]).toEqual([
      'f'.repeat(32),
      '2026-11-21 00:00:00',
      'time',
    ])
    expect(extension.get('suser')).toBe('ann@example.com')
    expect(extension.get('cs4')).toBe(raw)
  })

  test('of each documented type, of unknown ones and of each source is unchanged', async () => {
    const types = [
      ...documentedTypes.map(({ classId }) => classId),
      'user:not_known_yet',
      'no_group',
      'a|b\\c=d',
      '',
    ]
    const lines = types.map((type) => lineFor('audit', { ...plain.audit, type }))
    for (const source of sources.slice(1)) lines.push(lineFor(source, plain[source]))
    await expect(`${lines.join('\n')}\n`).toMatchFileSnapshot('../../fixtures/formats/types.cef')
  })

  test('is the same whatever the format wrote before', () => {
    const stream = { workspace: 'acme', source: 'audit' } as const
    const slices = [
      runOfJson('audit', JSON.stringify({ ...plain.audit, type: '\nhistory.usage' })),
      ...sources.map((source) => runOfJson(source, JSON.stringify(plain[source]))),
      runOfJson('audit', JSON.stringify(plain.audit), { stream: { workspace: 'other', source: 'audit' } }),
      runOfJson('audit', JSON.stringify(plain.audit), { stream }),
      runOfJson('audit', JSON.stringify(plain.audit), { stream, replay: true }),
      ...hostile.map((type) => runOfJson('audit', JSON.stringify({ ...plain.audit, type }))),
      ...Array.from({ length: 1100 }, (_, i) =>
        runOfJson('audit', JSON.stringify({ ...plain.audit, type: `x:${i}` })),
      ),
    ]
    const kept = cef()
    for (const run of [...slices, ...[...slices].reverse()])
      expect(lineOf(kept, run)).toBe(lineOf(cef(), run))
  })

  test('of an entry of megabytes, of 512 levels or of a million members is written', () => {
    const deep = '['.repeat(510) + ']'.repeat(510)
    const members = Array.from({ length: 50_000 }, (_, i) => `"k${i}":${i}`).join(',')
    const start = JSON.stringify(plain.audit).slice(0, -1)
    for (const more of [
      `"d":${deep}`,
      `"s":"${'\\u0000='.repeat(100_000)}"`,
      `"user":"${'\\t'.repeat(400_000)}"`,
      members,
    ]) {
      const json = `${start},${more}}`
      expect(membersIn('audit', parseCef(lineOf(cef(), runOfJson('audit', json))))).toEqual(membersOf(json))
    }
  })

  test('docs/formats.md has each type under its severity, and the rule of its name', () => {
    const groups: Record<string, string> = { auth: 'Authentication', api: 'API', vault: 'Vault inventory' }
    const listed = readFileSync('docs/formats.md', 'utf8')
      .split(/^### Severity /m)
      .slice(1)
      .flatMap((section) =>
        Array.from(section.matchAll(/^- `(\w+):` (.*)$/gm), ([, group = '', actions = '']) =>
          Array.from(actions.matchAll(/`(\w+)`/g), ([, action = '']) => ({
            classId: `${group}:${action}`,
            severity: Number.parseInt(section),
            name: `${groups[group] ?? group.charAt(0).toUpperCase() + group.slice(1)}: ${action
              .replaceAll('_', ' ')
              .replace(/\b(dms|api|ooxml)\b/g, (word) => word.toUpperCase())}`,
          })),
        ).flat(),
      )
    const byId = (a: { classId: string }, b: { classId: string }) => (a.classId < b.classId ? -1 : 1)
    const wanted = documentedTypes.map(({ classId, severity, name }) => ({ classId, severity, name }))
    expect(listed.sort(byId)).toEqual(wanted.sort(byId))
  })

  test('of an entry full of control characters stays within a few times its size', () => {
    const json = JSON.stringify({ ...plain.audit, data: '\x7f'.repeat(1_200_000) })
    const { extension } = parseCef(lineOf(cef(), runOfJson('audit', json)))
    const reported = readJson(extension.get('cs1') ?? '')
    expect(reported).toBe('\x7f'.repeat(2 ** 20) + '?'.repeat(1_200_000 - 2 ** 20))
  })

  test('every type that is documented has a name and a severity, each once', () => {
    // Those of the vault inventory are ours: docs/records.md.
    const ofApi = documentedTypes.filter(({ category }) => category !== 'vault')
    expect(ofApi.map(({ classId }) => classId).sort()).toEqual([...typesOfMock].sort())
    expect(new Set(documentedTypes.map(({ name }) => name)).size).toBe(documentedTypes.length)
  })
})
