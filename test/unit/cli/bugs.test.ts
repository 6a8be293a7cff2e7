// Unexpected errors are reported by name and position only,
// since message, cause and fields may hold a secret or content.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { runProgram } from '../../../src/cli/program.ts'
import { openContext } from './context.ts'

test("a command that throws reports the error's name and position, not its message", async () => {
  const { context, heard } = openContext()
  const torn = {
    ...context,
    get env(): never {
      return JSON.parse('{"prompt": planted') as never
    },
  }
  expect(await runProgram(['validate'], torn)).toBe(1)
  const { stderr } = heard()
  expect(stderr).toContain('auditferry: a bug, please report it: SyntaxError at JSON.parse')
  expect(stderr).toContain('bugs.test.ts')
  expect(stderr).not.toContain('planted')
})

// Loaded before the program, and thrown once the program serves.
const thrower = (how: string) => `data:text/javascript,
const begin = process.stdout.write
process.stdout.write = function (...given) {
  setImmediate(() => { ${how} })
  return begin.apply(this, given)
}
const { PLANTED: data } = process.env
const fault = () => Object.assign(new TypeError(data), { data, cause: new Error(data) })`

// A busy machine may take long to start a process: the limit is only against one that hangs.
const HANGS_MS = 110_000
const SLOW = { timeout: HANGS_MS + 10_000 }

test.each([
  ['thrown and not caught', 'throw fault()'],
  ['rejected and not handled', 'void Promise.reject(fault())'],
])('an error that is %s ends the process without its message', SLOW, (_, how) => {
  const args = [
    '--import',
    encodeURI(thrower(how)),
    resolve('src/main.ts'),
    'mock',
    '--port',
    '0',
    '--entries-per-hour',
    '1',
  ]
  const env = { ...process.env, PLANTED: 'planted' }
  const child = spawnSync(process.execPath, args, { env, encoding: 'utf8', timeout: HANGS_MS })
  expect(child.status).toBe(1)
  expect(child.stderr).toMatch(/^.+\nauditferry: a bug, please report it: TypeError at .+\n$/)
  expect(child.stderr).not.toContain('planted')
})

test('an uncaught error is the last line of the log, without its message', SLOW, () => {
  const folder = mkdtempSync(join(tmpdir(), 'bugs-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const of = ['demo', '--data', folder, '--listen', '127.0.0.1:0']
  const args = ['--import', encodeURI(thrower('throw fault()')), resolve('src/main.ts'), ...of]
  const env = { ...process.env, PLANTED: 'planted' }
  const child = spawnSync(process.execPath, args, { env, encoding: 'utf8', timeout: HANGS_MS })
  expect(child.status).toBe(1)
  const lines = child.stderr.trimEnd().split('\n')
  expect(JSON.parse(lines.at(-1) ?? '')).toMatchObject({
    ...{ level: 'error', msg: 'The daemon cannot continue and stops', code: 'bug', error: 'TypeError' },
  })
  expect(child.stderr).not.toContain('planted')
})
