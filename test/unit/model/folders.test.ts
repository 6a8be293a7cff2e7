// Folders are made one by one, from the first that is there: no answer of the system makes that an endless loop.
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
import { makeFolders } from '../../../src/model/folders.ts'

let root = ''
beforeEach(() => (root = mkdtempSync(join(tmpdir(), 'folders-'))))
afterEach(() => rmSync(root, { recursive: true, force: true }))

const at = (name: string) => join(root, name)
const make = (name: string) => makeFolders(at(name), { stat, mkdir })
const fault = (code: string) => Object.assign(new Error(code), { code })

test('what is lacking is made, the topmost first, for this user alone', async () => {
  mkdirSync(at('a'))
  chmodSync(at('a'), 0o755)
  expect(await make('a/b/c')).toEqual([at('a/b'), at('a/b/c')])
  expect([at('a'), at('a/b'), at('a/b/c')].map((path) => statSync(path).mode & 0o777)).toEqual([
    0o755, 0o700, 0o700,
  ])
  expect(await make('a/b/c')).toEqual([])
})

test('a link to a folder is a folder', async () => {
  mkdirSync(at('there'))
  symlinkSync(at('there'), at('link'))
  expect(await make('link/x')).toEqual([at('link/x')])
  expect(readdirSync(at('there'))).toEqual(['x'])
})

test('a folder that somebody else makes meanwhile is there', async () => {
  const raced = async (path: string, options: { readonly mode: number }) => {
    await mkdir(path, options)
    throw fault('EEXIST')
  }
  expect(await makeFolders(at('a/b'), { stat, mkdir: raced })).toEqual([])
  expect(statSync(at('a/b')).isDirectory()).toBe(true)
})

test('a plain file on the way and a link that leads nowhere are told, and nothing is made', async () => {
  writeFileSync(at('plain'), '')
  symlinkSync(at('absent'), at('dangling'))
  await expect(make('plain')).rejects.toMatchObject({ code: 'ENOTDIR' })
  await expect(make('plain/a/b')).rejects.toMatchObject({ code: 'ENOTDIR' })
  await expect(make('dangling/a')).rejects.toMatchObject({ code: 'EEXIST' })
  expect(readdirSync(root).sort()).toEqual(['dangling', 'plain'])
})

test('where a parent is there and its child answers ENOENT, as in /proc, each folder is asked for once', async () => {
  const asked: string[] = []
  const never = async (path: string) => {
    asked.push(path)
    throw fault('ENOENT')
  }
  await expect(makeFolders(at('a/b/c'), { stat, mkdir: never })).rejects.toMatchObject({ code: 'ENOENT' })
  expect(asked).toEqual([at('a')])
})
