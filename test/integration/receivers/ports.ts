// Ports of the loopback, and waiting for a listener there: with a limit, never for a fixed time.
import { createSocket } from 'node:dgram'
import { connect, createServer, type AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'

export const HOST = '127.0.0.1'

export interface Port {
  readonly number: number
  readonly protocol: 'tcp' | 'udp'
}

export async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, HOST, resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

export async function until(
  what: string,
  holds: () => boolean | Promise<boolean>,
  patienceMs = 15_000,
): Promise<void> {
  const deadline = performance.now() + patienceMs
  for (;;) {
    if (await holds()) return
    if (performance.now() > deadline) throw new Error(`it did not come: ${what}`)
    await pause(10)
  }
}

const accepts = (port: number) =>
  new Promise<boolean>((resolve) => {
    const socket = connect(port, HOST, () => {
      socket.destroy()
      resolve(true)
    })
    socket.on('error', () => resolve(false))
  })

const udpTaken = (port: number) =>
  new Promise<boolean>((resolve) => {
    const socket = createSocket('udp4')
    socket.on('error', () => resolve(true))
    socket.bind(port, HOST, () => socket.close(() => resolve(false)))
  })

export const taken = ({ number, protocol }: Port): Promise<boolean> =>
  protocol === 'udp' ? udpTaken(number) : accepts(number)

/** Whether any web server answers there, with whatever answer. */
export const answers = (url: string): Promise<boolean> =>
  fetch(url).then(
    () => true,
    () => false,
  )
