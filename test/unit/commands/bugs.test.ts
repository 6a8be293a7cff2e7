// What nobody meant to be thrown: told by its name and place, since its message, its cause and its fields may hold a secret or content.
import { spawnSync } from 'node:child_process'
import { resolve } from 'node:path'
import { expect, test } from 'vitest'
import { runProgram } from '../../../src/commands/program.ts'
import { openWorld } from './heard.ts'

test('a command that throws names the error and its place, not its words', async () => {
  const { world, heard } = openWorld()
  const torn = {
    ...world,
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

// Loaded before the program; thrown once that has begun to serve.
const thrower = (how: string) => `data:text/javascript,
const begin = process.stdout.write
process.stdout.write = function (...given) {
  setImmediate(() => { ${how} })
  return begin.apply(this, given)
}
const { PLANTED: data } = process.env
const fault = () => Object.assign(new TypeError(data), { data, cause: new Error(data) })`

test.each([
  ['thrown where nobody catches', 'throw fault()'],
  ['rejected where nobody listens', 'void Promise.reject(fault())'],
])('what is %s ends the process without its words', (_, how) => {
  const args = ['--import', encodeURI(thrower(how)), resolve('src/main.ts'), 'mock', '--port', '0']
  const env = { ...process.env, PLANTED: 'planted' }
  const child = spawnSync(process.execPath, args, { env, encoding: 'utf8', timeout: 20_000 })
  expect(child.status).toBe(1)
  expect(child.stderr).toMatch(/^auditferry: a bug, please report it: TypeError at .+\n$/)
  expect(child.stderr).not.toContain('planted')
})
