// Invariant 10 on real files: durable and locked, and clear about what is wrong.
import { randomBytes } from 'node:crypto'
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  copyFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import Sqlite from 'better-sqlite3'
import { afterAll, describe, expect, it, vi } from 'vitest'
import type { JournalOptions } from '../../../../src/journal/sqlite/open.ts'
import { Handover, openDatabase, translate } from '../../../../src/journal/sqlite/database.ts'
import { atStart, Ballast, freeBytesOf } from '../../../../src/journal/sqlite/space.ts'
import type { Journal } from '../../../../src/contracts/journal.ts'
import {
  audit,
  idsOf,
  part,
  plenty,
  acknowledgement,
  spec,
  START_US,
  TestClock,
  uuid,
} from '../../../contract/journal-parts.ts'
import { big, journalSetup, undoRenaming } from './setup.ts'

let folder: string
let path: string
let opened: Journal[]
let sentences: string[]
const open = journalSetup((setup) => ({ folder, path, opened, sentences } = setup), 'state/journal.db', {
  keepDeliveredBytes: 2 ** 20,
  ballastBytes: 0,
})

describe('one journal, one process', () => {
  it('a second open in the same process is refused with the path, and the first goes on', async () => {
    const journal = await open()
    await expect(open()).rejects.toMatchObject({
      code: 'journal_in_use',
      message: expect.stringContaining(path) as string,
    })
    expect(await journal.append(part([spec(1)]))).toMatchObject({ added: 1 })
    await expect(open()).rejects.toMatchObject({ code: 'journal_in_use' })
  })

  it('a second process is refused, before and after a second open in this process', async () => {
    const journal = await open()
    const script = `
      const { openJournal } = await import(${JSON.stringify(new URL('../../../../src/journal/sqlite/open.ts', import.meta.url).href)})
      const log = { debug() {}, info() {}, warn() {}, error() {}, with: () => log }
      const clock = { now: () => 0, elapsed: () => 0, sleep: async () => {} }
      await openJournal({ path: ${JSON.stringify(path)}, maxBytes: 1e9, keepKeysMs: 1e9, keepDeliveredBytes: 0, sinks: [], clock, log, ballastBytes: 0 })
        .then(() => console.log('opened'), (error) => console.log(error.code))`
    const second = () =>
      execFileSync(process.execPath, ['--input-type=module', '-e', script]).toString().trim()
    expect(second()).toBe('journal_in_use')
    await expect(open()).rejects.toMatchObject({ code: 'journal_in_use' })
    expect(second()).toBe('journal_in_use')
    await journal.close()
    expect(second()).toBe('opened')
  })
})

describe('the integrity check', () => {
  const checks = vi.spyOn(Sqlite.prototype, 'pragma')
  const checked = async (settings: Partial<JournalOptions>) => {
    checks.mockClear()
    await open(settings)
    return checks.mock.calls.filter(([source]) => source.startsWith('quick_check')).length
  }
  const closeLast = () => opened.at(-1)?.close()
  afterAll(() => checks.mockRestore())

  it('runs at each open, except the first reopen after an orderly close in the same process', async () => {
    const handover = new Handover()
    expect(await checked({ handover })).toBe(1)
    await opened.at(-1)?.append(part([spec(1)]))
    for (let reload = 0; reload < 2; reload++) {
      await closeLast()
      expect(await checked({ handover })).toBe(0)
    }
    await closeLast()
    await sleep(20)
    expect(await checked({})).toBe(1)
    await opened.at(-1)?.append(part([spec(2)]))
    await closeLast()
    expect(await checked({ handover: new Handover() })).toBe(1)
    await closeLast()
    // Another process opened it in between and wrote to it.
    expect(await checked({ handover })).toBe(1)
  })

  it('is skipped for the same file, also if it was closed under the name of a link', async () => {
    const handover = new Handover()
    await open({})
    await closeLast()
    const link = `${path}.link`
    symlinkSync(path, link)
    handover.closed(link)
    expect(await checked({ path: link, handover })).toBe(0)
  })

  it('is skipped after journal_full, which says nothing about the file', async () => {
    const handover = new Handover()
    const journal = await open({ handover, maxBytes: 1 })
    await journal.append(part([spec(1)]))
    await expect(journal.append(part([spec(2)]))).rejects.toMatchObject({ code: 'journal_full' })
    await closeLast()
    expect(await checked({ handover })).toBe(0)
  })

  const fullAtClose = () =>
    void checks.mockImplementationOnce(() => {
      throw Object.assign(new Error('full'), { code: 'SQLITE_FULL' })
    })
  const replace = () => {
    copyFileSync(path, `${path}.copy`)
    renameSync(`${path}.copy`, path)
  }
  const nothing = () => undefined
  it.each<[string, () => unknown, (handover: Handover) => unknown]>([
    ['the file was found damaged', () => expect(opened[0]?.range(1, 5)).rejects.toThrow('damaged'), nothing],
    ['its file was replaced before the close', replace, nothing],
    ['the disk was full at the close', fullAtClose, nothing],
    ['its file was replaced after the close', nothing, replace],
    ['it was written to after the close', nothing, () => utimesSync(path, 1, 1)],
    ['a log is beside it', nothing, () => writeFileSync(`${path}-wal`, '')],
    [
      'the first try to open it failed',
      nothing,
      (handover) => expect(open({ handover, fileSystemType: () => 0x6969 })).rejects.toThrow('NFS'),
    ],
  ])('runs although this process closed the file: %s', async (_, before, after) => {
    const handover = new Handover()
    await open({ handover })
    await before()
    await closeLast()
    await after(handover)
    expect(await checked({ handover })).toBe(1)
  })
})

/** How a rollback file begins, up to the number of pages its database had. */
const hot = Buffer.concat([Buffer.from('d9d505f920a163d7', 'hex'), Buffer.alloc(8)])

