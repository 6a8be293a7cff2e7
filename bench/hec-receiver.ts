// A HEC receiver that costs next to nothing while it runs, for the end-to-end benchmark: reads, counts, answers success, tells its counters and its own CPU. What came packed is unpacked and counted when somebody asks.
import { createServer } from 'node:http'
import type { IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { once } from 'node:events'
import { parseArgs } from 'node:util'
import { gunzipSync } from 'node:zlib'

const { values: options } = parseArgs({
  options: {
    port: { type: 'string', default: '0' },
    /** What stands exactly once in each object. */
    needle: { type: 'string', default: '"sourcetype":' },
  },
})

const needle = Buffer.from(options.needle)
const answer = Buffer.from('{"text":"Success","code":0}')
const headers = { 'content-type': 'application/json; charset=UTF-8', 'content-length': answer.length }
const counters = { requests: 0, wireBytes: 0, plainBytes: 0, objects: 0, firstAt: 0, lastAt: 0 }
/** Unpacking would take a quarter of a core from who is measured. */
const packedBodies: Buffer[] = []

/** Counts in pieces as they come: of each the last bytes are looked at once more with the next. */
function counter() {
  let tail = Buffer.alloc(0)
  return (bytes: Buffer): void => {
    counters.plainBytes += bytes.length
    const seam = Buffer.concat([tail, bytes.subarray(0, needle.length - 1)])
    for (const piece of [seam, bytes])
      for (let at = piece.indexOf(needle); at >= 0; at = piece.indexOf(needle, at + needle.length))
        counters.objects++
    tail = Buffer.from(bytes.subarray(-(needle.length - 1)))
  }
}

async function receive(request: IncomingMessage): Promise<void> {
  counters.firstAt ||= Date.now()
  counters.requests++
  const packed = request.headers['content-encoding'] === 'gzip'
  const chunks: Buffer[] = []
  const count = counter()
  request.on('data', (chunk: Buffer) => {
    counters.wireBytes += chunk.length
    if (packed) chunks.push(chunk)
    else count(chunk)
  })
  await once(request, 'end')
  if (packed) packedBodies.push(Buffer.concat(chunks))
  counters.lastAt = Date.now()
}

function report(): string {
  const { user, system } = process.cpuUsage()
  for (const body of packedBodies.splice(0)) counter()(gunzipSync(body))
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
