// The container's health check as its own process, against a listener with various answers.
import { execFile } from 'node:child_process'
import { createServer } from 'node:http'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'

const script = join(import.meta.dirname, '../../../src/healthcheck.ts')
let server: Server | undefined

afterEach(async () => {
  await new Promise((resolve) => (server ? server.close(resolve) : resolve(undefined)))
  server = undefined
})

async function listen(statuses: Readonly<Record<string, number>>): Promise<number> {
  const opened = createServer((request, reply) => {
    reply.writeHead(statuses[request.url ?? ''] ?? 404).end()
  })
  await new Promise<void>((resolve) => opened.listen(0, '127.0.0.1', resolve))
  server = opened
  return (opened.address() as AddressInfo).port
}

function check(address: string): Promise<{ code: number; reported: string }> {
  return new Promise((resolve) => {
    const env = { PATH: process.env['PATH'], AUDITFERRY_LISTEN: address }
    execFile(process.execPath, [script], { env }, (error, stdout) => {
      resolve({ code: error ? Number(error.code) : 0, reported: stdout })
    })
  })
}

describe('the health check', () => {
  it('is healthy if both probes are, asked on this machine whatever the listen address', async () => {
    const port = await listen({ '/livez': 200, '/readyz': 200 })
    expect(await check(`0.0.0.0:${port}`)).toEqual({ code: 0, reported: 'ok\n' })
  })

  it('is unhealthy if a probe fails, and says which', async () => {
    const port = await listen({ '/livez': 200, '/readyz': 503 })
    const reported = `http://127.0.0.1:${port}/readyz answered 503\n`
    expect(await check(`127.0.0.1:${port}`)).toEqual({ code: 1, reported })
  })

  it('is unhealthy without an answer', async () => {
    const { code, reported } = await check('127.0.0.1:1')
    expect(code).toBe(1)
    expect(reported).toBe('http://127.0.0.1:1/livez does not answer: ECONNREFUSED\n')
  })
})
