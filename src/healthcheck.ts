// The container's health check, small since it runs again and again: asks the listener of this machine /livez and /readyz, exits 0 or 1.
// Knows no configuration: the listener is where AUDITFERRY_LISTEN says, which is the daemon's default in the image too.
import { get } from 'node:http'

const TIMEOUT_MS = 4_000

/** host:port as it is listened on; what means all addresses is asked at the machine's own. */
function urlOf(listen: string): string {
  return `http://${listen.replace(/^0\.0\.0\.0:/, '127.0.0.1:').replace(/^\[::\]:/, '[::1]:')}`
}

/** undefined when all is well, else what is wrong */
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
