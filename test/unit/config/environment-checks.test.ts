// Checks of what a configuration refers to on this machine, in real folders.
import { execFileSync } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import {
  chmodSync,
  mkdirSync,
  linkSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Sqlite from 'better-sqlite3'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { realFiles, readTextFile, type Files } from '../../../src/config/files.ts'
import { examineConfig } from '../../../src/config/load.ts'
import { loadToRun, checkEnvironment } from '../../../src/config/environment-checks.ts'
import { SCHEMA, schemaIn } from '../../../src/journal/sqlite/files.ts'
import { openRegistered } from '../../fakes/registered.ts'
import { systemClock } from '../../../src/platform/clock.ts'
import { sinkKinds } from '../../../src/sinks/index.ts'
import { certificate } from '../../fakes/certificates.ts'
import { LogLines } from '../../fakes/sink-deps.ts'

let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'config-'))
  writeFileSync(join(folder, 'key'), 'planted-key\n', { mode: 0o400 })
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const nowAt = Date.UTC(2026, 10, 25)

const says = (list: readonly { path: readonly PropertyKey[]; message: string; line: number }[]) =>
  list.map(({ path, message, line }) => `${line} ${path.join('.')}: ${message}`)

/** Large, whatever the size of the volume that these tests run on. */
const roomyFiles: Files = { ...realFiles, volumeBytes: () => 2 ** 40 }

function around(sinks: string, journal = join(folder, 'state', 'a.db'), files = roomyFiles, more = '') {
  const file = join(folder, 'a.yaml')
  const text = `journal: { path: ${journal}${more} }
workspaces:
  - { name: acme, base_url: "https://a.example.com", api_key: "\${file:${folder}/key}", audit: {} }
sinks:
${sinks}`
  writeFileSync(file, text, { mode: 0o600 })
  const { loaded, faults } = examineConfig(file, { env: {}, readFile: readTextFile })
  expect(faults).toEqual([])
  const { faults: found, warnings } = checkEnvironment(loaded ?? expect.fail(), files, nowAt)
  return { faults: says(found), warnings: says(warnings) }
}

const console = '  - { name: console, type: stdout }\n'

test('a path that starts with ~ is a warning, since nothing expands it', () => {
  const sinks = `  - { name: archive, type: file, path: ~/out/entries.ndjson }\n${console}`
  const { warnings } = around(sinks, '~/state/a.db')
  const why = 'begins with ~, which is not expanded here: it names a folder called ~; write the whole path'
  expect(warnings).toEqual([`1 journal.path: ${why}`, `5 sinks.0.path: ${why}`])
})

test('a valid configuration has no faults and no warnings, and the check creates nothing', () => {
  expect(around(`  - { name: a, type: file, path: ${folder}/out/a.ndjson }\n`)).toEqual({
    faults: [],
    warnings: [],
  })
  expect(readdirSync(folder).sort()).toEqual(['a.yaml', 'key'])
})

test('a key that every user may read is a warning', () => {
  chmodSync(join(folder, 'key'), 0o644)
  expect(around(console)).toEqual({
    faults: [],
    warnings: [
      `3 workspaces.0.api_key: \${file:${folder}/key} can be read by every user of this machine: chmod it to 0400`,
    ],
  })
})

test('a secret inside a configuration that every user may read is a warning', () => {
  const hec = '  - { name: a, type: splunk_hec, url: "https://a.example.com", token: t }\n'
  expect(around(hec).warnings).toEqual([])
  chmodSync(join(folder, 'a.yaml'), 0o644)
  expect(around(hec).warnings).toEqual([
    '5 sinks.0.token: this file contains a secret, and every user of this machine can read it: write it as ${file:…} or ${env:…}, or chmod this file to 0400',
  ])
})

test('a secret named by reference is no warning, also if the reference cannot be resolved', () => {
  const file = join(folder, 'a.yaml')
  const reported = (key: string) => {
    writeFileSync(
      file,
      `journal: { path: ${folder}/a.db }
workspaces: [{ name: acme, base_url: "https://a.example.com", api_key: "${key}", audit: {} }]
sinks: [{ name: a, type: stdout }]
`,
      { mode: 0o644 },
    )
    const { loaded, faults } = examineConfig(file, { env: {}, readFile: readTextFile })
    return {
      faults: says(faults),
      warnings: checkEnvironment(loaded ?? expect.fail(), roomyFiles, nowAt).warnings,
    }
  }
  expect(reported(`\${file:${folder}/absent}`)).toEqual({
    faults: [`2 workspaces.0.api_key: \${file:${folder}/absent} cannot be resolved: there is no such file`],
    warnings: [],
  })
  expect(reported('${env:ABSENT}')).toMatchObject({ faults: [expect.anything()], warnings: [] })
  expect(reported('$${env:ABSENT}').warnings).toHaveLength(1)
})

test('a secret mounted by Kubernetes is accepted with any mode; one that every user can change is a warning', () => {
  const real = join(folder, '..2026_11_26_10_00_00.1')
  mkdirSync(real)
  renameSync(join(folder, 'key'), join(real, 'key'))
  symlinkSync('..2026_11_26_10_00_00.1', join(folder, '..data'))
  symlinkSync('..data/key', join(folder, 'key'))
  chmodSync(join(real, 'key'), 0o644)
  expect(around(console)).toEqual({ faults: [], warnings: [] })
  rmSync(join(folder, 'key'))
  writeFileSync(join(folder, 'key'), 'planted-key\n')
  chmodSync(join(folder, 'key'), 0o606)
  expect(around(console).warnings).toEqual([
    `3 workspaces.0.api_key: \${file:${folder}/key} can be changed by every user of this machine: chmod it to 0400`,
  ])
})

