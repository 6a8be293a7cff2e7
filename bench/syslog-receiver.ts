// A receiver of octet-counted syslog over TCP, or of datagrams, that only counts: node bench/syslog-receiver.ts tcp | udp. Prints where it listens, then what came.
import { createSocket } from 'node:dgram'
import { createServer } from 'node:net'

const TELL_MS = 20
const SPACE = 32
const ZERO = 48

let count = 0
let firstAt = 0
let lastAt = 0

function came(messages: number): void {
  firstAt ||= Date.now()
  lastAt = Date.now()
  count += messages
}

/** Counts the frames of one stream; keeps nothing of them. */
function counter(): (chunk: Buffer) => number {
  /** bytes of the message under way that are still to come */
  let left = 0
  let length = 0
  return (chunk) => {
    let frames = 0
    for (let at = 0; at < chunk.length;) {
      if (left > 0) {
        const step = Math.min(left, chunk.length - at)
        left -= step
        at += step
        if (left === 0) frames++
        continue
      }
      const byte = chunk[at++] as number
      if (byte !== SPACE) length = length * 10 + byte - ZERO
      else {
        left = length
        length = 0
      }
    }
    return frames
  }
}

if (process.argv[2] === 'udp') {
  const socket = createSocket({ type: 'udp4', recvBufferSize: 8 * 1024 * 1024 })
  socket.on('message', () => came(1))
  socket.bind(0, '127.0.0.1', () => console.log(`listening on ${socket.address().port}`))
} else {
  const server = createServer((socket) => {
    const frames = counter()
    socket.on('data', (chunk: Buffer) => came(frames(chunk)))
    socket.on('error', () => undefined)
  })
  server.listen(0, '127.0.0.1', () => {
    const address = server.address()
    console.log(`listening on ${typeof address === 'object' ? address?.port : ''}`)
  })
}

let reported = 0
setInterval(() => {
  if (count === reported) return
  reported = count
  console.log(JSON.stringify({ count, firstAt, lastAt }))
}, TELL_MS)
