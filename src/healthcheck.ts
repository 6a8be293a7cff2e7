// The container's health check: requests /livez and /readyz of this machine, exits 0 or 1. Reads no
// configuration, only AUDITFERRY_LISTEN, and imports little because it runs often.
import { get } from 'node:http'

const TIMEOUT_MS = 4_000

/** For a listener on all addresses: the loopback address. */
function urlOf(listen: string): string {
  return `http://${listen.replace(/^0\.0\.0\.0:/, '127.0.0.1:').replace(/^\[::\]:/, '[::1]:')}`
}

/** Resolves with the fault; undefined: none. */
function ask(url: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const request = get(url, { signal: AbortSignal.timeout(TIMEOUT_MS) }, (reply) => {
      reply.resume()
      resolve(reply.statusCode === 200 ? undefined : `${url} answered ${reply.statusCode ?? 'nothing'}`)
    })
    request.on('error', (error: NodeJS.ErrnoException) =>
      resolve(`${url} does not answer: ${error.code ?? error.message}`),
    )
  })
}

const base = urlOf(process.env['AUDITFERRY_LISTEN'] || '127.0.0.1:9464')
const wrong = (await ask(`${base}/livez`)) ?? (await ask(`${base}/readyz`))
process.stdout.write(`${wrong ?? 'ok'}\n`)
process.exitCode = wrong === undefined ? 0 : 1