test('a journal that others may read is a warning; one that they may replace is a fault, with the message of `run`', async () => {
  const state = join(folder, 'state')
  const journal = join(state, 'a.db')
  mkdirSync(state)
  writeFileSync(journal, '')
  chmodSync(journal, 0o644)
  expect(around(console)).toEqual({
    faults: [],
    warnings: [
      `1 journal.path: ${journal} can be read by every user of this machine (mode 0644): chmod it to 0600`,
    ],
  })
  chmodSync(journal, 0o600)
  chmodSync(state, 0o777)
  symlinkSync('/dev/null', `${journal}.ballast`)
  const [fault = ''] = around(console).faults
  expect(fault).toContain(`1 journal.path: the folder ${state} can be written by every user of this machine`)
  const opening = openRegistered({
    ...{ path: journal, maxBytes: 1e9, keepKeysMs: 1e9, keepDeliveredBytes: 0, sinks: [] },
    ...{ clock: systemClock, log: new LogLines() },
  })
  await expect(opening).rejects.toThrow(fault.slice('1 journal.path: '.length))
  chmodSync(state, 0o700)
  expect(around(console).faults).toEqual([expect.stringContaining(`${journal}.ballast is a link`)])
})

test('a log without its journal is a fault', () => {
  mkdirSync(join(folder, 'state'))
  writeFileSync(join(folder, 'state', 'a.db-wal'), 'pending')
  expect(around(console).faults).toEqual([
    expect.stringContaining(`1 journal.path: The log ${folder}/state/a.db-wal has no database`),
  ])
})

test("a sink's file that others may read or replace is a warning, also at a start", () => {
  const out = join(folder, 'out')
  mkdirSync(out)
  writeFileSync(join(out, 'a.ndjson'), '', { mode: 0o644 })
  const sink = `  - { name: a, type: file, path: ${out}/a.ndjson }\n`
  expect(around(sink).warnings).toEqual([
    `5 sinks.0.path: ${out}/a.ndjson can be read by every user of this machine (mode 0644): chmod it to 0640`,
  ])
  chmodSync(out, 0o777)
  const { warnings } = loadToRun(join(folder, 'a.yaml'), { env: {}, readFile: readTextFile }, roomyFiles)
  expect(says(warnings)).toEqual([
    expect.stringContaining(`5 sinks.0.path: the folder ${out} can be written`),
  ])
})

describe("a volume too small for the journal's limits", () => {
  const GIB = 2 ** 30
  const onVolume = (bytes: number | undefined, bounds = '') => {
    const asked: string[] = []
    const volumeBytes = (path: string) => (asked.push(path), bytes)
    const path = join(folder, 'state', 'a.db')
    return { ...around(console, path, { ...realFiles, volumeBytes }, bounds), asked, path }
  }

  test('is a warning that names both sizes', () => {
    expect(onVolume(2 * GIB)).toMatchObject({
      faults: [],
      warnings: [
        '1 journal.max_bytes: with keep_delivered, and 128MiB for log and ballast, the journal may take 2432MiB and room for its keys, and its volume has 2048MiB in all: reading would pause when that is full; give it a larger volume, or set max_bytes and keep_delivered so that they fit',
      ],
    })
    expect(onVolume(2 * GIB, ', max_bytes: 1GiB').warnings).toEqual([])
    expect(onVolume(2 * GIB, ', max_bytes: 1GiB, keep_delivered: 1GiB').warnings).toHaveLength(1)
    const large = onVolume(2 * GIB, ', max_bytes: 1GiB, limits: { max_entry_bytes: 224MiB }')
    expect(large.warnings.join()).toContain('960MiB for log and ballast')
  })

  test('is no warning if the sizes are equal, or if the size is unknown', () => {
    const [whole, asked] = [2 * GIB + 384 * 2 ** 20, [join(folder, 'state', 'a.db')]]
    expect(onVolume(whole)).toMatchObject({ warnings: [], asked })
    expect(onVolume(whole - 1).warnings).toHaveLength(1)
    expect(onVolume(undefined).warnings).toEqual([])
  })

  test('is measured at the nearest existing folder', () => {
    for (const path of [join(folder, 'no', 'such', 'a.db'), join(folder, 'key')])
      expect(realFiles.volumeBytes(path)).toBeGreaterThan(2 ** 20)
  })
})

test('a signing key or hash key that every user may read is a warning', () => {
  const { privateKey } = generateKeyPairSync('ed25519')
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' })
  for (const [name, text] of [
    ['signing', pem],
    ['hashing', 'k'.repeat(64)],
  ] as const)
    writeFileSync(join(folder, name), text, { mode: 0o644 })
  const { warnings } = around(
    `  - name: archive
    type: s3
    bucket: example-archive
    region: eu-central-1
    evidence: { signing_key_file: ${folder}/signing }
  - name: console
    type: stdout
    redact: [{ fields: [user], with: hash, key_file: ${folder}/hashing }]
`,
  )
  const said = 'can be read by every user of this machine: chmod it to 0400'
  expect(warnings).toEqual([
    `9 sinks.0.evidence.signing_key_file: ${folder}/signing ${said}`,
    `12 sinks.1.redact.0.key_file: ${folder}/hashing ${said}`,
  ])
})

test('a journal whose folder cannot be made is a fault', () => {
  expect(around(console, join(folder, 'key', 'a.db')).faults).toEqual([
    `1 journal.path: cannot be created: ${folder}/key is not a folder`,
  ])
  expect(around(console, folder).faults).toEqual(['1 journal.path: is a folder: expected a file name'])
})

test('a broken link is a fault in place of a folder, and accepted in place of a file to be created', () => {
  symlinkSync(join(folder, 'absent'), join(folder, 'dangling'))
  expect(around(console, join(folder, 'dangling', 'state', 'a.db')).faults).toEqual([
    `1 journal.path: cannot be created: ${folder}/dangling is a link that leads nowhere (is a volume not mounted?)`,
  ])
  symlinkSync(join(folder, 'made', 'later.db'), join(folder, 'later'))
  expect(around(console, join(folder, 'later')).faults).toEqual([])
  symlinkSync(join(folder, 'key', 'a.db'), join(folder, 'under'))
  expect(around(console, join(folder, 'under')).faults).toEqual([
    `1 journal.path: cannot be created: ${folder}/key is not a folder`,
  ])
  for (const [from, to] of [
    ['one', 'two'],
    ['two', 'one'],
  ] as const)
    symlinkSync(join(folder, to), join(folder, from))
  expect(around(console, join(folder, 'one')).faults).toEqual([
    '1 journal.path: is a link in a circle: expected a file name',
  ])
})

