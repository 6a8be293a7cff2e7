// Memory for large entries (invariant 4): dead buffers are freed before more is taken, whatever the other threads do.
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { expect, it } from 'vitest'

const LARGE = join(import.meta.dirname, '../../../src/core/bytes.ts')

/** How often a dead buffer was still allocated when the next one needed memory. */
const program = `
import { allocate, makeWay } from ${JSON.stringify(LARGE)}
const LARGE_BYTES = 8 * 1024 * 1024
const touchAndDrop = () => void allocate(LARGE_BYTES).fill(1)
let stood = 0
for (let i = 0; i < 250; i++) {
  const before = process.memoryUsage().arrayBuffers
  touchAndDrop()
  makeWay(LARGE_BYTES)
  if (process.memoryUsage().arrayBuffers > before) stood++
}
process.stdout.write(String(stood))
`

it('before a large entry is read, the memory of dead ones is freed at once', () => {
  // Without threads of V8's own, which are late on a busy machine, their work would not get done at all.
  const args = ['--v8-pool-size=0', '--input-type=module', '--eval', program]
  expect(execFileSync(process.execPath, args, { encoding: 'utf8' })).toBe('0')
})
