// Memory for large entries (invariant 4): what is dead is given back before more is taken, whatever the other threads do.
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { expect, it } from 'vitest'

const LARGE = join(import.meta.dirname, '../../../src/core/bytes.ts')

/** How often a dead buffer still stood when way was made for the next one. */
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

it('when way is made for a large entry, the memory of the dead ones is given back at once', () => {
  // Without threads of V8's own, which are late on a busy machine, what is left to them does not get done at all.
  const args = ['--v8-pool-size=0', '--input-type=module', '--eval', program]
  expect(execFileSync(process.execPath, args, { encoding: 'utf8' })).toBe('0')
})