test('a folder without write permission is a fault', () => {
  mkdirSync(join(folder, 'out'))
  // Faked, since the user that runs the tests may be root.
  const files: Files = { ...roomyFiles, writable: (path) => path !== join(folder, 'out') }
  expect(around(`  - { name: a, type: file, path: ${folder}/out/a }\n`, undefined, files).faults).toEqual([
    `5 sinks.0.path: cannot be created: this user cannot write to ${folder}/out; give it the permission`,
  ])
})

test("two sinks with one file, or a sink with the journal's file, are faults", () => {
  const journal = join(folder, 'a.db')
  const sinks = `  - { name: a, type: file, path: ${folder}/x }
  - { name: b, type: file, path: ${folder}/./x }
  - { name: c, type: file, path: ${journal} }
`
  expect(around(sinks, journal).faults).toEqual([
    '6 sinks.1.path: is the file of sinks[0] already: use another file',
    '7 sinks.2.path: is the file of the journal already: use another file',
  ])
})

test('a file sink at the configuration, or at a file it refers to, is a fault, also for `run`', () => {
  const at = (path: string) => `  - { name: a, type: file, path: ${path} }\n`
  const fault = '5 sinks.0.path: is a file that the configuration is read from: use another file'
  const context = { env: {}, readFile: readTextFile }
  writeFileSync(join(folder, 'hash-key'), 'x'.repeat(64), { mode: 0o400 })
  symlinkSync(join(folder, 'key'), join(folder, 'link'))
  const redact = `, redact: [{ fields: [query], with: hash, key_file: ${folder}/hash-key }]`
  for (const sink of [
    at(`${folder}/a.yaml`),
    at(`${folder}/./key`),
    at(`${folder}/link`),
    at(`${folder}/hash-key${redact}`),
  ]) {
    expect([sink, around(sink).faults]).toEqual([sink, [fault]])
    expect(() => loadToRun(join(folder, 'a.yaml'), context, realFiles)).toThrow('is read from')
  }
  expect(readFileSync(join(folder, 'key'), 'utf8')).toBe('planted-key\n')
})

test('a file sink at a file that belongs to the journal is a fault, also for `run`', () => {
  const journal = join(folder, 'a.db')
  const at = (path: string) => `  - { name: a, type: file, path: ${path} }\n`
  const fault = '5 sinks.0.path: is a file that the journal has beside it: use another name'
  const context = { env: {}, readFile: readTextFile }
  for (const end of ['-wal', '-shm', '-journal', '.probe', '.ballast', '.sock']) {
    expect([end, around(at(`${folder}/./a.db${end}`), journal).faults]).toEqual([end, [fault]])
    expect(() => loadToRun(join(folder, 'a.yaml'), context, realFiles)).toThrow('has beside it')
  }
  expect(around(at(`${journal}.ndjson`), journal).faults).toEqual([])
  // All are beside the file itself, except the socket, which is beside the configured name.
  mkdirSync(join(folder, 'disk'))
  symlinkSync(join(folder, 'disk', 'b.db'), join(folder, 'link.db'))
  for (const name of ['disk/b.db-wal', 'disk/b.db.ballast', 'link.db.sock'])
    expect([name, around(at(join(folder, name)), join(folder, 'link.db')).faults]).toEqual([name, [fault]])
})

test('a device, a pipe or a folder as a file is a fault, also for `run`', () => {
  const pipe = join(folder, 'pipe')
  execFileSync('mkfifo', [pipe])
  const device =
    'is a device, pipe or socket: expected a regular file (for standard output there is the sink stdout)'
  const sink = (path: string) => `  - { name: a, type: file, path: ${path} }\n`
  const load = () => loadToRun(join(folder, 'a.yaml'), { env: {}, readFile: readTextFile }, realFiles)
  for (const [path, message] of [
    ['/dev/null', device],
    [pipe, device],
    [folder, 'is a folder: expected a file name'],
  ] as const) {
    const fault = `sinks.0.path: ${message}`
    expect(around(sink(path)).faults).toEqual([`5 ${fault}`])
    expect(load).toThrow(`a.yaml:5:34: ${fault.replace('.0', '[0]')}`)
  }
  // A journal cannot go to standard output.
  for (const path of ['/dev/null', pipe]) {
    expect(around(console, path).faults).toEqual([
      '1 journal.path: is a device, pipe or socket: expected a regular file',
    ])
    expect(load).toThrow('journal.path: is a device, pipe or socket: expected a regular file')
  }
})

test('a file that is no journal is a fault; a journal, also an open one, and an empty file are accepted', async () => {
  const path = join(folder, 'a.db')
  for (const content of ['{"id":"1"}\n', 'SQLite', 'x'.repeat(2 ** 20 + 1)]) {
    writeFileSync(path, content)
    expect(around(console, path).faults).toEqual([
      '1 journal.path: is a file that is not a journal, and is left unchanged: use the name of a journal, or of a file that does not exist yet',
    ])
    expect(readFileSync(path, 'utf8')).toBe(content)
  }
  writeFileSync(path, '')
  expect(around(console, path).faults).toEqual([])
  const journal = await openRegistered({
    ...{ path, maxBytes: 2 ** 20, keepKeysMs: 1e9, keepDeliveredBytes: 0 },
    ...{ sinks: [], clock: systemClock, log: new LogLines(), ballastBytes: 0 },
  })
  // Copied by another process, since closing the file here would drop the journal's lock.
  const copy = join(folder, 'copy.db')
  execFileSync('cp', [path, copy])
  expect(around(console, copy).faults).toEqual([])
  await journal.close()
  expect(around(console, path).faults).toEqual([])
})

