// Standard output into real files, of a process with a real limit: what a full disk looks like to it.
import { execFile, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, beforeEach, expect, test } from 'vitest'

const MODULE = new URL('../../../src/platform/standard-streams.ts', import.meta.url).href
const BLOCK = 1024
/** Prints three pieces of 3,000 bytes, and reports on standard error how each ended. */
const PRINTS = `
import { printTo } from ${JSON.stringify(MODULE)}
const print = printTo(process.stdout)
for (const letter of 'abc')
  console.error(await print(Buffer.alloc(3_000, letter)).then(() => 'done', ({ code }) => code))
`

let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'stdout-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

function printed(limit: string, into: string) {
  const file = join(folder, 'out')
  const shell = `${limit}; exec "$0" --input-type=module -e "$1" ${into}`
  const { stderr } = spawnSync('bash', ['-c', shell, process.execPath, PRINTS, file], { encoding: 'utf8' })
  return { reported: stderr.trim().split('\n'), bytes: readFileSync(file) }
}

test('a print that the end of the disk cut in its middle has failed', () => {
  const { reported, bytes } = printed('ulimit -f 8', '> "$2"')
  expect(bytes).toHaveLength(8 * BLOCK)
  expect(reported).toEqual(['done', 'done', 'EFBIG'])
})

test('with room, all of it is in the file, behind the existing bytes', () => {
  const { reported, bytes } = printed('printf x > "$2"', '>> "$2"')
  expect(reported).toEqual(['done', 'done', 'done'])
  expect(bytes.toString()).toBe(`x${'a'.repeat(3_000)}${'b'.repeat(3_000)}${'c'.repeat(3_000)}`)
})

test('behind a pipe a slow reader gets all of it', async () => {
  const shell = '"$0" --input-type=module -e "$1" | (sleep 0.2; cat)'
  const { stdout, stderr } = await promisify(execFile)('bash', ['-c', shell, process.execPath, PRINTS])
  expect(stderr.trim().split('\n')).toEqual(['done', 'done', 'done'])
  expect(stdout).toHaveLength(9_000)
})
