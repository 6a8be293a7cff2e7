// The real disk, on real files.
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  lchownSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { messageOf } from '../../../src/observability/words.ts'
import { disk, diskError, syncError } from '../../../src/platform/disk.ts'

let folder: string
beforeEach(() => (folder = mkdtempSync(join(tmpdir(), 'disk-'))))
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const at = (name: string) => join(folder, name)

test('a file is created with its folders, for its owner alone', async () => {
  for (const name of ['a/b/c.ndjson', 'a/b/d.ndjson']) {
    const file = await disk.open(at(name))
    await file.close()
    expect(statSync(at(name)).mode & 0o777).toBe(0o600)
  }
  expect(statSync(at('a/b')).mode & 0o777).toBe(0o700)
})

test('bytes are where they were written, and reading stops at the end', async () => {
  const file = await disk.open(at('f'))
  await file.write(Buffer.from('hello'), 0)
  await file.write(Buffer.from('LL'), 2)
  await file.sync()
  expect(Buffer.from(await file.read(1, 100)).toString()).toBe('eLLo')
  expect((await file.read(50, 10)).length).toBe(0)
  await file.truncate(3)
  expect(await file.size()).toBe(3)
  await file.close()
  expect(readFileSync(at('f'), 'utf8')).toBe('heL')
})

test('a file has a name until it is removed or replaced, not only moved', async () => {
  for (const [name, lose] of [
    ['f', () => disk.remove(at('f.1'))],
    [
      'g',
      () => disk.open(at('new')).then((file) => file.close().then(() => disk.rename(at('new'), at('g.1')))),
    ],
  ] as const) {
    const file = await disk.open(at(name))
    await disk.rename(at(name), at(`${name}.1`))
    expect(await file.isNamed()).toBe(true)
    await lose()
    expect(await file.isNamed()).toBe(false)
    await file.close()
  }
})

test('a file keeps its identity under another name, and no other file has it', async () => {
  const identity = async (path: string) => {
    const file = await disk.open(path)
    const text = await file.identity()
    await file.close()
    return text
  }
  const first = await identity(at('f'))
  await disk.rename(at('f'), at('f.1'))
  expect(await identity(at('f.1'))).toBe(first)
  expect(await identity(at('f'))).not.toBe(first)
  await disk.remove(at('f.1'))
  await new Promise((resolve) => setTimeout(resolve, 20))
  expect(await identity(at('again'))).not.toBe(first)
})

test('a file that is opened to be read is read and synced, and neither created nor changed', async () => {
  writeFileSync(at('f'), 'there', { mode: 0o440 })
  const file = await disk.openToRead(at('f'))
  expect(Buffer.from(await file.read(0, 9)).toString()).toBe('there')
  expect(await file.identity()).toBe((await disk.look(at('f')))?.identity)
  await file.sync()
  await expect(file.write(Buffer.from('x'), 0)).rejects.toThrow()
  await expect(file.truncate(0)).rejects.toThrow()
  await file.close()
  expect(readFileSync(at('f'), 'utf8')).toBe('there')
  await expect(disk.openToRead(at('absent'))).rejects.toMatchObject({ code: 'misconfigured' })
  await expect(disk.openToRead(folder)).rejects.toMatchObject({ code: 'misconfigured' })
  expect(existsSync(at('absent'))).toBe(false)
})

test('a new file takes no existing name, not even that of a dangling link', async () => {
  writeFileSync(at('f'), 'theirs')
  symlinkSync(at('absent'), at('link'))
  for (const name of ['f', 'link'])
    await expect(disk.openNew(at(name))).rejects.toMatchObject({ code: 'misconfigured' })
  expect(readFileSync(at('f'), 'utf8')).toBe('theirs')
  expect(await disk.exists(at('absent'))).toBe(false)
  await (await disk.openNew(at('deep/n'))).close()
  expect(statSync(at('deep/n')).mode & 0o777).toBe(0o600)
})

test.runIf(process.getuid?.() === 0)(
  'a file or link of another user is neither written to nor followed: it may have been planted',
  async () => {
    chmodSync(folder, 0o1777)
    writeFileSync(at('f'), 'theirs', { mode: 0o666 })
    writeFileSync(at('target'), 'ours')
    symlinkSync(at('target'), at('link'))
    for (const name of ['f', 'link']) lchownSync(at(name), 1001, 1001)
    for (const name of ['f', 'link'])
      await expect(disk.open(at(name))).rejects.toMatchObject({
        code: 'misconfigured',
        message: expect.stringContaining('another user (uid 1001') as string,
      })
  },
)

test('a removed file is gone, and may be removed again', async () => {
  writeFileSync(at('f'), '')
  expect([await disk.exists(at('f')), await disk.exists(at('g'))]).toEqual([true, false])
  await disk.remove(at('f'))
  await disk.remove(at('f'))
  await disk.syncFolder(folder)
  expect(await disk.exists(at('f'))).toBe(false)
})