test('a folder of keys or of the configuration that others can write to is a warning, once, also at a start', () => {
  const keys = join(folder, 'keys')
  mkdirSync(keys)
  writeFileSync(join(keys, 'key'), 'planted-key\n', { mode: 0o400 })
  writeFileSync(join(keys, 'other'), 'planted-key\n', { mode: 0o400 })
  chmodSync(keys, 0o777)
  const sinks = `  - { name: archive, type: splunk_hec, url: "https://h.example.com", token: "\${file:${keys}/key}" }
  - { name: more, type: splunk_hec, url: "https://i.example.com", token: "\${file:${keys}/other}" }\n`
  const why = `the folder ${keys} can be written by every user of this machine (mode 0777), who may replace what is in it: chmod o-w it, or use another folder`
  expect(around(sinks).warnings).toEqual([`5 sinks.0.token: ${why}`])
  const load = () => loadToRun(join(folder, 'a.yaml'), { env: {}, readFile: readTextFile }, roomyFiles)
  expect(load().warnings.map(({ message }) => message)).toEqual([why])
  chmodSync(keys, 0o1777)
  expect(around(sinks).warnings).toEqual([])
  chmodSync(folder, 0o777)
  expect(around(sinks).warnings.at(-1)).toContain(`the folder ${folder} can be written by every user`)
  chmodSync(folder, 0o700)
})

test('a folder of keys that another group can write to is a warning', () => {
  const gid = (process.getegid?.() ?? 0) + 1
  const owners = {
    ...realFiles.owners,
    facts: (path: string) => {
      const there = realFiles.owners.facts(path)
      return there && path === folder ? { ...there, mode: 0o770, gid } : there
    },
  }
  const { warnings } = around(console, undefined, { ...roomyFiles, owners })
  expect(warnings).toEqual([
    `3 workspaces.0.api_key: the folder ${folder} can be written by its group (gid ${gid}, mode 0770), which may replace what is in it: chmod g-w it`,
  ])
})

describe('a journal that an earlier version left in the working directory', () => {
  const cwd = () => join(folder, 'cwd')
  const files = { ...roomyFiles, cwd }
  const load = (isStart: boolean) =>
    loadToRun(join(folder, 'a.yaml'), { env: {}, readFile: readTextFile }, files, isStart)
  beforeEach(() => mkdirSync(join(folder, 'cwd', 'data'), { recursive: true }))
  const openAt = async (path: string) =>
    (
      await openRegistered({
        ...{ path, maxBytes: 2 ** 20, keepKeysMs: 1e9, keepDeliveredBytes: 0 },
        ...{ sinks: [], clock: systemClock, log: new LogLines(), ballastBytes: 0 },
      })
    ).close()

  test('is refused with both paths, if there is no journal at the new path', async () => {
    const old = join(cwd(), 'data', 'a.db')
    await openAt(old)
    const { faults } = around(console, 'data/a.db', files)
    expect(faults).toHaveLength(1)
    expect(faults[0]).toContain(`there is no journal at ${folder}/data/a.db, but there is one at ${old}`)
    expect(() => load(true)).toThrow('there is one at')
    // A check while this process has its journal open does not touch the file.
    expect(load(false).config.journal.path).toBe(join(folder, 'data', 'a.db'))
    await openAt(join(folder, 'data', 'a.db'))
    expect(around(console, 'data/a.db', files).faults).toEqual([])
    expect(load(true).config.journal.path).toBe(join(folder, 'data', 'a.db'))
  })

  test('is ignored if the path is absolute, or if the file is no journal', async () => {
    await openAt(join(cwd(), 'data', 'a.db'))
    expect(around(console, join(folder, 'data', 'a.db'), files).faults).toEqual([])
    writeFileSync(join(cwd(), 'data', 'b.db'), 'no journal')
    const other = new Sqlite(join(cwd(), 'data', 'c.db'))
    other.exec('CREATE TABLE t (a)')
    other.close()
    for (const name of ['b.db', 'c.db', 'd.db'])
      expect(around(console, `data/${name}`, files).faults).toEqual([])
  })
})

test('a journal of a newer version is a fault with the message of `run`, also if only its log says so', async () => {
  const path = join(folder, 'a.db')
  const open = () =>
    openRegistered({
      ...{ path, maxBytes: 2 ** 20, keepKeysMs: 1e9, keepDeliveredBytes: 0 },
      ...{ sinks: [], clock: systemClock, log: new LogLines(), ballastBytes: 0 },
    })
  await (await open()).close()
  const newer = new Sqlite(path)
  expect(schemaIn(newer.pragma('user_version', { simple: true }) as number)).toBe(SCHEMA)
  newer.pragma('wal_autocheckpoint = 0')
  newer.pragma('user_version = 99')
  const words = `was written by a newer version of this program (its schema is 99, this one knows ${SCHEMA}): run that version, or set journal.path to another file`
  expect(around(console, path).faults).toEqual([`1 journal.path: ${words}`])
  newer.close()
  expect(around(console, path).faults).toEqual([`1 journal.path: ${words}`])
  await expect(open()).rejects.toThrow(`The journal ${path} ${words}`)
})

test('a database of another program is a fault, also if only its log has the data', () => {
  const path = join(folder, 'a.db')
  const other = new Sqlite(path)
  other.pragma('journal_mode = WAL')
  other.exec(otherTables)
  expect(around(console, path).faults).toEqual([
    expect.stringContaining('is a SQLite database of another program and no journal'),
  ])
  other.close()
})

const otherTables = 'CREATE TABLE t (x)'
test.each([
  ['no version', otherTables],
  ['the version of an older journal', `${otherTables}; PRAGMA user_version = 2`],
  ['a version that requires our mark', `${otherTables}; PRAGMA user_version = 5`],
  ['a mark of its own', `${otherTables}; PRAGMA application_id = 252006674`],
  ['a mark and nothing else', 'PRAGMA application_id = 252006674'],
  ['pages of 64 KiB', `PRAGMA page_size = 65536; VACUUM; ${otherTables}; PRAGMA user_version = 1`],
])(
  'a journal path at the database of another program is a fault, and the check changes nothing: %s',
  (_, sql) => {
    const path = join(folder, 'state', 'a.db')
    mkdirSync(join(folder, 'state'))
    const other = new Sqlite(path)
    other.exec(sql)
    other.close()
    const before = readFileSync(path)
    expect(around(console, path).faults).toEqual([
      '1 journal.path: is a SQLite database of another program and no journal, and is left unchanged: use the name of a journal, or of a file that does not exist yet',
    ])
    expect(readFileSync(path).equals(before)).toBe(true)
    expect(readdirSync(join(folder, 'state'))).toEqual(['a.db'])
  },
)

