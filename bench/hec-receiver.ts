// A HEC receiver that costs next to nothing, for the end-to-end benchmark: reads, counts, answers success, tells its counters and its own CPU.
import { createServer } from 'node:http'
import type { IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { parseArgs, promisify } from 'node:util'
import { gunzip } from 'node:zlib'

const { values: options } = parseArgs({
  options: {
    port: { type: 'string', default: '0' },
    /** Read gzip bodies too; without it they are counted as bytes only. */
    gunzip: { type: 'boolean', default: false },
    /** What stands exactly once in each object. */
    needle: { type: 'string', default: '"sourcetype":' },
  },
})

const unpack = promisify(gunzip)
const needle = Buffer.from(options.needle)
const answer = Buffer.from('{"text":"Success","code":0}')
const headers = { 'content-type': 'application/json; charset=UTF-8', 'content-length': answer.length }
const counters = { requests: 0, wireBytes: 0, plainBytes: 0, objects: 0, firstAt: 0, lastAt: 0 }

function occurrences(bytes: Buffer): number {
  let count = 0
  for (let at = bytes.indexOf(needle); at >= 0; at = bytes.indexOf(needle, at + needle.length)) count++
  return count
}

async function receive(request: IncomingMessage): Promise<void> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  const wire = Buffer.concat(chunks)
  counters.firstAt ||= Date.now()
  counters.requests++
  counters.wireBytes += wire.length
  const packed = request.headers['content-encoding'] === 'gzip'
  if (!packed || options.gunzip) {
    const plain = packed ? await unpack(wire) : wire
    counters.plainBytes += plain.length
    counters.objects += occurrences(plain)
  }
  counters.lastAt = Date.now()
}

function report(): string {
  const { user, system } = process.cpuUsage()
  const peakBytes = process.resourceUsage().maxRSS * 1024
  return JSON.stringify({ ...counters, cpuSeconds: (user + system) / 1e6, peakBytes })
}

const server = createServer((request, response) => {
  if (request.method === 'GET') {
    response.writeHead(200, { 'content-type': 'application/json' }).end(report())
    return
  }
  receive(request).then(
    () => response.writeHead(200, headers).end(answer),
    () => response.destroy(),
  )
})
server.keepAliveTimeout = 60_000
server.listen(Number(options.port), '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo
  process.stdout.write(`${JSON.stringify({ url: `http://127.0.0.1:${port}` })}\n`)
})

function stop(): void {
  server.close(() => process.stdout.write(`${report()}\n`))
  server.closeAllConnections()
}
process.once('SIGTERM', stop)
process.once('SIGINT', stop)
