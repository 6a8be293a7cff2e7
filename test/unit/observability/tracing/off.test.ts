// Switched off, tracing costs nothing: neither SDK nor exporter nor decorators are loaded. (Its API package, which does nothing alone, comes with the metrics' library.)
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'

const counting = `
import { registerHooks } from 'node:module'
const loaded = []
registerHooks({
  load(url, context, next) {
    if (/@opentelemetry\\/(?!api\\/)|tracing\\/traced/.test(url)) loaded.push(url)
    return next(url, context)
  },
})
await import('./src/cli/run/run.ts')
const { openTracing } = await import('./src/observability/tracing/open.ts')
const log = { warn() {}, info() {} }
await openTracing({ env: {}, version: '1', log, clock: {} })
const off = loaded.length
await openTracing({ env: { OTEL_TRACES_EXPORTER: 'otlp' }, version: '1', log, clock: {} })
process.stdout.write(JSON.stringify({ off, on: loaded.length > 0 }))
`

it('without a variable that asks for it, nothing of it is loaded', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', counting])
  expect(JSON.parse(stdout)).toEqual({ off: 0, on: true })
})