test('an empty database, and a journal older than the mark, are accepted', async () => {
  const path = join(folder, 'a.db')
  const change = (sql: string) => {
    const db = new Sqlite(path)
    db.exec(sql)
    db.close()
  }
  change('PRAGMA journal_mode = WAL')
  expect(around(console, path).faults).toEqual([])
  rmSync(path)
  const journal = await openRegistered({
    ...{ path, maxBytes: 2 ** 20, keepKeysMs: 1e9, keepDeliveredBytes: 0 },
    ...{ sinks: [], clock: systemClock, log: new LogLines(), ballastBytes: 0 },
  })
  await journal.close()
  change('PRAGMA application_id = 0; PRAGMA user_version = 4')
  expect(around(console, path).faults).toEqual([])
})

test('a journal or file sink below /proc is a fault, also for root', () => {
  const fault = 'cannot be created: /proc belongs to the kernel and takes no files: use a folder on a disk'
  for (const path of ['/proc/auditferry-test/a.db', '/proc/a.db'])
    expect(around(console, path).faults).toEqual([`1 journal.path: ${fault}`])
  expect(around('  - { name: a, type: file, path: /proc/auditferry-test/a }\n').faults).toEqual([
    `5 sinks.0.path: ${fault}`,
  ])
})

test('a journal on a network file system is a fault', () => {
  const files: Files = { ...roomyFiles, fileSystemType: () => 0x6969 }
  const fault =
    '1 journal.path: would be on a network file system (NFS), which cannot lock a journal or keep it whole: use a file on a local or block-backed volume'
  for (const path of ['a.db', 'state/there/a.db'])
    expect(around(console, join(folder, path), files).faults).toEqual([fault])
})

test("a sink's folder that cannot be created yet is a fault of validate; `run` starts and only that sink waits", () => {
  for (const path of ['key/a.ndjson', 'dangling/a.ndjson']) {
    if (path.startsWith('dangling')) symlinkSync(join(folder, 'absent'), join(folder, 'dangling'))
    expect(around(`  - { name: a, type: file, path: ${folder}/${path} }\n`).faults).toEqual([
      expect.stringContaining('sinks.0.path: cannot be created: '),
    ])
    const { config } = loadToRun(join(folder, 'a.yaml'), { env: {}, readFile: readTextFile }, realFiles)
    expect(config.sinks).toHaveLength(1)
  }
})

const rotated = (path: string, keep = 3) =>
  `  - { name: r, type: file, path: ${path}, rotate: { keep: ${keep} } }\n`
const overwritten = (path: string, line: number, from: string, to: string) =>
  `${line} ${path}: would be overwritten when sinks[0] rotates its file to ${from} … ${to}: use another name`

test("a file with the name of another sink's rotated file is a fault, also for `run`", () => {
  const out = join(folder, 'out')
  const more = (path: string) => `  - { name: b, type: file, path: ${path} }\n`
  const names = [`${out}.1`, `${out}.3`] as const
  for (const path of [...names, `${folder}/./x/../out.2`]) {
    expect(around(rotated(out) + more(path)).faults).toEqual([
      overwritten('sinks.1.path', 6, `${out}.1`, `${out}.3`),
    ])
    const context = { env: {}, readFile: readTextFile }
    expect(() => loadToRun(join(folder, 'a.yaml'), context, realFiles)).toThrow('would be overwritten')
  }
  expect(around(rotated(out), `${out}.2`).faults).toEqual([
    overwritten('journal.path', 1, `${out}.1`, `${out}.3`),
  ])
  for (const path of [`${out}.4`, `${out}.0`, `${out}.01`, `${out}.1.1`, `${out}.x`, `${out}1`])
    expect([path, around(rotated(out) + more(path)).faults]).toEqual([path, []])
  expect(around(rotated(out, 10_000) + more(`${out}.10000`)).faults).toHaveLength(1)
})

test('a link or the order of sinks does not hide a conflict with a rotated file', () => {
  const real = join(folder, 'real')
  mkdirSync(real)
  writeFileSync(join(real, 'out.2'), '')
  symlinkSync('real', join(folder, 'linked'))
  symlinkSync('real/out.2', join(folder, 'link'))
  for (const path of [`${real}/out.1`, `${real}/out.2`, join(folder, 'link')]) {
    const other = `  - { name: b, type: file, path: ${path} }\n`
    const sinks = other + rotated(join(folder, 'linked/out'))
    expect([path, around(sinks).faults]).toEqual([
      path,
      [expect.stringContaining('5 sinks.0.path: would be')],
    ])
  }
})

test('a reference to a pipe or a device is a fault at once, without waiting for data', () => {
  const pipe = join(folder, 'pipe')
  execFileSync('mkfifo', [pipe])
  const file = join(folder, 'a.yaml')
  for (const path of [pipe, '/dev/zero']) {
    const key = `api_key: "\${file:${path}}"`
    writeFileSync(
      file,
      `workspaces: [{ name: acme, base_url: "https://a.example.com", ${key}, audit: {} }]\n`,
    )
    const { faults } = examineConfig(file, { env: {}, readFile: readTextFile })
    expect(says(faults)[0]).toBe(
      `1 workspaces.0.api_key: \${file:${path}} cannot be resolved: it is a device, pipe or socket: expected a regular file`,
    )
  }
})

