// Which files of other users are refused, and which cause a warning, in the folders that operators really have.
import { expect, test } from 'vitest'
import {
  besideFault,
  type FileFacts,
  folderFault,
  groupFileWarning,
  groupWarning,
  ownerFault,
  publicWarning,
} from '../../../src/core/file-owners.ts'
import { unsafeFault } from '../../../src/journal/sqlite/files.ts'

const [ROOT, ME, OTHER, GROUP] = [0, 65532, 1001, 2000]
const made = (kind: FileFacts['kind'], mode: number, more: Partial<FileFacts> = {}): FileFacts => ({
  ...{ kind, mode, uid: ME, gid: ME, dev: 1 },
  ...more,
})
const on = (files: Readonly<Record<string, FileFacts>>, uid = ME) => ({
  facts: (path: string) => files[path],
  user: { uid, gid: uid },
})

const folder = made('folder', 0o700)
const above = made('folder', 0o755, { uid: ROOT })

test('a journal that this program created, in a folder that it created, is accepted', () => {
  const calls = on({
    '/s': above,
    '/s/a': folder,
    '/s/a/j': made('file', 0o600),
    '/s/a/j-wal': made('file', 0o600),
  })
  expect(unsafeFault('/s/a/j', '/s/a/j', calls)).toBeUndefined()
  expect([publicWarning('/s/a/j', calls), groupFileWarning('/s/a/j', calls)]).toEqual([undefined, undefined])
  expect(groupWarning('/s/a', calls)).toBeUndefined()
})

test.each(['j-wal', 'j-journal', 'j-shm', 'j.ballast'])(
  'a planted %s is refused, be it a link, of another user, or writable by all',
  (name) => {
    const path = `/s/${name}`
    const fault = (facts: FileFacts) => unsafeFault('/s/j', '/s/j', on({ '/s': folder, [path]: facts }))
    expect(fault(made('link', 0o777))).toMatch(`${path} is a link`)
    expect(fault(made('file', 0o600, { uid: OTHER }))).toMatch(`${path} is of another user (uid ${OTHER}`)
    expect(fault(made('file', 0o666))).toMatch(
      `${path} can be written by every user of this machine (mode 0666)`,
    )
    expect(fault(made('file', 0o600, { uid: ROOT }))).toBeUndefined()
  },
)

test('a journal of another user, or that everyone can write to, is refused', () => {
  const fault = (facts: FileFacts) => unsafeFault('/s/j', '/s/j', on({ '/s': folder, '/s/j': facts }))
  expect(fault(made('file', 0o600, { uid: OTHER }))).toMatch(`/s/j is of another user (uid ${OTHER}`)
  expect(fault(made('file', 0o666))).toMatch('/s/j can be written by every user of this machine (mode 0666)')
})

test('a link to the journal is followed if this user or root created it', () => {
  const calls = (uid: number) => on({ '/l': folder, '/l/j': made('link', 0o777, { uid }), '/s': folder })
  expect(unsafeFault('/l/j', '/s/j', calls(ROOT))).toBeUndefined()
  expect(unsafeFault('/l/j', '/s/j', calls(OTHER))).toMatch('/l/j is a link of another user')
})

test('a folder that everyone can write to is refused, except a sticky one and the root of a volume', () => {
  const fault = (mode: number, dev = 1) =>
    folderFault('/s/a', on({ '/s': above, '/s/a': made('folder', mode, { uid: ROOT, dev }) }))
  expect(fault(0o777)).toMatch('the folder /s/a can be written by every user of this machine (mode 0777)')
  expect([fault(0o1777), fault(0o775), fault(0o777, 2)]).toEqual([undefined, undefined, undefined])
})

test('a volume of Kubernetes with an fsGroup is accepted, also if an earlier pod had another user', () => {
  const volume = made('folder', 0o2777, { uid: ROOT, gid: GROUP, dev: 2 })
  const file = made('file', 0o660, { uid: OTHER, gid: GROUP })
  const calls = on({ '/s': above, '/s/v': volume, '/s/v/j': file, '/s/v/j-wal': file })
  expect(unsafeFault('/s/v/j', '/s/v/j', calls)).toBeUndefined()
  expect([groupFileWarning('/s/v/j', calls), groupWarning('/s/v', calls)]).toEqual([undefined, undefined])
})

test('root uses files of the user who owns the folder, and none that may have been planted', () => {
  const file = { '/s/j': made('file', 0o600, { uid: ME }) }
  const fault = (folder: FileFacts) => ownerFault('/s/j', on({ ...file, '/s': folder }, ROOT))
  expect(fault(made('folder', 0o700))).toBeUndefined()
  expect(fault(made('folder', 0o755, { uid: ROOT }))).toBeUndefined()
  expect(fault(made('folder', 0o1777, { uid: ROOT }))).toMatch(`uid ${ME}, this process is uid 0`)
})

test('a file that others may read causes a warning with the mode to set', () => {
  const calls = on({
    '/s': folder,
    '/s/r': made('file', 0o644),
    '/s/w': made('file', 0o606),
    '/s/g': made('file', 0o640),
  })
  expect(publicWarning('/s/r', calls)).toMatch(
    'can be read by every user of this machine (mode 0644): chmod it to 0640',
  )
  expect(publicWarning('/s/w', calls)).toMatch(
    'can be changed by every user of this machine (mode 0606): chmod it to 0600',
  )
  expect(publicWarning('/s/g', calls)).toBeUndefined()
  expect(groupFileWarning('/s/g', calls)).toMatch('can be read by its group')
  const shared = on({ '/s': made('folder', 0o770, { gid: GROUP }) })
  expect(groupWarning('/s', shared)).toMatch(`by its group (gid ${GROUP}, mode 0770)`)
})

test('a system without such users causes no warning', () => {
  const none = { ...on({ '/s': folder, '/s/j': made('link', 0o777, { uid: OTHER }) }), user: undefined }
  expect([ownerFault('/s/j', none), besideFault('/s/j', none), folderFault('/s', none)]).toEqual(
    Array(3).fill(undefined),
  )
})