/** The file with all but its first quarter overwritten, so that its log matches no other page. */
const damaged = (path: string) => {
  const bytes = readFileSync(path)
  return bytes.fill(255, bytes.length / 4)
}

describe('the file', () => {
  const options = { maxFileBytes: 2 ** 30, fileSystemType: () => 0, nowAt: 0 }

  it('every open is WAL, exclusive and FULL, also after writes: the driver alone falls back to NORMAL', () => {
    mkdirSync(join(folder, 'state'))
    for (let round = 0; round < 2; round++) {
      const db = openDatabase({ path, ...options })
      db.prepare(`INSERT OR REPLACE INTO state VALUES ('x', 'y')`).run()
      const held = ['synchronous', 'journal_mode', 'locking_mode', 'page_size'].map((name) =>
        db.pragma(name, { simple: true }),
      )
      expect(held).toEqual([2, 'wal', 'exclusive', 8192])
      db.close()
    }
    const plain = new Sqlite(path)
    plain.prepare(`INSERT OR REPLACE INTO state VALUES ('x', 'z')`).run()
    expect(plain.pragma('synchronous', { simple: true })).toBe(1)
    plain.close()
  })

  it.each([
    ['synchronous', 1, 'synchronous 1 and locking exclusive'],
    ['locking_mode', 'normal', 'synchronous 2 and locking normal'],
  ])('no journal opens if SQLite does not apply a pragma: %s', (name, answer, reported) => {
    mkdirSync(join(folder, 'state'))
    const asked = Reflect.get(Sqlite.prototype, 'pragma') as (...args: unknown[]) => unknown
    const spy = vi.spyOn(Sqlite.prototype, 'pragma').mockImplementation(function (
      this: Sqlite.Database,
      ...args
    ) {
      return args[0] === name ? answer : asked.apply(this, args)
    })
    try {
      expect(() => openDatabase({ path, ...options })).toThrow(`${reported}: commits would not be safe`)
    } finally {
      spy.mockRestore()
    }
    const db = openDatabase({ path, ...options })
    db.close()
  })

  it('the file and its log are readable by this user only, and a close leaves one file without a log', async () => {
    const journal = await open()
    await journal.append(part([spec(1)]))
    expect(readdirSync(join(folder, 'state')).sort()).toEqual(['journal.db', 'journal.db-wal'])
    for (const name of [path, `${path}-wal`]) expect(statSync(name).mode & 0o777).toBe(0o600)
    await journal.close()
    expect(readdirSync(join(folder, 'state'))).toEqual(['journal.db'])
  })

  it('a network file system is refused by its name', async () => {
    for (const [type, name] of [
      [0x6969, 'NFS'],
      [-11317950, 'CIFS'],
      [0xfe534d42, 'SMB'],
    ] as const) {
      const refused = open({ fileSystemType: () => type })
      await expect(refused).rejects.toMatchObject({
        code: 'config_invalid',
        message: expect.stringContaining(name) as string,
      })
    }
    expect(existsSync(path)).toBe(false)
  })

  it('no journal opens if every user can write to it or its folder', async () => {
    const state = join(folder, 'state')
    mkdirSync(state)
    chmodSync(state, 0o777)
    const refused = (what: string) => ({
      code: 'config_invalid',
      message: expect.stringContaining(`${what} can be written by every user of this machine`) as string,
    })
    await expect(open()).rejects.toMatchObject(refused(`the folder ${state}`))
    expect(readdirSync(state)).toEqual([])
    chmodSync(state, 0o755)
    writeFileSync(path, '')
    chmodSync(path, 0o666)
    await expect(open()).rejects.toMatchObject(refused(path))
    expect(statSync(path).size).toBe(0)
  })

  it.each([
    ['of a database that had pages', Buffer.concat([hot, Buffer.from([0, 0, 0, 9])])],
    ['with other content', Buffer.from('anything else at all')],
  ])('a rollback file %s is neither played back nor deleted', async (_, bytes) => {
    await (await open()).close()
    const before = readFileSync(path)
    for (const kept of [before, undefined]) {
      if (!kept) await rm(path)
      writeFileSync(`${path}-journal`, bytes)
      await expect(open()).rejects.toMatchObject({
        code: 'journal_corrupt',
        message: expect.stringContaining(`Move ${path}-journal to the database`) as string,
      })
      expect(readFileSync(`${path}-journal`).equals(bytes)).toBe(true)
      expect(existsSync(path) && readFileSync(path)).toEqual(kept ?? false)
    }
  })

  it('the rollback file of a new journal killed at its first write does not prevent an open', async () => {
    mkdirSync(join(folder, 'state'))
    writeFileSync(path, '')
    writeFileSync(`${path}-journal`, Buffer.concat([hot, Buffer.alloc(512 - 16)]))
    await (await open()).close()
    expect(readdirSync(join(folder, 'state'))).toEqual(['journal.db'])
  })

  /** As a kill leaves it: the appended entries are only in the log. */
  const leaveLog = async (n: number) => {
    const journal = await open()
    await journal.append(part([spec(n)]))
    const [base, log] = [readFileSync(path), readFileSync(`${path}-wal`)]
    await journal.close()
    writeFileSync(`${path}-wal`, log)
    return { base, log }
  }
  const left = () => [existsSync(path) && readFileSync(path), readFileSync(`${path}-wal`)]

  it.each([
    ['without a journal', () => rm(path), 'has no database'],
    ['beside an empty journal', async () => writeFileSync(path, ''), 'has no database'],
    [
      'beside another journal',
      async () => {
        const other = `${path}.other`
        await (await open({ path: other })).close()
        renameSync(other, path)
      },
      'belongs to another journal',
    ],
    ['beside a damaged journal', async () => writeFileSync(path, damaged(path)), 'is damaged'],
  ])('a log %s is left as it is, and no journal opens', async (_, spoil, what) => {
    const first = await open()
    for (let n = 1; n <= 5; n++) await first.append(big(n))
    await first.close()
    await leaveLog(6)
    await spoil()
    const before = left()
    await expect(open()).rejects.toMatchObject({
      code: 'journal_corrupt',
      message: expect.stringContaining(what) as string,
    })
    expect(left()).toEqual(before)
  })

  it('a log beside its own journal is played back', async () => {
    const { base } = await leaveLog(1)
    writeFileSync(path, base)
    expect(idsOf(await (await open()).take('a', plenty))).toEqual([uuid(1)])
  })

  it('a file of a newer version is left unchanged', async () => {
    await (await open()).close()
    const db = new Sqlite(path)
    db.pragma('user_version = 99')
    db.close()
    await expect(open()).rejects.toMatchObject({
      code: 'config_invalid',
      message: expect.stringContaining('newer') as string,
    })
  })

  const alike = ['chunks', 'intents', 'dead_letters', 'quarantine']
    .map((name) => `CREATE TABLE ${name} (x)`)
    .join('; ')
  const foreign: readonly [string, string][] = [
    ['no version', 'CREATE TABLE notes (name TEXT PRIMARY KEY, value TEXT NOT NULL)'],
    ['the version of an older journal', 'CREATE TABLE chunks (x); PRAGMA user_version = 2'],
    ['table names of a journal, and a version that requires our mark', `${alike}; PRAGMA user_version = 5`],
    ['a mark of its own', 'CREATE TABLE t (x); PRAGMA application_id = 252006674'],
    ['a mark and nothing else', 'PRAGMA application_id = 252006674'],
  ]
  it.each(foreign)('a database of another program is refused and left unchanged: %s', async (_, sql) => {
    mkdirSync(join(folder, 'state'))
    const other = new Sqlite(path)
    other.exec(sql)
    other.close()
    const before = readFileSync(path)
    await expect(open()).rejects.toMatchObject({
      code: 'config_invalid',
      message: expect.stringMatching(new RegExp(`${path} is .* another program.*journal\\.path`)) as string,
    })
    expect(readFileSync(path).equals(before)).toBe(true)
    expect(readdirSync(join(folder, 'state'))).toEqual(['journal.db'])
  })

  it('a journal has the mark of this program, an older journal from its next start, an empty file from its first', async () => {
    const mark = (change = '') => {
      const db = new Sqlite(path)
      db.exec(change)
      const found = db.pragma('application_id', { simple: true })
      db.close()
      return found
    }
    await (await open()).close()
    const ours = mark()
    expect(ours).not.toBe(0)
    expect(mark(`${undoRenaming} PRAGMA application_id = 0; PRAGMA user_version = 4`)).toBe(0)
    await (await open()).close()
    expect(mark()).toBe(ours)
    writeFileSync(path, '')
    await (await open()).close()
    expect(mark()).toBe(ours)
  })

  it('findings of a file from before the findings index are not counted again', async () => {
    const seen = part([spec(1)], { findings: [{ kind: 'foreign_fetch', index: 0 }], wanted: () => false })
    const journal = await open()
    await journal.append(seen)
    await journal.close()
    const before = new Sqlite(path)
    before.exec(`${undoRenaming} DROP INDEX findings_by_time; PRAGMA user_version = 3`)
    before.close()
    const again = await open()
    expect(await again.append(seen)).toMatchObject({ findings: 0 })
    expect(again.stats().findings).toBe(1)
    await again.close()
    const after = new Sqlite(path)
    const how = after.prepare('EXPLAIN QUERY PLAN SELECT 1 FROM findings WHERE source = 1 AND at = 1').all()
    expect(JSON.stringify(how)).toContain('findings_by_time')
    after.close()
  })

  it('a path that is a folder, or is below a file, is a configuration error', async () => {
    await expect(open({ path: folder })).rejects.toMatchObject({ code: 'config_invalid' })
    writeFileSync(join(folder, 'plain'), '')
    await expect(open({ path: join(folder, 'plain', 'x.db') })).rejects.toMatchObject({
      code: 'config_invalid',
    })
  })

  it('a folder that cannot be made is a configuration error: below a broken link, below /proc', async () => {
    symlinkSync(join(folder, 'absent'), join(folder, 'dangling'))
    for (const way of [join(folder, 'dangling'), '/proc/auditferry-test'])
      await expect(open({ path: join(way, 'a.db') })).rejects.toMatchObject({
        code: 'config_invalid',
        message: expect.stringContaining(way) as string,
      })
    expect(existsSync(join(folder, 'absent'))).toBe(false)
  })

  it('the counts by source and day add up what happened to each entry', async () => {
    const journal = await open()
    const day = 86_400_000_000
    const at = (n: number, days: number) => ({ id: uuid(n), at: START_US + days * day })
    await journal.append(
      part([at(1, 0), at(2, 1), { ...at(3, 1), type: 'no' }], { wanted: (type) => type !== 'no' }),
    )
    await journal.append(part([at(1, 0), at(4, 0), at(5, 1)], { headUs: START_US + day }))
    await journal.close()
    const db = new Sqlite(path)
    const first = START_US / day
    expect(db.prepare('SELECT day, new, late, known, filtered FROM counts').raw().all()).toEqual([
      [first, 1, 1, 1, 0],
      [first + 1, 2, 0, 0, 1],
    ])
    db.close()
  })
})