test('the configuration itself may come through a pipe', () => {
  const script = `import { readConfigFile } from './src/config/files.ts'; console.log(readConfigFile('/dev/stdin'))`
  const piped = ['-c', 'echo "a: b" | "$0" --input-type=module -e "$1"', process.execPath, script]
  expect(execFileSync('sh', piped, { encoding: 'utf8' })).toBe('a: b\n\n')
})

const bucket = (name: string, more: string) => `  - { name: ${name}, type: s3, bucket: logs${more} }\n`

test.each([
  ['', ', endpoint: "https://s3.eu-west-1.amazonaws.com"'],
  [', prefix: a', ', prefix: a/, compression: none, format: envelope'],
  [', endpoint: "https://MINIO.test:443"', ', endpoint: "https://minio.test"'],
])('two sinks with one bucket and prefix are a fault, also for `run`: %j, %j', (one, other) => {
  const fault =
    /^6 sinks\.1\.prefix: its lines would mix with those of sinks\[0\] \(bucket logs at .*\): give each a prefix of its own$/
  const { faults } = around(bucket('a', one) + bucket('b', other))
  expect(faults).toEqual([expect.stringMatching(fault)])
  const context = { env: {}, readFile: readTextFile }
  expect(() => loadToRun(join(folder, 'a.yaml'), context, realFiles)).toThrow('give each a prefix of its own')
})

test('sinks of one bucket with different prefixes or servers are accepted', () => {
  const others = ['', ', prefix: a', ', prefix: b', ', endpoint: "https://minio.test:9000"']
  expect(around(others.map((more, i) => bucket(`s${i}`, more)).join('')).faults).toEqual([])
})

test('a missing certificate is a fault at its key', () => {
  const sinks = `  - name: siem
    type: splunk_hec
    url: https://a.example.com:8088
    token: t
    tls:
      ca_file: ${folder}/ca.pem
`
  expect(around(sinks).faults).toEqual([
    '10 sinks.0.tls.ca_file: the file cannot be used: there is no such file (run starts anyway, keeps the entries of this sink in the journal, and checks for the file again automatically)',
  ])
})

const held =
  ' (run starts anyway, keeps the entries of this sink in the journal, and checks for the file again automatically)'
const tlsSinks = {
  splunk_hec: 'type: splunk_hec, url: "https://a.example.com:8088", token: t',
  s3: 'type: s3, bucket: logs',
  syslog: 'type: syslog, address: "tls://a.example.com:6514"',
}

/** The faults of a sink whose TLS files have these contents. */
function tlsFaults(type: keyof typeof tlsSinks, contents: { ca?: string; cert?: string; key?: string }) {
  const named = Object.entries(contents).map(([name, content]) => {
    writeFileSync(join(folder, `${name}.pem`), content, { mode: 0o400 })
    return `${name}_file: ${join(folder, `${name}.pem`)}`
  })
  const { faults } = around(`  - { name: a, ${tlsSinks[type]}, tls: { ${named.join(', ')} } }\n`)
  for (const name of Object.keys(contents)) rmSync(join(folder, `${name}.pem`))
  return faults.map((fault) => fault.replace(held, ''))
}

const [one, other] = [certificate('one'), certificate('other')]
const noCertificate = 'it contains no certificate in PEM (BEGIN CERTIFICATE)'
const spoiled = 'a certificate in it is incomplete or damaged'
const faultAt = (name: string, wrong: string) =>
  `5 sinks.0.tls.${name}_file: the file cannot be used: ${wrong}`

test.each(['splunk_hec', 's3', 'syslog'] as const)(
  'an unusable TLS file is a fault at its key, without its content: %s',
  (type) => {
    expect(tlsFaults(type, { ca: one.cert + other.cert, cert: one.cert, key: one.key })).toEqual([])
    expect(tlsFaults(type, { ca: 'planted' })).toEqual([faultAt('ca', noCertificate)])
    expect(tlsFaults(type, { ca: '' })).toEqual([faultAt('ca', noCertificate)])
    const garbage = '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n'
    for (const ca of [
      garbage,
      one.cert + garbage,
      one.cert.slice(0, -40),
      one.cert + other.cert.slice(0, 90),
    ])
      expect(tlsFaults(type, { ca })).toEqual([faultAt('ca', spoiled)])
    const noKey = 'it contains no private key in PEM without a passphrase'
    expect(tlsFaults(type, { cert: 'planted', key: 'planted' })).toEqual([
      faultAt('cert', noCertificate),
      faultAt('key', noKey),
    ])
    expect(tlsFaults(type, { cert: one.cert, key: one.cert })).toEqual([faultAt('key', noKey)])
    expect(tlsFaults(type, { cert: one.cert, key: other.key })).toEqual([
      faultAt('key', 'it does not belong to the certificate in cert_file'),
    ])
  },
)

test('a configured key without effect is a warning', () => {
  const syslog = (scheme: string, more: string) =>
    `  - { name: a, type: syslog, address: "${scheme}://siem:514"${more} }\n`
  const linger = ', tcp_linger: 10s'
  const idle = '5 sinks.0.tcp_linger: has an effect with tcp:// and tls:// only: leave it out'
  for (const scheme of ['udp', 'relp']) expect(around(syslog(scheme, linger)).warnings).toEqual([idle])
  expect(around(syslog('udp', '')).warnings).toEqual([])
  expect(around(syslog('tcp', linger)).warnings).toEqual([])
  const hec = (acks: boolean) =>
    `  - { name: a, type: splunk_hec, url: "https://a.example.com", token: t, acks: ${acks}, ack_timeout: 1m }\n`
  expect(around(hec(false)).warnings).toEqual([
    '5 sinks.0.ack_timeout: has no effect with acks: false: leave it out',
  ])
  expect(around(hec(true)).warnings).toEqual([])
})

