// Finds the process that has a journal open, from Linux's list of file locks.
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { holderOf } from '../../../../src/journal/sqlite/database.ts'

let folder: string
let path: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'holder-'))
  path = join(folder, 'a.db')
  writeFileSync(path, '')
})
afterEach(() => rmSync(folder, { recursive: true }))

const lock = (pid: number, inode: number | bigint, from = 1073741824) =>
  `1: POSIX  ADVISORY  WRITE ${pid} 00:1b:${inode} ${from} 1073742335\n`
const own = () => statSync(path, { bigint: true }).ino

test("the holder is the process with SQLite's locks on this file", () => {
  const locks = lock(11, own() + 1n) + lock(12, own()) + lock(12, own(), 1073741826) + lock(13, own(), 0)
  expect(holderOf(path, () => locks)).toBe(12)
})

test.each([
  ['a process outside of this container', () => lock(0, own())],
  ['this process itself', () => lock(process.pid, own())],
  ['two processes, since one may lock a file of another disk', () => lock(11, own()) + lock(12, own())],
  ['a file without locks', () => ''],
])('there is no holder for %s', (_, locks) => {
  expect(holderOf(path, locks)).toBeUndefined()
})

test('there is no holder without a list of locks or without a file', () => {
  const none = () => {
    throw new Error('no such file')
  }
  expect(holderOf(path, none)).toBeUndefined()
  expect(holderOf(`${path}.gone`, () => '')).toBeUndefined()
})
