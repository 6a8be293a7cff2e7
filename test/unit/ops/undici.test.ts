// What of undici a start loads. That what is taken of it is enough, proxies included, is shown by the transport's own tests.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'

const counting = `
import { registerHooks } from 'node:module'
const loaded = []
registerHooks({
  load(url, context, next) {
    const file = /\\/undici\\/(.*)/.exec(url)?.[1]
    if (file !== undefined) loaded.push(file)
    return next(url, context)
  },
})
await import('./src/commands/run.ts')
process.stdout.write(JSON.stringify(loaded))
`

it('a start loads nothing of it that nobody asks for: fetch, caches, interceptors and mocks', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', counting])
  const loaded = JSON.parse(stdout) as string[]
  expect(loaded).toContain('lib/dispatcher/agent.js')
  expect(loaded.filter((file) => /^index\.js|^lib\/(web|cache|interceptor|mock)\//.test(file))).toEqual([])
})
