// A fake's answer on a real socket: whole, endless, or as a reset.
import type { ServerResponse } from 'node:http'

interface RawReply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
  /** The body never ends. */
  readonly endless?: boolean
  readonly reset?: boolean
}

export function send(reply: RawReply, outgoing: ServerResponse): void {
  if (reply.reset) {
    outgoing.socket?.resetAndDestroy()
    return
  }
  outgoing.writeHead(reply.status, reply.headers)
  if (!reply.endless) {
    outgoing.end(reply.body)
    return
  }
  outgoing.write(reply.body)
  const more = () => {
    while (!outgoing.destroyed && outgoing.write(Buffer.alloc(16_384, 0x20)));
  }
  outgoing.on('drain', more)
  more()
}