describe('damage', () => {
  const damage = (change: (db: Sqlite.Database) => void) => {
    const db = new Sqlite(path)
    change(db)
    db.close()
  }

  const garbage = Buffer.alloc(50_000, 'not a database ')

  it.each([['a log'], ['a ballast'], ['the spool folder of an s3 sink']])(
    'a journal whose first bytes are gone is reported as damaged, with how to move it aside, and left unchanged, if %s is beside it',
    async (which) => {
      await (await open()).close()
      writeFileSync(path, garbage)
      if (which === 'a log') writeFileSync(`${path}-wal`, 'x')
      else if (which === 'a ballast') writeFileSync(`${path}.ballast`, '')
      else mkdirSync(join(folder, 'state', 'spool', 'journal.db'), { recursive: true })
      await expect(open()).rejects.toMatchObject({
        code: 'journal_corrupt',
        message: expect.stringContaining(`2. Move ${path} aside, and ${path}-wal if it exists`) as string,
      })
      expect(readFileSync(path).equals(garbage)).toBe(true)
    },
  )

  it('a damaged journal that still starts like a database is reported as damaged too', async () => {
    await (await open()).close()
    const bytes = readFileSync(path)
    bytes.fill(0xff, 16, 100)
    writeFileSync(path, bytes)
    await expect(open()).rejects.toMatchObject({ code: 'journal_corrupt' })
    expect(readFileSync(path).equals(bytes)).toBe(true)
  })

  it.each(['{"id":"1"}\n', 'SQLite', garbage.toString()])(
    'a file that is no journal, with no journal file beside it, is a configuration error and left unchanged: %.10s',
    async (content) => {
      mkdirSync(join(folder, 'state'))
      writeFileSync(path, content)
      const error = await open().catch((caught: unknown) => caught)
      expect(error).toMatchObject({
        code: 'config_invalid',
        message: expect.stringMatching(
          / is not a journal, and is left unchanged: set journal\.path /,
        ) as string,
      })
      expect(String(error)).not.toContain('aside')
      expect(readFileSync(path, 'utf8')).toBe(content)
      expect(readdirSync(join(folder, 'state'))).toEqual(['journal.db'])
    },
  )

  it('a torn page is found at start, before it is read', async () => {
    const journal = await open()
    await journal.append(part(Array.from({ length: 3000 }, (_, i) => spec(i))))
    await journal.close()
    const bytes = readFileSync(path)
    // Only the check at start reads these leaves of the key index.
    for (let page = 8192; page < bytes.length; page += 8192)
      if (bytes[page] === 0x0a && bytes.readUInt16BE(page + 3) > 100) bytes.fill(0xff, page + 8, page + 64)
    writeFileSync(path, bytes)
    await expect(open()).rejects.toMatchObject({ code: 'journal_corrupt' })
  })

  it('a damaged payload is not delivered: the error names its chunk', async () => {
    const journal = await open()
    await journal.append(part([spec(1)]))
    await journal.append(part([spec(2), spec(3)]))
    await journal.close()
    damage((db) =>
      db.exec(`UPDATE chunks SET slab = CAST(replace(slab, 'user', 'uSer') AS BLOB) WHERE first = 2`),
    )
    const again = await open()
    expect(idsOf(await again.take('a', { maxEntries: 1, maxBytes: 1 }))).toEqual([uuid(1)])
    await expect(again.take('a', plenty)).rejects.toMatchObject({
      ...{ code: 'journal_corrupt', message: expect.stringContaining('entries 2 to 3') as string },
    })
  })

  it('a chunk stored under the sequence number of another is found', async () => {
    const journal = await open()
    await journal.append(part([spec(1)]))
    await journal.append(part([spec(2)]))
    await journal.close()
    damage((db) =>
      db.exec(
        'UPDATE chunks SET first = 9, last = 9 WHERE first = 1; UPDATE chunks SET first = 1, last = 1 WHERE first = 2',
      ),
    )
    await expect((await open()).take('a', plenty)).rejects.toMatchObject({ code: 'journal_corrupt' })
  })
})

