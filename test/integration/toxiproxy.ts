// toxiproxy between a client and its server: started on the loopback, its faults set over its HTTP interface.
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { freePort, HOST, until } from './receivers/ports.ts'
import { toolsFolder } from './receivers/tools.ts'

const PROGRAM = join(toolsFolder, 'bin', 'toxiproxy-server')

export const toxiproxyMissing = !existsSync(PROGRAM)

export interface Toxic {
  readonly type: 'latency' | 'bandwidth' | 'slicer' | 'reset_peer' | 'timeout' | 'limit_data' | 'slow_close'
  /** upstream: what the client sends; downstream: what it is answered */
  readonly stream: 'upstream' | 'downstream'
  readonly attributes: Readonly<Record<string, number>>
}

/** One line between a client and a server. */
export interface Line {
  readonly port: number
  add(toxic: Toxic): Promise<void>
  /** Connections are refused, and existing ones are cut. */
  refuse(): Promise<void>
  /** Removes all faults. */
  mend(): Promise<void>
  /** New connections go to another server, and existing ones are cut. */
  turn(upstreamPort: number): Promise<void>
}

export interface Toxiproxy {
  lay(upstreamPort: number): Promise<Line>
  close(): Promise<void>
}

export async function openToxiproxy(): Promise<Toxiproxy> {
  const port = await freePort()
  const child = spawn(PROGRAM, ['-host', HOST, '-port', String(port)], { stdio: 'ignore' })
  const api = async (method: string, path: string, body?: object): Promise<unknown> => {
    const reply = await fetch(`http://${HOST}:${port}${path}`, {
      method,
      ...(body ? { body: JSON.stringify(body) } : {}),
    })
    const text = await reply.text()
    if (!reply.ok) throw new Error(`toxiproxy: ${method} ${path}: ${reply.status} ${text}`)
    return text === '' ? undefined : (JSON.parse(text) as unknown)
  }
  const close = async () => {
    const ended = new Promise((resolve) => child.once('exit', resolve))
    child.kill('SIGKILL')
    await ended
  }
  try {
    await until('toxiproxy', () => api('GET', '/proxies').then(() => true, () => false)) // prettier-ignore
  } catch (error) {
    await close()
    throw error
  }
  let lines = 0
  return {
    lay: async (upstreamPort) => {
      const name = `line-${++lines}`
      const own = await freePort()
      const ends = { listen: `${HOST}:${own}`, upstream: `${HOST}:${upstreamPort}` }
      await api('POST', '/proxies', { name, enabled: true, ...ends })
      let toxics = 0
      const present = new Set<string>()
      return {
        port: own,
        add: async (toxic) => {
          const toxicName = `toxic-${++toxics}`
          present.add(toxicName)
          await api('POST', `/proxies/${name}/toxics`, { name: toxicName, toxicity: 1, ...toxic })
        },
        refuse: async () => {
          await api('POST', `/proxies/${name}`, { enabled: false })
        },
        mend: async () => {
          for (const toxic of present) await api('DELETE', `/proxies/${name}/toxics/${toxic}`)
          present.clear()
          await api('POST', `/proxies/${name}`, { enabled: true })
        },
        turn: async (next) => {
          await api('POST', `/proxies/${name}`, { upstream: `${HOST}:${next}` })
        },
      }
    },
    close,
  }
}
