// A proxy between a client and PostgreSQL that can cut a connection around a COMMIT, or stop passing
// bytes on, as a network does.
import { connect, createServer } from 'node:net'
import type { Socket } from 'node:net'

/**
 * At the next COMMIT of a transaction of the journal:
 *
 *   before   cut instead of passing it on
 *   stuck    neither pass it on nor cut the server, whatever the client does
 *   late     cut the client, and pass it on after that
 *   after    pass it on, and cut when the server has answered
 *   mute     pass it on; from then on all answers are lost, on each connection, and none is cut
 */
type Fault = 'before' | 'stuck' | 'late' | 'after' | 'mute'

export interface Proxy {
  readonly url: string
  fail(fault: Fault): void
  /** New connections go to another server, and open ones are cut. */
  turn(socket: string): void
  /** New connections are refused, and open ones cut. */
  refuse(): void
  heal(): void
  /** A connection is being opened, or the server has not answered its last request. */
  isBusy(): boolean
  close(): Promise<void>
}

const LATE_MS = 700
/** Of the statement that fences a transaction. */
const FENCE = 'SET commits = '
/** The server's last message of an answer: its type, its length; then one byte of state. */
const READY = Buffer.from('Z\0\0\0\x05', 'latin1')
/** A simple query: its type, its length, its text, and a zero byte. */
const COMMIT = Buffer.from('Q\0\0\0\x0bCOMMIT\0', 'latin1')

/** `moved` is called before each piece that passes, and when a connection ends. */
export async function startProxy(
  socket: string,
  role: string,
  moved: () => void = () => undefined,
): Promise<Proxy> {
  let fault: Fault | undefined
  let isRefusing = false
  let isMute = false
  let target = socket
  const open = new Set<Socket>()
  /** by their client's end */
  const waiting = new Set<Socket>()
  const server = createServer((client) => {
    if (isRefusing) return void client.destroy()
    const upstream = connect(target)
    waiting.add(client)
    client.setNoDelay(true)
    const both = [client, upstream]
    const cut = () => both.forEach((end) => end.destroy())
    let sent = ''
    let isEnding = false
    for (const end of both) {
      open.add(end)
      end.on('error', cut)
      end.on('close', () => open.delete(end))
      end.on('close', () => {
        waiting.delete(client)
        moved()
      })
      end.on('close', cut)
    }
    client.on('data', (bytes: Buffer) => {
      moved()
      waiting.add(client)
      sent += bytes.toString('latin1')
      const isMeant = bytes.includes(COMMIT) && fault !== undefined && sent.includes(FENCE)
      if (bytes.includes(COMMIT)) sent = ''
      if (!isMeant) return void upstream.write(bytes)
      const kind = fault
      fault = undefined
      if (kind === 'before') {
        cut()
        return
      }
      if (kind === 'late' || kind === 'stuck') {
        client.off('close', cut)
        if (kind === 'stuck') return
        client.destroy()
        setTimeout(() => upstream.write(bytes), LATE_MS)
        return
      }
      isEnding = kind === 'after'
      isMute = kind === 'mute'
      upstream.write(bytes)
    })
    upstream.on('data', (bytes: Buffer) => {
      moved()
      if (bytes.subarray(-6, -1).equals(READY)) waiting.delete(client)
      if (isEnding) cut()
      else if (!isMute) client.write(bytes)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  const cutAll = () => [...open].forEach((end) => end.destroy())
  return {
    url: `postgres://${role}@127.0.0.1:${port}/postgres`,
    fail: (kind) => void (fault = kind),
    turn(next) {
      target = next
      cutAll()
    },
    refuse() {
      isRefusing = true
      cutAll()
    },
    heal: () => void (isRefusing = false),
    isBusy: () => waiting.size > 0,
    async close() {
      cutAll()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