describe('a failing disk', () => {
  it('after an I/O error nothing is read or written any more: the last commit may be missing on disk', async () => {
    const clock = new TestClock()
    const journal = await open({ clock })
    await journal.append(part([spec(1)]))
    clock.now = () => {
      throw Object.assign(new Error('disk I/O error'), { code: 'SQLITE_IOERR_FSYNC' })
    }
    await expect(journal.append(part([spec(2)]))).rejects.toMatchObject({ code: 'disk_failed' })
    clock.now = () => clock.nowMs
    await expect(journal.append(part([spec(2)]))).rejects.toMatchObject({ code: 'disk_failed' })
    await expect(journal.take('a', plenty)).rejects.toMatchObject({ code: 'disk_failed' })
    await expect(journal.ack('a', acknowledgement(1, 1))).rejects.toMatchObject({ code: 'disk_failed' })
  })

  it('each fault of SQLite and the file system has its code', () => {
    const codes = {
      ...{
        SQLITE_FULL: 'disk_full',
        ENOSPC: 'disk_full',
        SQLITE_IOERR_WRITE: 'disk_failed',
        EIO: 'disk_failed',
      },
      ...{
        SQLITE_CORRUPT_INDEX: 'journal_corrupt',
        SQLITE_NOTADB: 'journal_corrupt',
        SQLITE_BUSY: 'journal_in_use',
      },
      ...{ SQLITE_CANTOPEN: 'config_invalid', SQLITE_READONLY: 'config_invalid', EACCES: 'config_invalid' },
    }
    for (const [code, ours] of Object.entries(codes))
      expect(translate(Object.assign(new Error('x'), { code }), '/j.db')).toMatchObject({ code: ours })
    const bug = new TypeError('x')
    expect(translate(bug, '/j.db')).toBe(bug)
  })
})

