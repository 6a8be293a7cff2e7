// Sinks that write files, in a process with a real file size limit.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { disk } from '../../../src/platform/disk.ts'
import { sinkKinds } from '../../../src/sinks/index.ts'
import { linesOf, runOf, someEntries } from '../../fakes/lines.ts'
import { sinkDeps } from '../../fakes/sink-deps.ts'
import type { Met } from './limited.ts'

let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'auditferry-limited-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

test('a batch that does not fit waits and is reported with the limit: no line is torn, lost or doubled, and no object is left', async () => {
  const [path, spool] = [join(folder, 'out.ndjson'), join(folder, 'spool')]
  const program = new URL('./limited.ts', import.meta.url).pathname
  const words = ['-c', 'ulimit -f 64; exec "$0" "$@"', process.execPath, program, path, spool]
  const { stdout, stderr } = spawnSync('bash', words, { encoding: 'utf8' })
  expect(stderr).toBe('')
  const { delivered, detail, reported } = JSON.parse(stdout) as Met
  expect(reported).toHaveLength(4)
  for (const each of reported)
    expect(each).toMatch(
      /^disk_full: cannot write \(EFBIG\): set rotate\.max_bytes .*ulimit -f.*\. The path is \//,
    )
  expect(readdirSync(spool)).toEqual([])

  const { file } = sinkKinds
  const sink = file.open('archive', file.options.parse({ path }), sinkDeps({ disk }))
  const lines = (count: number, from: number) => linesOf(runOf(someEntries(count, from)), sink.frame)
  const expected = (batches: number) => Buffer.from(lines(batches * 10, 1).bytes).toString()
  expect(delivered).toBeGreaterThan(10)
  expect(readFileSync(path, 'utf8')).toBe(expected(delivered))
  const batch = { lines: lines(10, 1 + delivered * 10), detail, possibleDuplicate: true }
  await sink.deliver(batch, new AbortController().signal)
  expect(readFileSync(path, 'utf8')).toBe(expected(delivered + 1))
})