test('a denied value that is not in NFC is a warning, unless its NFC form is listed too', () => {
  const [composed, decomposed] = ['Müller'.normalize('NFC'), 'Müller'.normalize('NFD')]
  const denying = (...values: string[]) =>
    around(`  - { name: a, type: stdout, deny: { user.name: ['0042', ${values.join(', ')}] } }\n`).warnings
  expect(denying(composed)).toEqual([])
  expect(denying(decomposed, composed)).toEqual([])
  expect(denying(decomposed)).toEqual([
    '5 sinks.0.deny.user.name.1: is not in Unicode NFC (accents are separate characters): an entry that writes them as one character, as most programs do, is not denied; write it in NFC, or list both',
  ])
})

test('a configured source that no workspace reads is a warning', () => {
  expect(around(`${console}    \n`).warnings).toEqual([])
  expect(around('  - { name: a, type: stdout, sources: [audit, history.query] }\n').warnings).toEqual([
    '5 sinks.0.sources.1: no workspace has history.query switched on',
  ])
  expect(around('  - { name: a, type: stdout, sources: [vault.projects] }\n').warnings).toEqual([
    '5 sinks.0.sources.0: no workspace has vault.projects switched on',
    '5 sinks.0.sources: all of its sources are switched off: this sink receives nothing',
    "3 workspaces.0.audit: audit is read and kept, and no sink takes it: name it in a sink's sources",
  ])
})

/** The warnings for a workspace with the audit log and the keys of `more`. */
function warningsOf(more: string, sinks = '[{ name: a, type: stdout }]', audit = '{}', kept = '35d') {
  const text = `journal: { path: ${folder}/a.db, dedup_retention: ${kept} }
workspaces:
  - { name: acme, base_url: "https://a.example.com", api_key: k, audit: ${audit}, ${more} }
sinks: ${sinks}
`
  writeFileSync(join(folder, 'a.yaml'), text, { mode: 0o600 })
  const { loaded } = examineConfig(join(folder, 'a.yaml'), { env: {}, readFile: readTextFile })
  return says(checkEnvironment(loaded ?? expect.fail(), roomyFiles, nowAt).warnings)
}

test('a vault section that reads nothing is a warning, unless its projects are switched off', () => {
  const warning =
    '3 workspaces.0.vault: nothing of the vault is read: add `projects: true`, or leave `vault` out'
  expect(warningsOf('vault: { interval: 1m }')).toEqual([warning])
  expect(warningsOf('vault: {}')).toEqual([warning])
  expect(warningsOf('vault: { projects: false }')).toEqual([])
  expect(warningsOf('vault: { projects: true }')).toEqual([])
})

test('workspaces with one key whose intervals together use too much of the rate limit get a warning each', () => {
  const beta = (key: string, more = '') =>
    `}\n  - { name: beta, base_url: "https://a.example.com", api_key: ${key}, audit: { interval: 6s${more} }`
  const together = (key: string, more?: string) => warningsOf(beta(key, more), undefined, '{ interval: 6s }')
  const taken = (other: string) =>
    `workspaces.${other === 'beta' ? 0 : 1}.audit.interval: polling uses about 40 of the 60 requests a minute (rate_limits.audit) together with ${other} (one key):`
  const late =
    'lookback gets little more than its guaranteed 6 requests a minute, so late entries arrive later, and backfill, replay and reconcile are slow; set 8s or more at each'
  const jobs =
    'backfill, replay and reconcile get little more than their guaranteed 6 requests a minute; set 8s or more at each'
  expect(together('k')).toEqual([`3 ${taken('beta')} ${late}`, `4 ${taken('acme')} ${late}`])
  expect(together('k', ', lookback: 0s')).toEqual([
    `3 ${taken('beta')} ${late}`,
    `4 ${taken('acme')} ${jobs}`,
  ])
  expect(together('another')).toEqual([])
})

test('polls further apart than the dedup retention are a warning, at the interval or at the retention', () => {
  const kept = (keep: string, more: string, audit?: string) =>
    warningsOf(more, undefined, audit, keep).filter((one) => one.includes('dedup_retention'))
  const why = (keep: string) =>
    `and what was read is known for ${keep} (journal.dedup_retention): what two polls show may be sent twice; set a shorter interval, or a dedup_retention well above it`
  expect(kept('1h', 'rate_limits: {}', '{ interval: 90m }')).toEqual([
    `3 workspaces.0.audit.interval: polls are 90m apart, ${why('1h')}`,
  ])
  expect(kept('1h', 'rate_limits: {}', '{ activity: low }')).toEqual([
    `1 journal.dedup_retention: polls are 1h apart (workspaces.0.audit.interval), ${why('1h')}`,
  ])
  expect(kept('1h', 'history: { interval: 2h, lookback: 0s }')).toEqual([
    `3 workspaces.0.history.interval: polls are 2h apart, ${why('1h')}`,
  ])
  expect(kept('2h', 'history: { interval: 90m, lookback: 0s }', '{ activity: low }')).toEqual([])
})

test.each(['Logs_2026', 'logs..archive', '192.168.0.1'])(
  'a bucket name that AWS refuses is a fault there, and a warning at another server: %s',
  (name) => {
    const bucketAt = (more: string) => `  - { name: b, type: s3, bucket: ${name}${more} }\n`
    const endpoint = 'https://bucket.vpce-1.s3.eu-central-1.vpce.amazonaws.com'
    for (const more of [{}, { endpoint }])
      expect(sinkKinds.s3.options.safeParse({ bucket: name, ...more }).error?.message).toContain(
        'AWS has no bucket of such a name: expected lower-case letters, digits',
      )
    for (const more of [', endpoint: "https://ceph.example.com"', ', force_path_style: true']) {
      const { faults, warnings } = around(bucketAt(more))
      expect(faults).toEqual([])
      expect(warnings.join()).toMatch(/sinks\.0\.bucket: most servers accept only lower-case letters/)
    }
  },
)

test('a usual bucket name is no warning', () => {
  for (const name of ['logs', 'my-logs.2026', '1abc', 'a.b-c', '1.2.3.4.5'])
    expect(around(`  - { name: b, type: s3, bucket: ${name} }\n`).warnings.join()).not.toContain('bucket')
})