describe('a journal path that is a link', () => {
  const target = () => join(folder, 'volume', 'real.db')
  const linked = async (settings: Partial<JournalOptions> = {}) => {
    for (const name of ['volume', 'state', 'deep']) mkdirSync(join(folder, name))
    symlinkSync('../state', join(folder, 'deep', 'way'))
    // Relative to the real folder of the link.
    symlinkSync('../volume/real.db', path)
    return open({ path: join(folder, 'deep', 'way', 'journal.db'), ballastBytes: 10_000, ...settings })
  }

  it('puts all other files beside the target, on its volume, and none beside the link', async () => {
    const [types, free, volume] = [[], [], []] as [string[], string[], string[]]
    const journal = await linked({
      fileSystemType: (at) => types.push(at) * 0,
      freeBytes: (at) => free.push(at) * 1e9,
      volumeBytes: (at) => volume.push(at) * 1e9,
    })
    await journal.append(part([spec(1)]))
    expect(readdirSync(join(folder, 'volume'))).toEqual(['real.db', 'real.db-wal', 'real.db.ballast'])
    expect(readdirSync(join(folder, 'state'))).toEqual(['journal.db'])
    expect([...new Set([...types, ...free, ...volume])]).toEqual([join(folder, 'volume')])
  })

  it.each(['volume/real.db', 'volume/real.db-wal', 'state/journal.db'])(
    'reports %s as gone while it is missing',
    async (name) => {
      const journal = await linked()
      renameSync(join(folder, name), join(folder, 'aside'))
      expect(await journal.lost()).toContain(' is gone')
      expect(await journal.lost()).toContain(`put ${target()} and ${target()}-wal back`)
      renameSync(join(folder, 'aside'), join(folder, name))
      expect(await journal.lost()).toBeUndefined()
    },
  )

  it('reports a link that was changed to another file, since the next start would open that one', async () => {
    const journal = await linked()
    writeFileSync(join(folder, 'other.db'), '')
    renameSync(path, join(folder, 'aside'))
    symlinkSync('../other.db', path)
    expect(await journal.lost()).toContain('another file')
  })
})

