// How many connections a listener holds. Where there are too many the one that has been silent longest gives way, so that a crowd that asks for nothing keeps no probe out.
import type { Server } from 'node:http'
import type { Socket } from 'node:net'

/** A request that is being answered is never cut for it. */
export function boundCrowd(server: Server, most: number): void {
  const silent = new Set<Socket>()
  let count = 0
  server.on('connection', (socket: Socket) => {
    count++
    silent.add(socket)
    socket.once('close', () => {
      count--
      silent.delete(socket)
    })
    const [oldest] = silent
    if (count > most) oldest?.destroy()
  })
  server.on('request', ({ socket }, response) => {
    silent.delete(socket)
    response.once('close', () => {
      if (!socket.destroyed) silent.add(socket)
    })
  })
}