test('an interval that leaves too little for lookback or jobs is a warning with its figures', () => {
  const audit = (interval: string, more = '', limit = 60) =>
    warningsOf(`rate_limits: { audit: ${limit} }`, undefined, `{ interval: ${interval}${more} }`)
  const jobs = (want: string) =>
    `backfill, replay and reconcile get little more than their guaranteed 6 requests a minute; set ${want} or more`
  const late = (want: string) =>
    `lookback gets little more than its guaranteed 6 requests a minute, so late entries arrive later, and backfill, replay and reconcile are slow; set ${want} or more`
  const taken =
    '3 workspaces.0.audit.interval: polling uses about 40 of the 60 requests a minute (rate_limits.audit):'
  // A page, and an empty one that proves it was the last.
  expect(audit('3s')).toEqual([`${taken} ${late('4s')}`])
  expect(audit('4s')).toEqual([])
  expect(audit('7900ms', '', 30)).toHaveLength(1)
  expect(audit('8s', '', 30)).toEqual([])
  expect(audit('3s', ', lookback: 0s')).toEqual([`${taken} ${jobs('4s')}`])
  expect(warningsOf('history: { interval: 1s }')).toEqual([
    `3 workspaces.0.history.interval: polling uses about 60 of the 60 requests a minute (rate_limits.history): ${late('2s')}`,
  ])
  expect(warningsOf('history: { interval: 2s }')).toEqual([])
  expect(warningsOf('history: { interval: 1s, lookback: 0s }')).toHaveLength(1)
})

test('a pattern in `types` that matches no documented type is a warning, also with a leading !', () => {
  const typed = (types: string, sources = '') =>
    warningsOf('rate_limits: {}', `[{ name: a, type: stdout, types: ${types}${sources} }]`)
  expect(warningsOf('rate_limits: {}', undefined, '{ types: ["auth:*", "atuh:*", "!zz:*"] }')).toEqual([
    '3 workspaces.0.audit.types.1: matches no documented type (of 206): did you mean auth:*?',
    '3 workspaces.0.audit.types.2: matches no documented type (of 206): a typo?',
  ])
  expect(typed('["api:vault_*", "!auth:logn"]')).toEqual([
    '4 sinks.0.types.1: matches no documented type (of 218): did you mean auth:login?',
  ])
  expect(typed('["vault:project_deleted"]')).toEqual([])
  expect(typed('["vault:project_deleted"]', ', sources: [audit]')).toEqual([
    expect.stringContaining('4 sinks.0.types.0: matches no documented type (of 206)'),
  ])
  expect(typed('["*", "!user:*", "*:login", "*"]')).toEqual([])
})

test('a start in the future is a warning: nothing before it is ever read', () => {
  const starting = (audit: string, history: string) =>
    warningsOf(`history: { start: ${history} }`, undefined, `{ start: ${audit} }`)
  const future = (start: string) =>
    `is in the future: nothing from before ${start} will ever be read; to begin with what comes from now on, use latest`
  expect(starting('2026-11-25T00:00:01Z', '2027-01-31')).toEqual([
    `3 workspaces.0.audit.start: ${future('2026-11-25T00:00:01.000Z')}`,
    `3 workspaces.0.history.start: ${future('2027-01-31T00:00:00.000Z')}`,
  ])
  expect(starting('2026-11-25T00:00:00Z', 'latest')).toEqual([])
})

test('a source that no sink takes is a warning', () => {
  const sinks = `[{ name: a, type: stdout }, { name: b, type: file, path: ${folder}/b, sources: [audit] }]`
  expect(warningsOf('history: { usage: true, query: true }', sinks)).toEqual([
    "3 workspaces.0.history.query: history.query is read and kept, and no sink takes it: name it in a sink's sources",
  ])
})

test.each([
  ['a linked folder', 'there/x', 'linked/x'],
  ['a linked folder above one to be created', 'there/new/x', 'linked/new/x'],
  ['a link to a file', 'there/kept', 'link'],
  ['a link to a file to be created', 'there/x', 'dangling'],
  ['a hard link', 'there/kept', 'hard'],
])('two sinks with one file through %s are a fault, also for `run`', (_, one, other) => {
  mkdirSync(join(folder, 'there'))
  writeFileSync(join(folder, 'there/kept'), '')
  symlinkSync('there', join(folder, 'linked'))
  symlinkSync('there/kept', join(folder, 'link'))
  symlinkSync('there/x', join(folder, 'dangling'))
  linkSync(join(folder, 'there/kept'), join(folder, 'hard'))
  const sinks = (second: string) => `  - { name: a, type: file, path: ${folder}/${one} }
  - { name: b, type: file, path: ${folder}/${second} }
`
  const fault = '6 sinks.1.path: is the file of sinks[0] already: use another file'
  const context = { env: {}, readFile: readTextFile }
  expect(around(sinks(other)).faults).toEqual([fault])
  expect(() => loadToRun(join(folder, 'a.yaml'), context, realFiles)).toThrow(
    'is the file of sinks[0] already',
  )
  expect(around(sinks('there/other')).faults).toEqual([])
  expect(loadToRun(join(folder, 'a.yaml'), context, realFiles).config.sinks).toHaveLength(2)
})

test('a signing key that is not Ed25519 is a fault before anything is signed, without its content', () => {
  const kinds = {
    rsa: generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({
      type: 'pkcs8',
      format: 'pem',
    }),
    public: generateKeyPairSync('ed25519').publicKey.export({ type: 'spki', format: 'pem' }),
    good: generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }),
  }
  const faultsOf = (kind: keyof typeof kinds) => {
    writeFileSync(join(folder, kind), kinds[kind])
    const evidence = `evidence: { signing_key_file: ${folder}/${kind} }`
    return around(`  - { name: b, type: s3, bucket: logs, region: eu-central-1, ${evidence} }\n`).faults
  }
  expect(faultsOf('rsa')).toEqual([
    expect.stringContaining('the file cannot be used: the key is rsa, want Ed25519'),
  ])
  expect(faultsOf('public')).toEqual([expect.stringContaining('it contains no private key in PEM')])
  expect(faultsOf('good')).toEqual([])
})