describe('a full disk', () => {
  const appendAll = async (journal: Journal, from: number) => {
    for (let n = from; ; n++) await journal.append(big(n))
  }

  it('at the file limit appends fail, while delivery and pruning go on and make room', async () => {
    const journal = await open({ maxFileBytes: 1_500_000, keepDeliveredBytes: 0, ballastBytes: 1000 })
    let kept = 0
    const fill = async () => {
      for (;;) {
        await journal.append(big(kept + 1))
        kept++
      }
    }
    await expect(fill()).rejects.toMatchObject({ code: 'disk_full' })
    expect(kept).toBeGreaterThan(5)
    await expect(journal.append(big(kept + 1))).rejects.toMatchObject({ code: 'disk_full' })
    await journal.ack('a', acknowledgement(1, kept - 1))
    while (await journal.prune()) continue
    expect(await journal.append(big(kept + 1))).toMatchObject({ added: 1 })
    expect(idsOf(await journal.take('a', plenty))).toEqual([uuid(kept), uuid(kept + 1)])
    expect(existsSync(`${path}.ballast`)).toBe(true)
  })

  it('the ballast stays while only the file limit is reached and the disk has room', async () => {
    let free = 1e9
    const settings = { maxFileBytes: 1_500_000, ballastBytes: 10_000, freeBytes: () => free }
    const journal = await open(settings)
    const ballast = () => statSync(`${path}.ballast`, { throwIfNoEntry: false })?.ino
    const before = ballast()
    const huge = part([spec(1, { body: 'x'.repeat(3_000_000) })])
    await expect(journal.append(huge)).rejects.toMatchObject({ code: 'disk_full' })
    await expect(journal.state.put('x', 'y'.repeat(3_000_000))).rejects.toMatchObject({ code: 'disk_full' })
    expect(before).toBeDefined()
    expect(ballast()).toBe(before)
    expect(sentences.join()).not.toContain('removed its reserve')
    // A full disk frees the ballast, also if the file is at its limit too.
    await expect(appendAll(journal, 2)).rejects.toMatchObject({ code: 'disk_full' })
    free = 0
    await expect(appendAll(journal, 50)).rejects.toMatchObject({ code: 'disk_full' })
    expect(ballast()).toBeUndefined()
  })

  it('a file of an older version that is at its limit still opens', async () => {
    const maxFileBytes = 1_000_000
    const journal = await open({ maxFileBytes })
    await journal.append(big(1))
    await journal.close()
    const older = new Sqlite(path)
    older.exec(`${undoRenaming} DROP INDEX findings_by_time; PRAGMA user_version = 3`)
    const pages = () => older.pragma('page_count', { simple: true }) as number
    for (let i = 0; pages() * 8192 < maxFileBytes; i++) older.exec(`CREATE TABLE filler${i} (x)`)
    older.close()
    await expect(open({ maxFileBytes })).resolves.toBeDefined()
  })

  it('if quarantine fills the file the error says so, and dropping it makes room', async () => {
    const journal = await open({ maxFileBytes: 1_010_000 })
    const malformed = (n: number) => {
      const bytes = randomBytes(50_000)
      const sha256 = String(n).padStart(64, '0')
      return part([], { quarantined: [{ reason: 'no_id', bytes, totalBytes: 50_000, sha256 }] })
    }
    let kept = 0
    const fill = async () => {
      for (; ; kept++) await journal.append(malformed(kept))
    }
    const reported = expect.stringMatching(/bound of 0\.9 MiB.*: .*quarantine export.*drop/) as string
    await expect(fill()).rejects.toMatchObject({ code: 'disk_full', message: reported })
    expect(journal.stats()).toMatchObject({ bytes: 0, quarantined: kept })
    expect(await journal.dropQuarantined({})).toBe(kept)
    expect(journal.stats().quarantined).toBe(0)
    expect(await journal.append(big(1))).toMatchObject({ added: 1 })
  })

  it('if dead letters fill the file the error says so, also after a restart, and dropping them makes room', async () => {
    const settings = { maxFileBytes: 1_010_000, keepDeliveredBytes: 0 }
    let journal = await open(settings)
    let kept = 0
    const fill = async () => {
      for (;;) {
        await journal.append(big(kept + 1))
        kept++
        const rejected = [{ seq: kept, code: 'refused', reason: 'as told' }]
        await journal.ack('a', { first: kept, through: kept, rejected })
        while (await journal.prune()) continue
      }
    }
    const reported = expect.stringMatching(
      /bound of 0\.9 MiB, and 0\.\d MiB of them are dead.*: .*dead-letters export.*drop/,
    ) as string
    await expect(fill()).rejects.toMatchObject({ code: 'disk_full', message: reported })
    await journal.close()
    journal = await open(settings)
    await expect(appendAll(journal, kept + 1)).rejects.toMatchObject({ message: reported })
    expect(await journal.dropDeadLetters({})).toBe(kept - 1)
    // Now pending entries fill it. They must not be dropped.
    await expect(appendAll(journal, kept + 10)).rejects.toMatchObject({
      message: expect.not.stringContaining('drop') as string,
    })
  })

  it('the error for a file full of pending entries suggests no drop', async () => {
    const journal = await open({ maxFileBytes: 1_010_000 })
    await expect(appendAll(journal, 1)).rejects.toMatchObject({
      code: 'disk_full',
      message: expect.not.stringContaining('drop') as string,
    })
  })

  it('a start on a full disk reports that nothing was started, how much room it needs, and to start again', () => {
    const full = translate(Object.assign(new Error('full'), { code: 'SQLITE_FULL' }), path)
    const reported = atStart(full, () => '3 MiB are free, the journal needs 96 MiB')
    expect(reported).toMatchObject({
      code: 'disk_full',
      message: `the disk is full or the file has reached its bound (3 MiB are free, the journal needs 96 MiB): make room, and start again. Nothing was started and nothing is lost. The journal is ${path}`,
    })
    expect(atStart(translate(new Error('other'), path), () => '')).toEqual(new Error('other'))
  })

  it('a start that finds the disk full says to start again', async () => {
    const full = Object.assign(new Error('full'), { code: 'SQLITE_FULL' })
    const fileSystemType = () => {
      throw full
    }
    await expect(open({ fileSystemType })).rejects.toMatchObject({
      code: 'disk_full',
      message: expect.stringContaining('and start again') as string,
    })
  })

  it('without room for the ballast appends fail, stored entries are delivered, and new room ends that', async () => {
    let free = 0
    const settings = { ballastBytes: 2 ** 19, freeBytes: () => free }
    const journal = await open(settings)
    expect(sentences.join()).toContain('no room')
    await expect(journal.append(part([spec(1)]))).rejects.toMatchObject({
      code: 'disk_full',
      message: expect.stringContaining('0 MiB are free, the journal needs 1 MiB: make room') as string,
    })
    await journal.state.put('x', 'y')
    free = 2e7
    expect(await journal.append(part([spec(1)]))).toMatchObject({ added: 1 })
    expect(statSync(`${path}.ballast`).size).toBe(2 ** 19)
  })

  const MB = 1_000_000
  const ackAll = async (journal: Journal, first: number, through: number) => {
    for (let n = first; n <= through; n++) {
      await journal.ack('a', acknowledgement(n, n))
      while (await journal.prune()) continue
    }
  }

  it('without room for the ballast free pages of the file are reused, and the error names what takes the room', async () => {
    let free = 1e9
    const settings = {
      ...{ ballastBytes: MB, keepDeliveredBytes: 0, freeBytes: () => free, volumeBytes: () => 6 * MB },
    }
    let journal = await open(settings)
    for (let n = 1; n <= 40; n++) await journal.append(big(n))
    await journal.close()
    await rm(`${path}.ballast`)
    free = 1.9 * MB
    journal = await open(settings)
    expect(sentences.filter((sentence) => sentence.includes('no room'))).toHaveLength(1)
    await expect(journal.append(big(41))).rejects.toMatchObject({
      code: 'disk_full',
      message: expect.stringMatching(/own file takes [34]\.\d MiB of 5\.7 MiB.*: .*keep_delivered/) as string,
    })
    await ackAll(journal, 1, 40)
    expect(await journal.append(big(41))).toMatchObject({ added: 1 })
    // The last free pages, and a log larger than the disk allows, are reserved for delivery.
    for (const large of [
      part([spec(42, { body: 'x'.repeat(2 * MB) })]),
      part([spec(42)], { cursor: 'x'.repeat(2 * MB) }),
      part([spec(42)], {
        quarantined: [
          ...[{ reason: 'no_id' as const, bytes: randomBytes(2 * MB), totalBytes: 2 * MB, sha256: '0' }],
        ],
      }),
    ])
      await expect(journal.append(large)).rejects.toMatchObject({ code: 'disk_full' })
    const size = statSync(path).size
    await expect(appendAll(journal, 42)).rejects.toMatchObject({ code: 'disk_full' })
    expect(statSync(path).size).toBe(size)
    await journal.close()
    free = 100_000
    journal = await open(settings)
    await ackAll(journal, 41, journal.stats().entries + 40)
    await expect(journal.append(big(90))).rejects.toMatchObject({ code: 'disk_full' })
    free = 1.9 * MB
    expect(await journal.append(big(90))).toMatchObject({ added: 1 })
    expect(existsSync(`${path}.ballast`)).toBe(false)
    free = 1e9
    await journal.append(big(91))
    expect(existsSync(`${path}.ballast`)).toBe(true)
  })

  it('the ballast is sized for the largest entry', async () => {
    await open({ ballastBytes: undefined, maxEntryBytes: 20 * 2 ** 20 })
    expect(statSync(`${path}.ballast`).size).toBe(56 * 2 ** 20)
  })

  it('a ballast of another size is replaced by one of the current size', () => {
    writeFileSync(join(folder, 'j.ballast'), Buffer.alloc(50))
    expect(new Ballast(join(folder, 'j'), 100, () => 150).ensure()).toBe(true)
    expect(statSync(join(folder, 'j.ballast')).size).toBe(100)
  })

  it('a partly written ballast is removed', () => {
    const script = `
      const { Ballast } = await import(${JSON.stringify(new URL('../../../../src/journal/sqlite/space.ts', import.meta.url).href)})
      console.log(new Ballast(${JSON.stringify(join(folder, 'j'))}, 100_000, () => Infinity).ensure())`
    const { stdout } = spawnSync(
      'sh',
      ['-c', 'ulimit -f 64; exec "$@"', '-', process.execPath, '--input-type=module', '-e', script],
      { encoding: 'utf8' },
    )
    expect(stdout.trim()).toBe('false')
    expect(readdirSync(folder)).toEqual([])
  })

  it('a link at the path of the ballast is not followed, and a start with one is refused', async () => {
    const target = join(folder, 'target')
    writeFileSync(target, 'theirs')
    symlinkSync(target, join(folder, 'j.ballast'))
    expect(new Ballast(join(folder, 'j'), 100, () => Infinity).ensure()).toBe(true)
    expect(lstatSync(join(folder, 'j.ballast')).isFile()).toBe(true)
    mkdirSync(join(folder, 'state'))
    symlinkSync(target, `${path}.ballast`)
    await expect(open({ ballastBytes: 100 })).rejects.toMatchObject({
      code: 'config_invalid',
      message: expect.stringContaining(`${path}.ballast is a link`) as string,
    })
    expect(readFileSync(target, 'utf8')).toBe('theirs')
    expect(readdirSync(join(folder, 'state'))).toEqual(['journal.db.ballast'])
  })

  const asRoot = (command: string, words: readonly string[]) => spawnSync(command, words)
  const mounted =
    (work: (mount: string) => Promise<void>, size = '4m') =>
    async (context: { skip: (why: string) => void }) => {
      const made = asRoot('mount', ['-t', 'tmpfs', '-o', `size=${size}`, 'tmpfs', folder])
      if (made.status !== 0) {
        console.warn('SKIPPED: a really full disk needs the right to mount a tmpfs')
        context.skip('no right to mount a tmpfs')
        return
      }
      try {
        await work(folder)
      } finally {
        for (const journal of opened.splice(0)) await journal.close()
        asRoot('umount', [folder])
      }
    }

  it(
    'a full disk first takes the ballast: reading pauses, delivery goes on, also after a restart, and room restores both',
    mounted(async (mount) => {
      const settings = { path: join(mount, 'journal.db'), ballastBytes: 600_000, keepDeliveredBytes: 0 }
      let journal = await open(settings)
      for (let n = 1; n <= 3; n++) await journal.append(big(n))
      const foreign = join(mount, 'foreign')
      writeFileSync(foreign, Buffer.alloc(freeBytesOf(mount) - 50_000))
      const fill = async () => {
        for (let n = 4; ; n++) await journal.append(big(n))
      }
      await expect(fill()).rejects.toMatchObject({ code: 'disk_full' })
      expect(existsSync(`${settings.path}.ballast`)).toBe(false)
      await expect(fill()).rejects.toMatchObject({ code: 'disk_full' })
      const batch = await journal.take('a', { maxEntries: 2, maxBytes: 1e6 })
      expect(idsOf(batch)).toEqual([uuid(1), uuid(2)])
      await journal.ack('a', acknowledgement(1, 2))
      await journal.close()
      journal = await open(settings)
      expect(idsOf(await journal.take('a', { maxEntries: 1, maxBytes: 1 }))).toEqual([uuid(3)])
      await journal.ack('a', acknowledgement(3, 3))
      while (await journal.prune()) continue
      await expect(fill()).rejects.toMatchObject({ code: 'disk_full' })
      await rm(foreign)
      expect(await journal.append(big(50))).toMatchObject({ added: 1 })
      expect(existsSync(`${settings.path}.ballast`)).toBe(true)
    }),
  )

  const large = (n: number) => part([spec(n, { body: 'x'.repeat(4_096_000) })])

  it(
    'a journal that filled its volume delivers everything and then reuses its own file, also after a restart',
    mounted(async (mount) => {
      const settings = { path: join(mount, 'journal.db'), keepDeliveredBytes: 0, ballastBytes: undefined }
      const once = async () => {
        let kept = 0
        const fill = async () => {
          for (; ; kept++) await journal.append(large(next + kept))
        }
        for (let i = 0; i < 3; i++) await expect(fill()).rejects.toMatchObject({ code: 'disk_full' })
        await ackAll(journal, next, next + kept - 1)
        next += kept
        return kept
      }
      let next = 1
      let journal = await open(settings)
      await once()
      const size = statSync(settings.path).size
      expect(freeBytesOf(mount)).toBeLessThan(2 ** 26)
      expect(await once()).toBeGreaterThan(3)
      await journal.close()
      journal = await open(settings)
      expect(await once()).toBeGreaterThan(3)
      expect(await once()).toBeGreaterThan(3)
      expect(statSync(settings.path).size).toBe(size)
    }, '148m'),
    30_000,
  )

  it(
    'an append without a ballast restarts the log, which may not grow',
    mounted(async (mount) => {
      const settings = { path: join(mount, 'journal.db'), keepDeliveredBytes: 0, ballastBytes: MB }
      const before = await open(settings)
      for (let n = 1; n <= 40; n++) await before.append(big(n))
      await before.close()
      await rm(`${settings.path}.ballast`)
      const foreign = join(mount, 'foreign')
      writeFileSync(foreign, Buffer.alloc(freeBytesOf(mount) - 1.95 * MB))
      const journal = await open(settings)
      await journal.ack('a', acknowledgement(1, 40))
      while (await journal.prune()) continue
      await journal.state.put('x', 'x'.repeat(1.3 * MB))
      await journal.state.put('x', '')
      writeFileSync(foreign, Buffer.alloc(freeBytesOf(mount) - 30_000), { flag: 'a' })
      expect(await journal.append(big(41))).toMatchObject({ added: 1 })
    }, '16m'),
  )

  it(
    'without a ballast appends fail while the file still has to grow by what the log holds',
    mounted(async (mount) => {
      const settings = { path: join(mount, 'journal.db'), keepDeliveredBytes: 0, ballastBytes: MB }
      const journal = await open(settings)
      for (let n = 1; n <= 40; n++) await journal.append(big(n))
      const foreign = join(mount, 'foreign')
      writeFileSync(foreign, Buffer.alloc(freeBytesOf(mount) - 30_000))
      await expect(appendAll(journal, 41)).rejects.toMatchObject({ code: 'disk_full' })
      expect(existsSync(`${settings.path}.ballast`)).toBe(false)
      await journal.ack('a', acknowledgement(1, 40))
      while (await journal.prune()) continue
      await expect(journal.append(big(41))).rejects.toMatchObject({ code: 'disk_full' })
      await rm(foreign)
      expect(await journal.append(big(41))).toMatchObject({ added: 1 })
    }, '16m'),
  )

  it(
    'the ballast has room to make the largest entry a dead letter behind a full log, so delivery goes on',
    mounted(async (mount) => {
      const path = join(mount, 'journal.db')
      const journal = await open({ path, sinks: ['a', 'b'], ballastBytes: undefined })
      await journal.append(part([spec(1, { body: 'x'.repeat(2 ** 24 - 200) })]))
      for (let n = 2; n <= 16; n++) await journal.append(part([spec(n, { body: 'x'.repeat(2 ** 20) })]))
      writeFileSync(join(mount, 'foreign'), Buffer.alloc(freeBytesOf(mount) - 65_536))
      const rejected = [{ seq: 1, code: 'refused', reason: 'as told' }]
      await journal.ack('a', { first: 1, through: 1, rejected })
      expect(sentences.join()).toContain('removed its reserve')
      // More than the log has room for, so it is checkpointed meanwhile.
      for (let n = 0; n < 40; n++) await journal.state.put('x', String(n % 10).repeat(MB))
      await journal.ack('b', acknowledgement(1, 16))
      while (await journal.prune()) continue
    }, '160m'),
    30_000,
  )

  it(
    'without room on disk or in the ballast delivery goes on within the existing log',
    mounted(async (mount) => {
      const settings = { path: join(mount, 'journal.db') }
      const before = await open(settings)
      await before.append(big(1))
      for (const value of ['x'.repeat(MB), '']) await before.state.put('x', value)
      await before.close()
      const journal = await open(settings)
      writeFileSync(join(mount, 'foreign'), Buffer.alloc(freeBytesOf(mount) - 0.8 * MB))
      for (let n = 0; n < 20; n++) await journal.state.put('x', String(n % 10).repeat(MB / 4))
      expect(freeBytesOf(mount)).toBeLessThan(300_000)
      await journal.ack('a', acknowledgement(1, 1))
    }),
  )

  it(
    'acknowledgements and in-flight batches may use the ballast at once',
    mounted(async (mount) => {
      const journal = await open({ path: join(mount, 'journal.db'), ballastBytes: 600_000 })
      await journal.append(big(1))
      writeFileSync(join(mount, 'foreign'), Buffer.alloc(freeBytesOf(mount) - 8192))
      await journal.recordInFlight('a', { first: 1, last: 1, shape: 's', detail: 'x'.repeat(200_000) })
      await journal.ack('a', acknowledgement(1, 1))
      expect(sentences.join()).toContain('ballast')
      await expect(journal.append(big(2))).rejects.toMatchObject({ code: 'disk_full' })
    }),
  )
})