test('a folder is listed with the type of each entry, and a link is a type of its own', async () => {
  writeFileSync(at('f'), '')
  mkdirSync(at('inside'))
  symlinkSync('inside', at('link'))
  expect([...(await disk.list(folder))].sort((a, b) => (a.name < b.name ? -1 : 1))).toEqual([
    { name: 'f', kind: 'file' },
    { name: 'inside', kind: 'folder' },
    { name: 'link', kind: 'other' },
  ])
  expect(await disk.list(at('absent'))).toEqual([])
  await expect(disk.list(at('f'))).rejects.toMatchObject({ code: 'misconfigured' })
})

test('an obstacle is reported with its path, as misconfigured', async () => {
  writeFileSync(at('f'), '')
  symlinkSync(at('absent'), at('dangling'))
  for (const path of [at('f/g'), folder, at('dangling/g'), '/proc/auditferry-test/g']) {
    const error = await disk.open(path).catch((each: unknown) => each)
    expect(error).toMatchObject({ code: 'misconfigured' })
    expect(String(error)).toContain(path === folder ? path : dirname(path))
  }
})

test.runIf(process.getuid?.() !== 0)('a folder without permission is misconfigured', async () => {
  chmodSync(folder, 0o500)
  await expect(disk.open(at('f'))).rejects.toMatchObject({ code: 'misconfigured' })
  chmodSync(folder, 0o700)
})

test('a file that is not regular is misconfigured: no offset in it could be found again', async () => {
  execFileSync('mkfifo', [at('pipe')])
  for (const path of ['/dev/null', '/dev/full', at('pipe')])
    await expect(disk.open(path)).rejects.toMatchObject({
      code: 'misconfigured',
      message: `${path} is not a regular file: use one, or a name that does not exist yet`,
    })
})

test.each([
  ['ENOSPC', 'disk_full'],
  ['EDQUOT', 'disk_full'],
  ['EACCES', 'misconfigured'],
  ['ENOENT', 'misconfigured'],
  ['EROFS', 'misconfigured'],
  ['EMFILE', 'misconfigured'],
  ['EIO', 'unreachable'],
  ['ESTALE', 'unreachable'],
  ['ENOTCONN', 'unreachable'],
  ['EHOSTDOWN', 'unreachable'],
  ['EWHATEVER', 'unreachable'],
  ['ERR_INVALID_ARG_VALUE', 'disk_failed'],
])('%s is %s', (errno, code) => {
  expect(diskError('write', '/f', Object.assign(new Error(errno), { code: errno }))).toMatchObject({ code })
})

test.runIf(process.platform === 'linux').each([
  [122, 'disk_full', 'EDQUOT'],
  [116, 'unreachable', 'ESTALE'],
  [117, 'unreachable', 'Unknown system error -117'],
])('number %i of the system, for which Node has no name, is %s', (errno, code, name) => {
  const cause = Object.assign(new Error('told'), { code: `Unknown system error -${errno}`, errno: -errno })
  const error = diskError('write', '/f', cause)
  expect(error).toMatchObject({ code })
  expect(error.message).toContain(`(${name})`)
})

test.each([
  ['ENOSPC', 'disk_full'],
  ['EDQUOT', 'disk_full'],
  ['EIO', 'unreachable'],
  ['EROFS', 'unreachable'],
])('a sync that fails with %s is %s, and says that its data is written again', (errno, code) => {
  const error = syncError('/f', Object.assign(new Error(errno), { code: errno }))
  expect(error).toMatchObject({ code })
  expect(error.message).toContain('written again')
})

const longPath = `/mnt/archive/${'a-folder-of-the-archive/'.repeat(10)}entries.ndjson`
const failed = (errno: string) => Object.assign(new Error(errno), { code: errno })

test.each([
  ['ENOSPC', /^cannot .*: free space; it then resumes automatically\. /],
  ['EDQUOT', /^cannot .*: free space or raise the quota; it then resumes automatically\. /],
  [
    'EFBIG',
    /^cannot .*: set rotate\.max_bytes below the file size limit .*, or raise that limit, and start again\. /,
  ],
])(
  'without room (%s) the fact comes first, then what to do, and the path last, as the journal reports it, and nothing is cut',
  (errno, first) => {
    for (const error of [diskError('write', longPath, failed(errno)), syncError(longPath, failed(errno))]) {
      expect(error.message).toMatch(first)
      expect(error.message).toContain(`(${errno})`)
      expect(error.message.endsWith(` ${longPath}`)).toBe(true)
      expect(messageOf(error)).toBe(error.message)
    }
  },
)
