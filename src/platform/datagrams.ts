// Datagrams of contracts/platform.ts: UDP, connected to one receiver, so that a port without a
// listener is reported.
import { createSocket, type Socket } from 'node:dgram'
import { lookup } from 'node:dns/promises'
import { once } from 'node:events'
import { ConnectorError, errnoOf } from '../core/errors.ts'
import { type Datagrams, hostPort, type OpenDatagrams } from '../contracts/platform.ts'
import { transportError } from './network-errors.ts'

export const openDatagrams: OpenDatagrams = async (to) => {
  const { host, port } = to
  const where = hostPort(to)
  try {
    const { address, family } = await lookup(host)
    const socket = createSocket(family === 6 ? 'udp6' : 'udp4')
    await connected(socket, port, address)
    return datagramsOver(socket, where)
  } catch (error) {
    throw transportError(where, error)
  }
}

/** No callback: it would receive the failure as if it were that of the connection. */
async function connected(socket: Socket, port: number, address: string): Promise<void> {
  try {
    socket.connect(port, address)
    await once(socket, 'connect')
  } catch (error) {
    socket.close()
    throw error
  }
}

function datagramsOver(socket: Socket, where: string): Datagrams {
  // The system reports an unreceived datagram later: with one of the next calls, or in between.
  let failure: Error | undefined
  let closing: Promise<void> | undefined
  socket.on('error', (error) => (failure = error))

  const sendOne = (bytes: Uint8Array) =>
    new Promise<void>((resolve, reject) => {
      socket.send(bytes, (error) => {
        if (error) reject(error)
        else resolve()
      })
    })

  return {
    async send(bytes) {
      if (closing)
        throw new ConnectorError(
          'unreachable',
          `nothing more can be sent to ${where}: this program has closed its own socket`,
        )
      const former = failure
      failure = undefined
      try {
        if (former) throw former
        await sendOne(bytes)
      } catch (error) {
        if (errnoOf(error) !== 'EMSGSIZE') throw transportError(where, error)
        const message = `${bytes.length} bytes do not fit one datagram to ${where}; lower max_message_bytes`
        throw new ConnectorError('too_large', message, { cause: error })
      }
    },
    close() {
      closing ??= new Promise((resolve) => socket.close(() => resolve()))
      return closing
    },
  }
}