describe('SIGKILL', () => {
  it('killed twenty times while appending and delivering: nothing missing, nothing out of order, at most one batch repeated per kill', async () => {
    const received = join(folder, 'received')
    const program = new URL('./appender.ts', import.meta.url).pathname
    const kills = 20
    for (let round = 0; round < kills; round++) {
      const child = spawn(process.execPath, [program, path, received], {
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      await once(child.stdout, 'data')
      await new Promise((resolve) => setTimeout(resolve, 5 + ((round * 37) % 60)))
      child.kill('SIGKILL')
      await once(child, 'exit')
    }
    const journal = await open({ keepDeliveredBytes: 2000, keepKeysMs: 1e12 })
    const lines = readFileSync(received, 'latin1').trim().split('\n')
    const distinct = [...new Set(lines)]
    expect(lines.length - distinct.length).toBeLessThanOrEqual(7 * kills)
    distinct.forEach((line, i) => expect(line).toBe(`${i + 1} ${uuid(i)}`))
    const position = journal.stats().sinks[0]?.position ?? NaN
    expect(distinct.length - position).toBeGreaterThanOrEqual(0)
    expect(distinct.length - position).toBeLessThanOrEqual(7)
    const rest = idsOf(await journal.take('a', { maxEntries: 1e6, maxBytes: 1e9 }))
    const cursor = Number(await journal.cursor(audit))
    expect(rest).toEqual(Array.from({ length: cursor + 5 - position }, (_, i) => uuid(position + i)))
    expect(distinct.length).toBeGreaterThan(100)
    // Twenty process starts: 60 s were too few at a load of 15.
  }, 180_000)
})
