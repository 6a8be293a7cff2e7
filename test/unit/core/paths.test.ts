// Folders are made one by one, from the first that exists: no answer of the system makes that an endless loop.
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { mkdir, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type FolderCalls, makeFolders } from '../../../src/core/paths.ts'

let root = ''
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'folders-'))
  done = []
})
afterEach(() => rmSync(root, { recursive: true, force: true }))

const at = (name: string) => join(root, name)
/** What was made and what was synced, in their order. */
let done: string[] = []
const calls: FolderCalls = {
  stat,
  mkdir: async (path, options) => {
    await mkdir(path, options)
    done.push(`make ${path}`)
  },
  sync: async (path) => void done.push(`sync ${path}`),
}
const make = (name: string) => makeFolders(at(name), calls)
const fault = (code: string) => Object.assign(new Error(code), { code })

test('missing folders are made, the topmost first, for this user alone', async () => {
  mkdirSync(at('a'))
  chmodSync(at('a'), 0o755)
  await make('a/b/c')
  expect(done.slice(0, 2)).toEqual([`make ${at('a/b')}`, `make ${at('a/b/c')}`])
  expect([at('a'), at('a/b'), at('a/b/c')].map((path) => statSync(path).mode & 0o777)).toEqual([
    0o755, 0o700, 0o700,
  ])
  done = []
  await make('a/b/c')
  expect(done).toEqual([])
})

test('new folders are synced to the disk, the lowest first, before anything is written into them', async () => {
  await make('a/b/c')
  expect(done.slice(3)).toEqual([`sync ${at('a/b')}`, `sync ${at('a')}`, `sync ${root}`])
  const sync = () => Promise.reject(fault('EIO'))
  await expect(makeFolders(at('d'), { ...calls, sync })).rejects.toMatchObject({ code: 'EIO' })
})

test('a link to a folder is a folder', async () => {
  mkdirSync(at('there'))
  symlinkSync(at('there'), at('link'))
  await make('link/x')
  expect(readdirSync(at('there'))).toEqual(['x'])
})

test('a folder that another process makes meanwhile is accepted', async () => {
  const raced = async (path: string, options: { readonly mode: number }) => {
    await mkdir(path, options)
    throw fault('EEXIST')
  }
  await makeFolders(at('a/b'), { ...calls, mkdir: raced })
  expect(statSync(at('a/b')).isDirectory()).toBe(true)
})

test('a plain file on the path and a dangling link are errors, and nothing is made', async () => {
  writeFileSync(at('plain'), '')
  symlinkSync(at('absent'), at('dangling'))
  await expect(make('plain')).rejects.toMatchObject({ code: 'ENOTDIR' })
  await expect(make('plain/a/b')).rejects.toMatchObject({ code: 'ENOTDIR' })
  await expect(make('dangling/a')).rejects.toMatchObject({ code: 'EEXIST' })
  expect(readdirSync(root).sort()).toEqual(['dangling', 'plain'])
})

test('where a parent exists and its child answers ENOENT, as in /proc, each folder is tried once', async () => {
  const asked: string[] = []
  const never = async (path: string) => {
    asked.push(path)
    throw fault('ENOENT')
  }
  await expect(makeFolders(at('a/b/c'), { ...calls, mkdir: never })).rejects.toMatchObject({ code: 'ENOENT' })
  expect(asked).toEqual([at('a')])
})
